"""A place of a regime map: who hits what, by how much, and what of it is noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hotset.policies.registry import POLICIES
from hotset.sim.noise import standard_error

SCORING, DISTANCE, THRESHOLD, BUDGET = KNOBS = (
    "scoring",
    "distance",
    "store_threshold",
    "budget",
)
# 97.5 % quantiles of Student's t by degrees of freedom, rounded up.
_STUDENT = (
    (1, 12.71), (2, 4.31), (3, 3.19), (4, 2.78), (5, 2.58), (6, 2.45), (7, 2.37),
    (8, 2.31), (9, 2.27), (11, 2.21), (14, 2.15), (19, 2.1), (29, 2.05), (59, 2.0),
)  # fmt: skip


@dataclass(frozen=True)
class Sum:
    """What a run hit, by unit of comparison."""

    label: str
    policy: str
    hit_tokens: tuple[int, ...]


@dataclass(frozen=True)
class Margin:
    """A difference of two token hit ratios, and what it may be by chance."""

    value: float
    noise: float
    least: float

    @property
    def is_tie(self) -> bool:
        """Whether it is within the noise, or too small to matter."""
        return abs(self.value) <= max(self.noise, self.least)


@dataclass(frozen=True)
class Knob:
    """The best setting of a knob, and its margin over LRU at the same place."""

    name: str
    sum: Sum
    margin: Margin

    @property
    def setting(self) -> str:
        """What results call the setting."""
        return self.sum.label


@dataclass(frozen=True)
class Cell:
    """A place of the map with everyone's sums.

    Parameters
    ----------
    x, y : str
        Its values along the two dimensions.
    capacity_blocks : tuple of int
        By seed.
    input_tokens : tuple of int
        By unit of comparison.
    ceiling_tokens : int
        What an unbounded cache hits.
    digests : tuple of str
        Of the traces, by seed.
    policies : list of Sum
        Everyone, `BASELINE` first and `OPTIMUM` last.
    thresholds : list of Sum
        `BASELINE` with each store threshold.
    scored, guarded, larger : Sum
        The policies of the knobs, and `BASELINE` with the larger budget.
    least : float
        As in `Plan`.
    """

    x: str
    y: str
    capacity_blocks: tuple[int, ...]
    input_tokens: tuple[int, ...]
    ceiling_tokens: int
    digests: tuple[str, ...]
    policies: list[Sum]
    thresholds: list[Sum]
    scored: Sum
    guarded: Sum
    larger: Sum
    least: float

    @property
    def baseline(self) -> Sum:
        """LRU."""
        return self.policies[0]

    @property
    def online(self) -> list[Sum]:
        """Everyone but those who know the future."""
        return [s for s in self.policies if not POLICIES.get(s.policy).offline]

    def ratio(self, one: Sum) -> float:
        """Return the token hit ratio."""
        return sum(one.hit_tokens) / sum(self.input_tokens)

    @property
    def ceiling(self) -> float:
        """The token hit ratio of an unbounded cache."""
        return self.ceiling_tokens / sum(self.input_tokens)

    def margin(self, one: Sum, other: Sum | None = None) -> Margin:
        """Return the margin of one over another, over LRU where none is named."""
        behind = self.baseline if other is None else other
        gains = [a - b for a, b in zip(one.hit_tokens, behind.hit_tokens, strict=True)]
        tokens = self.input_tokens
        noise = 1.0  # of a single pair, anything may be chance
        if len(gains) > 1:
            noise = quantile(len(gains) - 1) * standard_error(tokens, gains)
        return Margin(sum(gains) / sum(tokens), noise, self.least)

    @cached_property
    def best(self) -> Sum:
        """Who hits most, the first of equals."""
        return max(self.online, key=lambda s: sum(s.hit_tokens))

    @cached_property
    def winner(self) -> Sum:
        """Who hits most of those ahead of LRU beyond their noise; LRU without one."""
        return self._ahead(self.online) or self.baseline

    @property
    def shown(self) -> Sum:
        """Whose numbers stand for the place: the winner's; the best's in a tie."""
        return self.best if self.is_tie else self.winner

    @property
    def is_tie(self) -> bool:
        """Whether nobody is ahead of LRU."""
        return self.winner is self.baseline

    @property
    def level(self) -> list[str]:
        """Everyone whose distance to the best is a tie, the best included."""
        best = self.best
        return [s.label for s in self.online if self.margin(best, s).is_tie]

    @cached_property
    def knobs(self) -> list[Knob]:
        """Each knob at its best setting, in the order of `KNOBS`."""
        tried = {
            SCORING: [self.scored],
            DISTANCE: [self.guarded],
            THRESHOLD: self.thresholds,
            BUDGET: [self.larger],
        }
        found = []
        for name, sums in tried.items():
            best = self._ahead(sums) or max(sums, key=lambda s: sum(s.hit_tokens))
            found.append(Knob(name, best, self.margin(best)))
        return found

    def _ahead(self, sums: Sequence[Sum]) -> Sum | None:
        """Return who hits most of those ahead of LRU beyond their noise.

        One that hits more still may be noisier, and so a tie.
        """
        margins = [(one, self.margin(one)) for one in sums]
        able = [one for one, over in margins if over.value > 0 and not over.is_tie]
        return max(able, key=lambda s: sum(s.hit_tokens), default=None)

    def knob_that_helps(self, among: Sequence[str] = KNOBS) -> Knob | None:
        """Return the knob with most to gain; None where each is a tie or loses."""
        able = [
            knob
            for knob in self.knobs
            if knob.name in among and knob.margin.value > 0 and not knob.margin.is_tie
        ]
        return max(able, key=lambda k: k.margin.value, default=None)


def quantile(degrees: int) -> float:
    """Return how many standard errors the noise is, at 95 % confidence."""
    return max((d, q) for d, q in _STUDENT if d <= degrees)[1]
