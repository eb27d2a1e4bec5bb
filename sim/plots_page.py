"""Pictures of results as their JSON holds them, for the page of `hotset report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotset.sim.plots import panels, policy_style
from hotset.sim.plots_axes import capacity_axis, legend_below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 4.7  # inches: letters keep their size on a phone
_TIERS = {
    "gpu": ("GPU", "#0072B2", None),
    "cpu": ("CPU", "#56B4E9", "//"),
    "ssd": ("SSD", "#E69F00", ".."),
    "computed": ("computed", "0.85", None),
}


def plot_ratios(values: dict[str, Any]) -> Figure:
    """Draw token hit ratio by capacity, a line a policy; LRU's curve where it is."""
    figure, (axes,) = panels(1, _WIDTH, 3.4)
    lines: dict[str, list[tuple[int, float]]] = {}
    looks: dict[str, dict[str, Any]] = {}
    for point in values.get("lru_curve", {}).get("points", []):
        ratio = 1 - point["token_miss_ratio"]
        lines.setdefault("lru", []).append((point["capacity_blocks"], ratio))
        looks["lru"] = policy_style("lru")
    for run in values["runs"]:
        if run["policy"] == "unbounded":
            continue
        label = run["label"]
        if label not in lines:
            same = sum(name.partition(":")[0] == run["policy"] for name in lines)
            looks[label] = policy_style(run["policy"], same)
        lines.setdefault(label, [])
        lines[label].append((run["capacity_blocks"], run["token_hit_ratio"]))
    for label, points in lines.items():
        xs, ys = zip(*sorted(set(points)), strict=True)
        axes.plot(xs, [100 * y for y in ys], label=label, ms=5, **looks[label])
    most = 100 * values["trace"]["ceiling"]["token_hit_ratio"]
    axes.axhline(most, color="0.45", ls="--", lw=1.2, label="ceiling (unbounded)")
    capacity_axis(axes, [x for points in lines.values() for x, _ in points])
    axes.set_ylim(0, None)
    axes.set_xlabel("capacity, blocks")
    axes.set_ylabel("input tokens hit, %")
    axes.grid(alpha=0.3)
    legend_below(axes)
    figure.tight_layout()
    return figure


def plot_tiers(run: dict[str, Any]) -> Figure:
    """Draw by where prompts' tokens came from, over time, as shares."""
    figure, (axes,) = panels(1, _WIDTH, 3)
    series = run["over_time"]
    edges = series["edges_s"]
    whole = [
        max(sum(series[f"{tier}_tokens"][i] for tier in _TIERS), 1)
        for i in range(len(edges) - 1)
    ]
    below = [0.0] * len(whole)
    for tier, (name, colour, hatch) in _TIERS.items():
        tokens = series[f"{tier}_tokens"]
        shares = [100 * n / w for n, w in zip(tokens, whole, strict=True)]
        top = [b + s for b, s in zip(below, shares, strict=True)]
        axes.stairs(
            top, edges, baseline=below, fill=True, facecolor=colour, hatch=hatch,
            edgecolor="0.4", lw=0.3, label=name,
        )  # fmt: skip
        below = top
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 100)
    axes.set_xlabel("seconds from the first arrival")
    axes.set_ylabel("input tokens, %")
    legend_below(axes)
    figure.tight_layout()
    return figure
