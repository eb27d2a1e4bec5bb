"""What a result says on a page, and words that all results share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = dict[str, Any]
Drawing = tuple[Callable[[], "Figure"], str, str]

_MOST_NAMES = 4
_T = TypeVar("_T")


@dataclass
class Said:
    """What a result says, in the order of a page.

    Parameters
    ----------
    kind : str
        The command that wrote it.
    verdicts : list of str
        What it comes to.
    curves, maps, tiers, budgets : list of (draw, title, description)
        Pictures.
    tables, sizes : list of str
        Tables, as parts of the page.
    traces : list of (path, digest)
        What it was computed from.
    settings : dict
        As the result has them.
    shown_settings : list of (name, value)
        The same as texts.
    warnings : list of str
        As the result has them.
    made_by : list of (what, value)
        Version and command, None where the result does not say.
    """

    kind: str
    verdicts: list[str] = field(default_factory=list)
    curves: list[Drawing] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    maps: list[Drawing] = field(default_factory=list)
    tiers: list[Drawing] = field(default_factory=list)
    budgets: list[Drawing] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    traces: list[tuple[str, str]] = field(default_factory=list)
    settings: Values = field(default_factory=dict)
    shown_settings: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    made_by: list[tuple[str, str | None]] = field(default_factory=list)

    def computed_from(self, trace: Values) -> None:
        """Note a trace."""
        self.traces.append((trace["path"], trace["sha256"]))


def names(labels: Iterable[str]) -> str:
    """Return names in a sentence; of many, the first and how many more."""
    every = list(dict.fromkeys(labels))
    if len(every) > _MOST_NAMES + 1:
        more = len(every) - _MOST_NAMES
        return ", ".join(every[:_MOST_NAMES]) + f" and {more} more"
    return " and ".join([", ".join(every[:-1]), every[-1]] if every[1:] else every)


def shown_best(
    rows: Sequence[_T], show: Callable[[_T], str], key: Callable[[_T], float]
) -> list[_T]:
    """Return the best and everyone whose figure reads the same: those tie.

    Parameters
    ----------
    rows : sequence
        At least one.
    show : callable
        The figure as the page has it.
    key : callable
        The most of it is best.
    """
    best = show(max(rows, key=key))
    return [row for row in rows if show(row) == best]
