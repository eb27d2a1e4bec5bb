"""Pictures of simulations: over time, and beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.sim import gpu_matrix
from hotset.sim.metrics import Records
from hotset.sim.plots import panels, policy_style, shown_name
from hotset.sim.plots_axes import legend_below
from hotset.sim.reproduce import Reproduction
from hotset.sim.simulate import SimulationResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUM_BINS = 240  # of time
_COARSE = 6  # of them together for quantiles
_NUM_MARKS = 8


def plot_timeline(result: SimulationResult) -> Figure:
    """Draw requests waiting and running, and TTFT, over time."""
    figure, (above, middle, below) = panels(3, 9, 8, rows=3)
    names = [run.label.partition(":")[0] for run in result.runs]
    for i, run in enumerate(result.runs):
        style = policy_style(names[i], names[:i].count(names[i]))
        # Marks are far apart, and each run's at other places.
        own = _NUM_BINS // _NUM_MARKS
        style |= {"lw": 1.3, "ms": 5, "markevery": (i * own // len(names), own)}
        times = run.records.times
        edges = _edges(times["end_s"])
        centres = (edges[1:] + edges[:-1]) / 2
        waiting = _mean_present(times["arrival_s"], times["admitted_s"], edges)
        running = _mean_present(times["admitted_s"], times["end_s"], edges)
        above.plot(centres, waiting, **style)
        middle.plot(centres, running, **style)
        _draw_ttft(below, run.records, edges, {**style, "label": run.label})
    measured_s = float(result.runs[0].records.times["arrival_s"][result.first_measured])
    for axes, title in (
        (above, "requests waiting"),
        (middle, "requests taken up"),
        (below, "TTFT, s: median, thin: p95"),
    ):
        axes.set_ylabel(title)
        axes.set_ylim(0, None)
        axes.grid(alpha=0.3)
        if result.first_measured:  # what is left of it is no part of the summary
            axes.axvline(measured_s, color="0.45", lw=1, ls="--")
    below.set_xlabel("seconds from the first arrival")
    legend_below(below)
    name = shown_name(result.trace.provenance.path)
    above.set_title(
        f"{name} on {result.plan.profile.name}, {result.cpu_blocks:,} CPU blocks",
        parse_math=False,
    )
    for axes in (above, middle):
        axes.sharex(below)
        axes.tick_params(labelbottom=False)
    figure.tight_layout()
    return figure


def _edges(end_s: Float64Array) -> Float64Array:
    last = max(float(np.nanmax(end_s)), 1e-9)
    return np.linspace(0.0, last, _NUM_BINS + 1)


def _mean_present(
    since_s: Float64Array, until_s: Float64Array, edges: Float64Array
) -> Float64Array:
    """Return how many intervals cover a moment, on average over each bin."""

    def elapsed(starts: Float64Array) -> Float64Array:
        """Sum over intervals of the time since their start, at each edge."""
        starts = np.sort(starts)
        counts = np.searchsorted(starts, edges)
        sums = np.concatenate([[0.0], np.cumsum(starts)])
        return counts * edges - sums[counts]

    covered = elapsed(since_s) - elapsed(until_s)
    return np.asarray(np.diff(covered) / np.diff(edges))


def _draw_ttft(
    axes: Any, records: Records, edges: Float64Array, style: dict[str, Any]
) -> None:
    """Draw median and 95th percentile of TTFT by the bin of the arrival."""
    ttft = records.spans()["ttft_s"]
    coarse = edges[::_COARSE]
    at = np.digitize(records.times["arrival_s"], coarse) - 1
    bins = [i for i in range(len(coarse) - 1) if (at == i).any()]
    middle = [(coarse[i] + coarse[i + 1]) / 2 for i in bins]
    first, apart = style["markevery"]
    marks = (first // _COARSE, apart // _COARSE)
    median = {**style, "lw": 1.8, "markevery": marks}
    axes.plot(middle, [np.median(ttft[at == i]) for i in bins], **median)
    high = [np.quantile(ttft[at == i], 0.95) for i in bins]
    axes.plot(middle, high, color=style["color"], lw=0.8, ls=style["ls"])


def plot_reproduction(result: Reproduction) -> Figure:
    """Draw each published counter beside the simulated one: on the line is equal."""
    figure, axes = panels(len(gpu_matrix.COUNTERS), 13, 4.5)
    for each, name in zip(axes, gpu_matrix.COUNTERS, strict=True):
        unit, scale = (
            ("GB", 1e9) if name.endswith("bytes") else ("thousand tokens", 1e3)
        )
        for arm, policy in (("A1", "lru"), ("A2", "relevance")):
            chosen = [o for o in result.outcomes if o.cell.name.startswith(arm)]
            style = {**policy_style(policy), "ls": "", "ms": 7, "alpha": 0.8}
            published = [o.cell.counters[name] / scale for o in chosen]
            simulated = [o.counters[name] / scale for o in chosen]
            each.plot(published, simulated, label=f"{arm}: {policy}", **style)
        most = max(each.get_xlim()[1], each.get_ylim()[1])
        each.plot([0, most], [0, most], color="0.45", lw=1, ls="--", label="equal")
        each.set_title(name.replace("_", " "))
        each.set_xlabel(f"published, {unit}")
        each.set_ylabel(f"simulated, {unit}")
        each.grid(alpha=0.3)
    axes[0].legend()
    figure.tight_layout()
    return figure
