"""From a trace to a configuration: search, judge, look around the answer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hotset.policies.errors import PolicyError
from hotset.policies.sources import digest_of
from hotset.sim.candidate import Candidate, candidate
from hotset.sim.drift import Drift
from hotset.sim.evaluate import Evaluator, first_of_holdout, make_evaluator
from hotset.sim.ledger import Ledger, Settled, fault_of
from hotset.sim.study import check_reuse
from hotset.sim.trial_store import open_study, shown
from hotset.sim.trials import Search, best_of, front_of
from hotset.sim.tune_plan import BASELINE, TunePlan, first_candidates
from hotset.sim.verdict import Bench, Verdict, judge
from hotset.sim.workers import Score, Workers, make_workers
from hotset.traces.model import Trace

_PACKAGE = Path(__file__).parent
_POLICIES = _PACKAGE.parent / "policies"

Progress = Callable[[Sequence[Settled]], None]


@dataclass(frozen=True)
class Neighbour:
    """What changing one parameter of the best does on the part searched on.

    Parameters
    ----------
    parameter : str
        Policy or rule, and name.
    value : bool, int, float or str
        What it was changed to.
    score : Score
        The objectives then.
    """

    parameter: str
    value: Any
    score: Score


@dataclass(frozen=True)
class Split:
    """A search on a beginning of the trace, judged on what follows it.

    Parameters
    ----------
    fit_requests, judged_requests : int
        Requests searched on, and judged on right behind them.
    best : Candidate
        What the search found.
    gain : float
        Over LRU, in the first objective.
    """

    fit_requests: int
    judged_requests: int
    best: Candidate
    gain: float


@dataclass(frozen=True)
class TuneResult:
    """Everything that a tuning found.

    Parameters
    ----------
    evaluator : Evaluator
        What ran it.
    study_name : str
        Digest of all that the trials depend on.
    settled : list of Settled
        The trials.
    is_complete : bool
        Whether all trials asked for were run.
    best : Settled
        The best of them.
    front : list of Settled
        The Pareto front; the best alone where there is one objective.
    verdict : Verdict
        What to do.
    neighbours : list of Neighbour
        How sensitive the best is.
    at_bounds : list of str
        Parameters of the best that lie at an end of their range.
    splits : list of Split
        Walk-forward, where it was asked for.
    """

    evaluator: Evaluator
    study_name: str
    settled: list[Settled]
    is_complete: bool
    best: Settled
    front: list[Settled]
    verdict: Verdict
    neighbours: list[Neighbour]
    at_bounds: list[str]
    splits: list[Split]

    @property
    def drift(self) -> Drift | None:
        """The current file's promise beside what it gains here; None without one."""
        plan, row = self.evaluator.plan, self.verdict.row("current")
        if plan.promise is None or row is None or row.gain is None:
            return None
        if plan.promise.objective != plan.objectives[0].name or self._is_elsewhere:
            return None
        return Drift(plan.promise.gain, row.gain)

    @property
    def _is_elsewhere(self) -> bool:
        """Whether the current file was tuned for another tier or engine."""
        evaluator, plan = self.evaluator, self.evaluator.plan
        return plan.promise is not None and not plan.promise.holds_for(
            (plan.cpu.text, evaluator.capacity_blocks),
            (plan.engine.name, evaluator.chunk_tokens, plan.gpu_blocks),
        )

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting the answer."""
        found = list(self.evaluator.trace.provenance.warnings)
        found += self.verdict.warnings
        if self._is_elsewhere:
            found.append(
                "the current file was tuned for another size, engine or chunk, so what "
                "it promised is not compared"
            )
        if self.best.candidate.tiers is not None:
            found.append(
                "a server takes the sizes of its tiers and what is written to the SSD "
                'from its own configuration: set there what "ssd" says here, as '
                "hotset export prints it"
            )
        found += [f"at an end of its range: {each}" for each in self.at_bounds]
        losing = sum(split.gain < 0 for split in self.splits)
        if losing:
            found.append(
                f"walk-forward: in {losing} of {len(self.splits)} splits what was "
                "found on the beginning does worse than lru on what follows"
            )
        failed = sum(bool(each.fault) for each in self.settled)
        if failed:
            first = next(each for each in self.settled if each.fault)
            found.append(
                f"{failed} trials failed; the first one, {first.candidate.label}: "
                f"{first.fault}"
            )
        return found


def run_tune(
    trace: Trace,
    plan: TunePlan,
    storage: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    started: Callable[[int], None] | None = None,
    cluster: str | None = None,
) -> TuneResult:
    """Search, and judge the best.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : TunePlan
        What to do.
    storage : str, optional
        A journal's file or a database's URL, see `hotset.sim.trial_store`; memory
        without one.
    jobs : int
        Processes that run candidates; changes nothing in the result.
    progress : callable, optional
        Told the trials so far, after each batch.
    started : callable, optional
        Told how many trials an earlier run has left.
    cluster : str, optional
        A Ray cluster that runs candidates, see `hotset.sim.ray_workers`; changes
        nothing in the result.

    Raises
    ------
    PolicyError
        If the capacity holds no chunk, a part of the trace is empty, LRU itself
        cannot be judged, or every trial failed.
    TraceError
        For a trace of lengths alone.
    """
    check_reuse(trace)
    space = dataclasses.replace(plan.space, most_keys=trace.num_blocks)
    plan = dataclasses.replace(plan, space=space)
    evaluator = make_evaluator(trace, plan)
    first = first_of_holdout(trace, plan)
    # Raises where an objective has no meaning on this trace, at once and for all.
    evaluator.score(candidate(BASELINE), first)
    name = study_name(trace, plan)
    with make_workers(evaluator, first, jobs, cluster) as workers:
        with open_study(storage, name, plan.objectives) as kept:
            search = _search(plan, Ledger(*kept))
            if started is not None:
                started(search.num_known)
            try:
                is_complete = search.run(workers, plan.trials, plan.timeout_s, progress)
            except OSError as error:
                raise PolicyError(
                    f"--storage {shown(storage)}: {error.strerror}; finished trials "
                    "are kept, and the same command goes on"
                ) from None
        if not search.settled or all(each.fault for each in search.settled):
            raise PolicyError(_why_none(search.settled))
        best = best_of(search.settled, plan.objectives)
        neighbours = _neighbours(plan, best.candidate, workers)
    return TuneResult(
        evaluator=evaluator,
        study_name=name,
        settled=search.settled,
        is_complete=is_complete,
        best=best,
        front=front_of(search.settled, plan.objectives),
        verdict=judge(evaluator, best.candidate),
        neighbours=neighbours,
        at_bounds=plan.space.at_bounds(best.candidate),
        splits=_walk_forward(evaluator, jobs, cluster),
    )


def study_name(trace: Trace, plan: TunePlan) -> str:
    """Return a digest of all that decides what trials get.

    The trace and how it was read, the plan but for how long to search and how to judge,
    and the sources of policies, replay and simulation.
    """
    provenance = trace.provenance
    told = {
        "trace": [
            provenance.sha256,
            provenance.format,
            list(provenance.options),
            list(provenance.steps),
            trace.num_requests,
        ],
        "space": plan.space.digest(),
        "first": [each.label for each in first_candidates(plan)],
        "objectives": [each.name for each in plan.objectives],
        "cpu": plan.cpu.text,
        "engine": plan.engine.name,
        "profile": None if plan.profile is None else plan.profile.as_json(),
        "sampler": plan.sampler,
        "seed": plan.seed,
        "rest": [
            plan.tail,
            plan.chunk_tokens,
            plan.gpu_blocks,
            plan.step_tokens,
            plan.kv_bytes_per_token,
            plan.speed,
            plan.fit,
        ],
        "sources": sources_digest(),
    }
    if plan.tiers is not None:
        told["tiers"] = plan.tiers.as_json()
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return f"hotset-{digest[:32]}"


def sources_digest() -> str:
    """Return a digest of the sources that decide what a candidate gets."""
    files = [_PACKAGE / name for name in ("evaluate.py", "trials.py", "space.py")]
    files += sorted(_POLICIES.glob("*.py"))
    return digest_of(frozenset(map(str, files)))


def _search(plan: TunePlan, ledger: Ledger) -> Search:
    return Search(
        ledger,
        plan.space,
        plan.objectives,
        first_candidates(plan),
        plan.sampler,
        plan.seed,
    )


def _why_none(settled: Sequence[Settled]) -> str:
    if not settled:
        return "--timeout: no trial was run in that time"
    return f"all {len(settled)} trials failed: {settled[0].fault}"


def _neighbours(plan: TunePlan, best: Candidate, workers: Workers) -> list[Neighbour]:
    moved = list(plan.space.neighbours(best))
    futures = [workers.submit(other) for _, _, other in moved]
    found = [
        Neighbour(name, value, future.result())
        for (name, value, _), future in zip(moved, futures, strict=True)
    ]
    return [each for each in found if not fault_of(each.score)]


def _walk_forward(evaluator: Evaluator, jobs: int, cluster: str | None) -> list[Split]:
    """Search on longer and longer beginnings; judge each on the part behind it."""
    plan, trace = evaluator.plan, evaluator.trace
    count = trace.num_requests
    parts = plan.walk_forward + 1
    edges = [count * part // parts for part in range(1, parts + 1)]
    bench = Bench(evaluator) if plan.walk_forward else None
    splits = []
    for begin, end in pairwise(edges):
        if bench is None or begin == 0 or end == begin:
            continue
        fit = dataclasses.replace(plan, timeout_s=None)
        with (
            make_workers(evaluator, begin, jobs, cluster) as workers,
            open_study(None, "walk-forward", plan.objectives) as kept,
        ):
            search = _search(fit, Ledger(*kept))
            search.run(workers, plan.trials)
        best = best_of(search.settled, plan.objectives).candidate
        gain = bench.gain_between(best, begin, end)
        splits.append(Split(begin, end - begin, best, gain))
    return splits
