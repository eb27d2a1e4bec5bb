"""The picture of a size: the hit-ratio curve of LRU with budgets marked on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hotset.sim.mrc import LRU
from hotset.sim.plots import panels, policy_style
from hotset.sim.size import Tier, TraceFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARK = "0.25"


def _compact(tokens: float, _place: object = None) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if tokens >= size:
            return f"{tokens / size:g} {unit}"
    return f"{tokens:g}"


def draw_size(axes: Axes, fit: TraceFit, tiers: list[Tier]) -> Axes:
    """Draw hits against tokens cached, and return the axes."""
    curve, block_tokens = fit.curve, fit.trace.block_tokens
    first = max(min(curve.first_capacity, curve.most_blocks), 1)
    blocks = np.arange(first, curve.most_blocks + 1)
    hits = curve.hit_tokens[first:] / max(curve.input_tokens, 1)
    style = {**policy_style(LRU), "marker": None}
    axes.plot(blocks * block_tokens, hits, label=LRU, drawstyle="steps-post", **style)
    knee = curve.knee()
    if knee is not None:
        at = (knee * block_tokens, curve.hit_tokens[knee] / curve.input_tokens)
        axes.plot(*at, "o", color="black", ms=9, mfc="none", label="knee")
    tokens = 0
    for count, tier in enumerate(tiers, 1):
        tokens += tier.tokens
        name = " + ".join(each.name for each in tiers[:count])
        ratio = fit.token_hit_ratio(tokens)
        said = "" if ratio is None else f", {100 * ratio:.1f} %"
        line = ("--", ":")[(count - 1) % 2]
        axes.axvline(tokens, color=_MARK, ls=line, lw=1.4, label=f"{name}{said}")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(_compact)
    axes.yaxis.set_major_formatter(lambda ratio, _place: f"{100 * ratio:.0f} %")
    axes.set_xlabel("tokens that fit")
    axes.set_ylabel("input tokens served from the cache")
    axes.set_ylim(0, None)
    axes.grid(alpha=0.3)
    axes.legend()
    return axes


def plot_size(fit: TraceFit, tiers: list[Tier]) -> Figure:
    """Draw the curve with the tiers marked."""
    figure, (axes,) = panels(1, 8, 5)
    draw_size(axes, fit, tiers)
    figure.tight_layout()
    return figure
