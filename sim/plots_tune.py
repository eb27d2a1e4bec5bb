"""Pictures of a tuning: its trials, how sensitive the best is, and what is judged."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from hotset.sim.objectives import gain_unit
from hotset.sim.plots import panels, policy_style, shown_name
from hotset.sim.plots_axes import legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hotset.sim.tune import TuneResult

_QUIET = "0.6"


def plot_tuning(result: TuneResult) -> Figure:
    """Draw trials, sensitivity and verdict side by side.

    With several objectives the Pareto front of the first two takes a fourth panel.
    """
    has_front = len(result.evaluator.plan.objectives) > 1
    figure, axes = panels(4 if has_front else 3, 17 if has_front else 13, 4.2)
    _draw_history(result, axes[0], 1 / len(axes))
    _draw_sensitivity(result, axes[1])
    _draw_verdict(result, axes[2])
    if has_front:
        _draw_front(result, axes[3])
    name = shown_name(result.evaluator.trace.provenance.path)
    figure.suptitle(f"{name}: {result.verdict.decision}", parse_math=False)
    figure.tight_layout()
    return figure


def _draw_history(result: TuneResult, axes: Axes, share: float) -> None:
    """Draw each trial's first objective, and the best so far.

    ``share`` is what the panel is of the picture's width.
    """
    objective = result.evaluator.plan.objectives[0]
    able = [each for each in result.settled if not each.fault]
    names = dict.fromkeys(each.candidate.policy.name for each in able)
    for name in names:
        mine = [each for each in able if each.candidate.policy.name == name]
        style = policy_style(name)
        axes.plot(
            [each.place for each in mine],
            [each.score.values[0] for each in mine],
            label=name,
            **{**style, "ls": "", "ms": 4},
        )
    better = max if objective.is_gain else min
    line = list(accumulate((each.score.values[0] for each in able), better))
    axes.step([each.place for each in able], line, color=_QUIET, where="post", lw=1)
    axes.set_xlabel("trial")
    axes.set_ylabel(objective.title)
    axes.set_title("searched on the first part")
    legend_below(axes, share)


def _draw_sensitivity(result: TuneResult, axes: Axes) -> None:
    """Draw by how much the first objective falls where one parameter is changed."""
    axes.set_title("change when one parameter moves")
    best = result.best.score.values[0]
    spans: dict[str, tuple[float, float]] = {}
    for each in result.neighbours:
        change = each.score.values[0] - best
        low, high = spans.get(each.parameter, (0.0, 0.0))
        spans[each.parameter] = min(low, change), max(high, change)
    if not spans:
        axes.text(0.5, 0.5, "no parameters", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    order = sorted(spans, key=lambda name: spans[name][1] - spans[name][0])
    lows = [spans[name][0] for name in order]
    widths = [spans[name][1] - spans[name][0] for name in order]
    colour = policy_style(result.best.candidate.policy.name)["color"]
    axes.barh(order, widths, left=lows, color=colour)
    axes.axvline(0, color=_QUIET, lw=1)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel(result.evaluator.plan.objectives[0].title)


def _draw_verdict(result: TuneResult, axes: Axes) -> None:
    """Draw everyone's gain over LRU on the holdout, with its bounds."""
    rows = [row for row in result.verdict.rows if row.gain is not None]
    for at, row in enumerate(reversed(rows)):
        gain = row.gain
        if gain is None:
            continue
        colour = policy_style(row.candidate.policy.name)["color"]
        axes.plot([100 * gain.lower, 100 * gain.upper], [at, at], color=colour, lw=2)
        axes.plot([100 * gain.value], [at], "o", color=colour)
    least = 100 * result.evaluator.plan.min_gain
    axes.axvline(0, color=_QUIET, lw=1)
    axes.axvline(least, color=_QUIET, lw=1, ls="--")
    axes.set_yticks(range(len(rows)), [row.role for row in reversed(rows)])
    unit = gain_unit(result.evaluator.plan.objectives[0].name)
    axes.set_xlabel(f"gain over lru on the holdout, {unit}\n(dashed: asked for)")
    axes.set_title("judged on the rest")


def _draw_front(result: TuneResult, axes: Axes) -> None:
    """Draw the Pareto front of the first two objectives among all trials."""
    one, two = result.evaluator.plan.objectives[:2]
    able = [each for each in result.settled if not each.fault]
    for trials, colour in ((able, _QUIET), (result.front, "C3")):
        axes.plot(
            [each.score.values[0] for each in trials],
            [each.score.values[1] for each in trials],
            "o",
            ms=4,
            color=colour,
        )
    axes.set_xlabel(one.title)
    axes.set_ylabel(two.title)
    axes.set_title("Pareto front")
