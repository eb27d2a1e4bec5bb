"""The picture of a size: the hit-ratio curve of LRU with budgets marked on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotset.sim.mrc import LRU
from hotset.sim.plots import panels, policy_style
from hotset.sim.plots_axes import legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARK = "0.25"


def _compact(tokens: float, _place: object = None) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if tokens >= size:
            return f"{tokens / size:g} {unit}"
    return f"{tokens:g}"


def draw_size(axes: Axes, values: dict[str, Any]) -> Axes:
    """Draw hits against tokens cached, and return the axes."""
    fit = values["trace"]
    xs = [point["tokens"] for point in fit["curve"]]
    ys = [point["token_hit_ratio"] for point in fit["curve"]]
    style = {**policy_style(LRU), "marker": None}
    axes.plot(xs, ys, label=LRU, drawstyle="steps-post", **style)
    knee = fit["knee_tokens"]
    if knee in xs:
        at = (knee, ys[xs.index(knee)])
        axes.plot(*at, "o", color="black", ms=9, mfc="none", label="knee")
    tokens = 0
    for place, (tier, row) in enumerate(zip(values["tiers"], fit["lru"], strict=True)):
        tokens += tier["tokens"]
        name, ratio = " + ".join(row["tiers"]), row["token_hit_ratio"]
        said = "" if ratio is None else f", {100 * ratio:.1f} %"
        line = ("--", ":")[place % 2]
        axes.axvline(tokens, color=_MARK, ls=line, lw=1.4, label=f"{name}{said}")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_compact)
    axes.yaxis.set_major_formatter(lambda ratio, _place: f"{100 * ratio:.0f} %")
    axes.set_xlabel("tokens that fit")
    axes.set_ylabel("input tokens hit")
    axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    return legend_below(axes)


def plot_size(values: dict[str, Any], inches: float = 8.0) -> Figure:
    """Draw the curve with the tiers marked, from what ``--json`` writes.

    Parameters
    ----------
    values : dict
        With ``trace`` in it.
    inches : float
        Width.
    """
    figure, (axes,) = panels(1, inches, inches * 0.62)
    draw_size(axes, values)
    figure.tight_layout()
    return figure
