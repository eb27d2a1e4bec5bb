"""What a comparison holds: who takes part, on what, and how everyone did.

A cell is a trace at a capacity. It is ranked where the capacity is below the working
set: the least capacity at which LRU hits all that can be hit in the second part.
"""

from __future__ import annotations

from dataclasses import dataclass

from hotset.policies.arrays import Int64Array
from hotset.policies.base import Params, PolicySpec
from hotset.sim.capacity import Capacity
from hotset.sim.noise import Groups, noise_floor
from hotset.sim.workload import Workload
from hotset.traces.stats import Ceiling

OURS = ("weighted", "guard", "adaptive", "leader")
BASELINE, OPTIMUM = "lru", "belady"

AHEAD, LEVEL, BEHIND = "ahead", "level", "behind"


@dataclass(frozen=True)
class Contestant:
    """A policy with fixed parameters, or with parameters to be searched.

    Parameters
    ----------
    policy : PolicySpec
        The policy.
    params : Params
        Its parameters, or the defaults where they are searched.
    tuned : bool
        Whether they are searched.
    """

    policy: PolicySpec
    params: Params
    tuned: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether this is one of hotset's own policies."""
        return self.policy.name in OURS

    @property
    def name(self) -> str:
        """What tables call it; the parameters found stand elsewhere."""
        return f"{self.policy.name}, tuned" if self.tuned else self.label

    @property
    def label(self) -> str:
        """The text that names the policy with its parameters."""
        return self.policy.label(self.params)


@dataclass(frozen=True)
class Standing:
    """What a contestant hit in a cell.

    Parameters
    ----------
    contestant : Contestant
        With the parameters that were used.
    hit_tokens : int
        Over the second part.
    by_group : int64[G]
        The same by group of requests.
    """

    contestant: Contestant
    hit_tokens: int
    by_group: Int64Array


@dataclass(frozen=True)
class Verdict:
    """The best of ours beside the best of the others."""

    ours: Standing
    others: Standing
    difference: float
    noise_floor: float

    @property
    def outcome(self) -> str:
        """`AHEAD`, `LEVEL` within the noise floor, or `BEHIND`."""
        if abs(self.difference) <= self.noise_floor:
            return LEVEL
        return AHEAD if self.difference > 0 else BEHIND


@dataclass(frozen=True)
class Contest:
    """A trace as it is contested.

    Parameters
    ----------
    workload, fit_workload : Workload
        The whole trace, and its first part.
    first : int
        The first request of the second part.
    groups : Groups
        Of the second part's requests.
    ceiling : Ceiling
        Of the second part.
    working_set_blocks : int or None
        The least capacity at which LRU hits all that can be hit; None where nothing
        can.
    """

    workload: Workload
    fit_workload: Workload
    first: int
    groups: Groups
    ceiling: Ceiling
    working_set_blocks: int | None


@dataclass(frozen=True)
class Cell:
    """A trace at a capacity, with everyone's standing: LRU first, the optimum last."""

    contest: Contest
    capacity: Capacity
    capacity_blocks: int
    standings: list[Standing]

    @property
    def is_ranked(self) -> bool:
        """Whether the capacity is below the working set, so that policies matter."""
        least = self.contest.working_set_blocks
        return least is not None and self.capacity_blocks < least

    @property
    def baseline(self) -> Standing:
        """The standing of LRU, which comes first."""
        return self.standings[0]

    @property
    def optimum(self) -> Standing:
        """The standing of the optimum, which comes last."""
        return self.standings[-1]

    def ratio(self, standing: Standing) -> float:
        """Return the token hit ratio."""
        return standing.hit_tokens / self.contest.ceiling.input_tokens

    def gain(self, standing: Standing) -> float:
        """Return the token hit ratio above that of LRU."""
        more = standing.hit_tokens - self.baseline.hit_tokens
        return more / self.contest.ceiling.input_tokens

    def gap_closed(self, standing: Standing) -> float | None:
        """Return the share of the way from LRU to the optimum, None without one."""
        least = self.baseline.hit_tokens
        gap = self.optimum.hit_tokens - least
        return (standing.hit_tokens - least) / gap if gap > 0 else None

    def noise(self, one: Standing, other: Standing) -> float:
        """Return the noise floor of the difference of two."""
        return noise_floor(self.contest.groups, one.by_group, other.by_group)

    def verdict(self) -> Verdict | None:
        """Return the best of ours beside the best of the others; None without both."""
        online = [s for s in self.standings if not s.contestant.policy.offline]
        ours = [s for s in online if s.contestant.is_ours]
        others = [s for s in online if not s.contestant.is_ours]
        if not ours or not others or not self.is_ranked:
            return None
        best = max(ours, key=lambda s: s.hit_tokens)
        rival = max(others, key=lambda s: s.hit_tokens)
        return Verdict(
            best,
            rival,
            difference=self.ratio(best) - self.ratio(rival),
            noise_floor=self.noise(best, rival),
        )
