"""What to do with the best candidate: deploy it, keep LRU, or do without offloading.

Judged on the holdout, requests that the search has not seen, with the cache as warm as
the requests before left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hotset.sim.bootstrap import CONFIDENCE, Gain, gain_of_ratio, gain_of_ttft
from hotset.sim.candidate import Candidate, candidate
from hotset.sim.evaluate import Evaluator, Outcome, first_of_holdout
from hotset.sim.noise import Groups, make_groups
from hotset.sim.objectives import gain_unit
from hotset.sim.tune_plan import BASELINE

WITHOUT = "no-offload"
DEPLOY, KEEP_LRU, NO_OFFLOAD = "deploy", "keep-lru", "offload-does-not-pay"
PARTS = 4
_FEW_GROUPS = 20
_POINTS = {
    "token_hit_ratio": "points of the token hit ratio",
    "saved_prefill_s": "% of the prefill time",
    "ttft_p95_s": "% of the p95 TTFT",
}
# A threshold that next to nothing reaches: what the GPU's own cache gets.
_NOTHING = {"name": "threshold", "min_count": 1000, "max_tracker_size": 1}


@dataclass(frozen=True)
class Row:
    """What one candidate got on the holdout.

    Parameters
    ----------
    role : str
        "best", "lru", "arc", "current", "no-offload" or "optimum".
    candidate : Candidate
        It.
    objectives : dict of str to float
        All objectives over the holdout.
    gain : Gain or None
        Over LRU, in the first objective; None for LRU itself.
    by_part : list of float
        The gain over LRU in each of `PARTS` equal parts of the whole trace.
    """

    role: str
    candidate: Candidate
    objectives: dict[str, float]
    gain: Gain | None
    by_part: list[float]


@dataclass(frozen=True)
class Verdict:
    """The decision and what it rests on.

    Parameters
    ----------
    decision : str
        `DEPLOY`, `KEEP_LRU` or `NO_OFFLOAD`.
    reason : str
        One sentence.
    rows : list of Row
        Everyone's results.
    groups : Groups
        What the bootstrap drew.
    first : int
        The holdout's first request.
    warnings : list of str
        What to know before trusting it.
    """

    decision: str
    reason: str
    rows: list[Row]
    groups: Groups
    first: int
    warnings: list[str]

    def row(self, role: str) -> Row | None:
        """Return the row of a role, None where there is none."""
        return next((row for row in self.rows if row.role == role), None)


def judge(evaluator: Evaluator, best: Candidate) -> Verdict:
    """Judge the best candidate of a search on the holdout.

    Raises
    ------
    PolicyError
        Where a run that the verdict needs cannot be done.
    """
    bench = Bench(evaluator)
    rows = [bench.row(role, each) for role, each in _roles(evaluator, best)]
    by_role = {row.role: row for row in rows}
    decision, reason = _decide(
        by_role["best"], by_role, bench.over_nothing(best), evaluator
    )
    return Verdict(
        decision,
        reason,
        rows,
        bench.groups,
        bench.first,
        _warnings(by_role, bench.groups, evaluator.plan.objectives[0].name),
    )


class Bench:
    """Compares candidates with LRU on an evaluator's trace.

    Parameters
    ----------
    evaluator : Evaluator
        Runs them.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._outcomes: dict[str, Outcome] = {}
        self.first = first_of_holdout(evaluator.trace, evaluator.plan)
        self.groups = make_groups(evaluator.trace, self.first)
        self._base = self.outcome(candidate(BASELINE))

    def outcome(self, each: Candidate) -> Outcome:
        """Return what a candidate gets over the whole trace; runs it once."""
        if each.label not in self._outcomes:
            self._outcomes[each.label] = self._evaluator.outcome(each)
        return self._outcomes[each.label]

    def without(self) -> Outcome:
        """Return what requests get where nothing is offloaded."""
        plan = self._evaluator.plan
        if plan.in_time or plan.gpu_blocks > 0:
            return self.outcome(nothing())
        none = np.zeros(self._evaluator.trace.num_requests)
        return Outcome(none, dict.fromkeys(self._base.objectives, 0.0))

    def row(self, role: str, each: Candidate) -> Row:
        """Return a candidate's results beside LRU's."""
        outcome = self.without() if role == WITHOUT else self.outcome(each)
        count = self._evaluator.trace.num_requests
        edges = [count * part // PARTS for part in range(PARTS + 1)]
        by_part = [
            self._between(outcome, begin, end)
            for begin, end in pairwise(edges)
            if end > begin
        ]
        gain = None if role == BASELINE else self._gain(outcome, self._base)
        return Row(role, each, outcome.objectives, gain, by_part)

    def over_nothing(self, each: Candidate) -> Gain | None:
        """Return what a candidate gains over no offloading; None for TTFT."""
        if self._evaluator.weights is None:
            return None
        return self._gain(self.outcome(each), self.without())

    def gain_between(self, each: Candidate, begin: int, end: int) -> float:
        """Return the gain over LRU in requests ``begin`` to ``end`` - 1."""
        return self._between(self.outcome(each), begin, end)

    def _between(self, outcome: Outcome, begin: int, end: int) -> float:
        one, other = outcome.values[begin:end], self._base.values[begin:end]
        weights = self._evaluator.weights
        if weights is None:
            slow = [float(np.quantile(run, 0.95)) for run in (one, other)]
            return (slow[1] - slow[0]) / slow[1] if slow[1] > 0 else 0.0
        return float((one - other).sum() / weights[begin:end].sum())

    def _gain(self, one: Outcome, other: Outcome) -> Gain:
        seed, weights = self._evaluator.plan.seed, self._evaluator.weights
        ours, theirs = one.values[self.first :], other.values[self.first :]
        if weights is None:
            return gain_of_ttft(self.groups, ours, theirs, seed)
        return gain_of_ratio(self.groups, weights[self.first :], ours, theirs, seed)


def nothing() -> Candidate:
    """Return what stores nothing."""
    return candidate(BASELINE, _NOTHING)


def _roles(evaluator: Evaluator, best: Candidate) -> list[tuple[str, Candidate]]:
    plan = evaluator.plan
    roles = [("best", best), (BASELINE, candidate(BASELINE)), ("arc", candidate("arc"))]
    if plan.current is not None:
        roles.append(("current", plan.current))
    if evaluator.weights is not None:
        roles.append((WITHOUT, nothing()))
    if not plan.in_time:
        roles.append(("optimum", candidate("belady")))
    return roles


def _decide(
    best: Row, rows: dict[str, Row], over_nothing: Gain | None, evaluator: Evaluator
) -> tuple[str, str]:
    plan = evaluator.plan
    least = plan.min_gain
    sure = f"with {100 * CONFIDENCE:g} % confidence"
    say = _POINTS[plan.objectives[0].name]
    if over_nothing is not None and over_nothing.upper < least:
        return NO_OFFLOAD, (
            f"on the holdout {best.candidate.label} gets "
            f"{100 * over_nothing.value:.2f} {say} more than no offloading at all, "
            f"{sure} at most {100 * over_nothing.upper:.2f}, which is below the "
            f"{100 * least:.2f} asked for"
        )
    if best.candidate == candidate(BASELINE):
        return KEEP_LRU, "nothing that was tried beats lru on the requests searched on"
    assert best.gain is not None
    got = (
        f"on the holdout {best.candidate.label} gains {100 * best.gain.value:.2f} "
        f"{say} over lru, {sure} at least {100 * best.gain.lower:.2f}, "
    )
    if best.gain.lower > least:
        return DEPLOY, f"{got}which is above the {100 * least:.2f} asked for"
    return KEEP_LRU, f"{got}which is not above the {100 * least:.2f} asked for"


def _warnings(rows: dict[str, Row], groups: Groups, objective: str) -> list[str]:
    best, unit = rows["best"], gain_unit(objective)
    found = []
    if best.gain is not None and best.candidate != candidate(BASELINE):
        losing = [i + 1 for i, gain in enumerate(best.by_part) if gain < 0]
        if losing and len(losing) < len(best.by_part):
            told = ", ".join(f"{100 * gain:+.2f}" for gain in best.by_part)
            found.append(
                f"parts of the trace disagree: in its {len(best.by_part)} quarters the "
                f"best gains {told} {unit} over lru"
            )
    for role, who in (("arc", "vLLM's own arc"), ("current", "what runs today")):
        other = rows.get(role)
        if other is None or other.candidate in (best.candidate, candidate(BASELINE)):
            continue
        if other.gain and best.gain and other.gain.value >= best.gain.value > 0:
            found.append(
                f"on the holdout {who}, {other.candidate.label}, does as well as the "
                "best of the search"
            )
    count = len(groups.input_tokens)
    if count < _FEW_GROUPS:
        found.append(
            f"the holdout has {count} {groups.kind}: too few for trustworthy bounds"
        )
    return found
