"""What pictures have in common: an axis of capacities, and a legend off the data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIGN_INCHES = 0.085  # of a digit of an axis
_LETTER_INCHES = 0.085  # of a wide letter of a legend
_HANDLE_INCHES = 0.55
_MOST_COLUMNS = 5
_BELOW_INCHES = 0.48  # from the axes: marks and what they are
_OF_PICTURE = 0.88  # share of a picture's width, whose axes are not in the middle
_OF_AXES = 0.78  # share of a picture's width


def capacity_axis(axes: Axes, capacities: Iterable[float]) -> Axes:
    """Make the axis logarithmic, with the capacities that have room as its marks."""
    sizes = sorted({size for size in capacities if size > 0})
    axes.set_xscale("log")
    if sizes:
        kept = _apart(sizes, _figure(axes).get_figwidth() * _OF_AXES)
        axes.set_xticks(kept, [f"{size:,.0f}" for size in kept])
        axes.set_xticks([], minor=True)
    if len(sizes) == 1:
        axes.set_xlim(sizes[0] / 2, sizes[0] * 2)
    return axes


def _figure(axes: Axes) -> Figure:
    return cast("Figure", axes.figure)


def _apart(sizes: list[float], inches: float) -> list[float]:
    """Return sizes whose names do not touch, the largest among them."""
    span = math.log(sizes[-1] / sizes[0])
    room = (_SIGN_INCHES * len(f"{sizes[-1]:,.0f}") + 0.12) / inches * span
    kept: list[float] = []
    for size in reversed(sizes):
        if not kept or math.log(kept[-1] / size) >= room:
            kept.append(size)
    return kept[::-1]


def legend_below(axes: Axes, share: float = 1.0) -> Axes:
    """Put the legend beneath the axes and make the picture so much higher.

    Parameters
    ----------
    axes : Axes
        In the lowest row of its picture.
    share : float
        Of the picture's width that is the axes' own.
    """
    handles, labels = axes.get_legend_handles_labels()
    figure = _figure(axes)
    width, height = figure.get_size_inches()
    down = _BELOW_INCHES / (axes.get_position().height * height)
    most = int((share * width - _HANDLE_INCHES) / _LETTER_INCHES) - 2
    labels = [shortened(label, most) for label in labels]
    for columns in range(min(len(labels), _MOST_COLUMNS), 0, -1):
        legend = axes.legend(
            handles,
            labels,
            loc="upper center",
            ncols=columns,
            frameon=False,
            fontsize=9,
            bbox_to_anchor=(0.5, -down),
            borderaxespad=0.0,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        extent = legend.get_window_extent()
        if extent.width <= share * figure.bbox.width * _OF_PICTURE:
            break
    higher = height + extent.height / figure.dpi + 0.1 if labels else height
    figure.set_size_inches(width, higher)
    return axes


def shortened(text: str, most: int) -> str:
    """Return a text cut to so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"
