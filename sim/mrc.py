"""Miss-ratio curves: LRU at every capacity in one pass, other policies on a grid.

A miss ratio is 1 minus the hit ratio of the same name (see `hotset.sim.study`).
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotset.policies.arrays import Int64Array
from hotset.policies.base import Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.lru import LruParams
from hotset.policies.registry import POLICIES
from hotset.sim.capacity import Capacity, parse_capacity
from hotset.sim.replay import RunResult, first_measured
from hotset.sim.reuse import reuse_distances
from hotset.sim.study import (
    Study,
    StudyResult,
    check_reuse,
    limits_of_the_optimum,
    run_study,
)
from hotset.sim.workload import Workload
from hotset.traces.files import atomic_write
from hotset.traces.model import Trace

LRU = "lru"
SHARES_PERCENT = (50, 90, 99)
_MOST_POINTS = 1000
_SMALLEST_SHARE = 1000  # of the distinct blocks: where a grid begins

DEFINITIONS = {
    "miss_ratio": "1 - the hit ratio of the same name",
    "lru_curve": "LRU at every capacity: the hits change only at the capacities listed",
    "exact_from_blocks": "the least capacity of the LRU curve: 1, or the longest "
    "request's blocks where a block stands behind different prefixes",
    "knee": "the capacity at which the curve of LRU's hit tokens lies furthest above "
    "the straight line from no blocks and no hits to the least capacity with the most "
    "hits",
    "enough_for": "the least capacity at which LRU hits that percentage of the "
    "ceiling's tokens, null where none does",
}


@dataclass(frozen=True)
class LruCurve:
    """Hits of plain LRU at every capacity, over the measuring window.

    Parameters
    ----------
    first_capacity : int
        The least capacity that the curve holds for, blocks.
    hit_blocks, hit_tokens, hit_requests : int64[U + 1]
        By capacity in blocks, 0 to the number of distinct blocks; more capacity
        changes nothing.
    requests, accesses, input_tokens : int
        Of the measuring window.
    """

    first_capacity: int
    hit_blocks: Int64Array
    hit_tokens: Int64Array
    hit_requests: Int64Array
    requests: int
    accesses: int
    input_tokens: int

    @property
    def most_blocks(self) -> int:
        """Distinct blocks of the trace."""
        return len(self.hit_blocks) - 1

    def covers(self, capacity: int) -> bool:
        """Return whether the curve holds for a capacity."""
        return capacity >= self.first_capacity

    def counts(self, capacity: int) -> dict[str, int | float]:
        """Return what a replay at that capacity would count."""
        at = min(capacity, self.most_blocks)
        blocks, tokens = int(self.hit_blocks[at]), int(self.hit_tokens[at])
        return {
            "capacity_blocks": capacity,
            "hit_requests": int(self.hit_requests[at]),
            "hit_blocks": blocks,
            "hit_tokens": tokens,
            "block_miss_ratio": miss_ratio(blocks, self.accesses),
            "token_miss_ratio": miss_ratio(tokens, self.input_tokens),
        }

    def steps(self) -> Int64Array:
        """Return the capacities at which the hits change, the first one included."""
        first = min(self.first_capacity, self.most_blocks)
        grows = np.diff(self.hit_blocks[first:]) > 0
        grows |= np.diff(self.hit_tokens[first:]) > 0
        later = np.flatnonzero(grows) + first + 1
        return np.concatenate([[max(self.first_capacity, 1)], later])

    def knee(self) -> int | None:
        """Return the knee in blocks, see `DEFINITIONS`; None where nothing hits."""
        most = int(self.hit_tokens[-1])
        if most == 0:
            return None
        width = int(np.searchsorted(self.hit_tokens, most))
        first = min(self.first_capacity, width)
        capacities = np.arange(first, width + 1)
        # In floats only to find the place, where whole numbers could overflow.
        over_line = self.hit_tokens[first : width + 1] / most - capacities / width
        return int(capacities[over_line.argmax()])

    def enough_for(self, percent: int, ceiling_tokens: int) -> int | None:
        """Return the least capacity that hits a share of the ceiling's tokens."""
        wanted = -(-percent * ceiling_tokens // 100)
        first = min(self.first_capacity, self.most_blocks)
        at = first + int(np.searchsorted(self.hit_tokens[first:], wanted))
        return at if at <= self.most_blocks else None


def miss_ratio(hits: int, whole: int) -> float:
    """Return the share that is not hit, 0 where there is nothing to hit."""
    return (whole - hits) / whole if whole else 0.0


def lru_curve(workload: Workload, warmup: float = 0.0) -> LruCurve:
    """Return the curve of plain LRU.

    Parameters
    ----------
    workload : Workload
        The requests.
    warmup : float
        Share of the requests before the measuring window, in [0, 1).
    """
    trace, offsets = workload.trace, workload.chunks.offsets
    first = first_measured(warmup, trace.num_requests)
    distances, first_capacity = reuse_distances(workload, first)
    size = workload.chunks.num_distinct + 1
    blocks = np.cumsum(distances.blocks[:size])
    missing = np.cumsum(distances.missing_tokens[:size])
    return LruCurve(
        first_capacity=first_capacity,
        hit_blocks=blocks,
        hit_tokens=blocks * workload.chunk_tokens - missing,
        hit_requests=np.cumsum(distances.requests[:size]),
        requests=trace.num_requests - first,
        accesses=int(offsets[-1] - offsets[first]),
        input_tokens=int(trace.input_tokens[first:].sum()),
    )


def check_points(points: int) -> None:
    """Raise PolicyError unless a grid can have that many capacities."""
    if not 2 <= points <= _MOST_POINTS:
        raise PolicyError(f"--points {points}: allowed is 2 to {_MOST_POINTS}")


def grid(distinct_blocks: int, points: int) -> list[Capacity]:
    """Return capacities in equal steps of their logarithm, up to everything.

    Parameters
    ----------
    distinct_blocks : int
        Distinct blocks of the trace.
    points : int
        How many, at least 2; those that are equal in whole blocks become one.
    """
    most = max(distinct_blocks, 1)
    least = max(most // _SMALLEST_SHARE, 1)
    sizes = [
        round(least * (most / least) ** (step / (points - 1))) for step in range(points)
    ]
    return [parse_capacity(str(blocks)) for blocks in dict.fromkeys(sizes)]


@dataclass(frozen=True)
class CurveResult:
    """The curve of LRU and the replays beside it.

    Parameters
    ----------
    replays : StudyResult
        Policies on the grid; plain LRU is the first of them where the curve does not
        hold for the whole grid.
    curve : LruCurve
        LRU.
    capacities : list of int
        The grid, blocks.
    """

    replays: StudyResult
    curve: LruCurve
    capacities: list[int]

    def enough_for(self) -> dict[int, int | None]:
        """Return by share of the ceiling, in percent, what LRU needs for it."""
        most = self.replays.ceiling.hit_tokens
        return {
            percent: self.curve.enough_for(percent, most) if most else None
            for percent in SHARES_PERCENT
        }

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values; the whole LRU curve is in the CSV."""
        result = self.replays.as_json()
        result["definitions"] = {**result["definitions"], **DEFINITIONS}
        covered = [blocks for blocks in self.capacities if self.curve.covers(blocks)]
        result["lru_curve"] = {
            "exact_from_blocks": self.curve.first_capacity,
            "requests": self.curve.requests,
            "accesses": self.curve.accesses,
            "input_tokens": self.curve.input_tokens,
            "knee_blocks": self.curve.knee(),
            "enough_for_percent": {
                str(percent): blocks for percent, blocks in self.enough_for().items()
            },
            "points": [self.curve.counts(blocks) for blocks in covered],
        }
        return result


def run_curves(
    trace: Trace,
    study: Study,
    points: int,
    progress: Callable[[int, int], None] | None = None,
    jobs: int = 1,
) -> CurveResult:
    """Compute the curve of LRU, and replay the study's policies on the grid.

    Parameters
    ----------
    trace : Trace
        The trace.
    study : Study
        Policies and settings, no engine; its capacities are the grid, or where it has
        none, ``points`` of them are chosen.
    points, progress, jobs
        As in `grid` and `run_study`.

    Raises
    ------
    PolicyError
        As `run_study`, and for a policy that never evicts.
    TraceError
        For a trace of lengths alone.
    """
    for policy, _ in study.policies:
        if policy.unbounded:
            raise PolicyError(
                f"--policy {policy.name}: it has no curve, and is shown as the ceiling"
            )
    check_reuse(trace)
    workload = Workload(trace, study.tail)
    curve = lru_curve(workload, study.warmup)
    distinct = workload.chunks.num_distinct
    wanted = study.capacities or grid(distinct, points)
    sizes = {
        capacity.blocks(
            distinct, trace.block_tokens, study.kv_bytes_per_token
        ): capacity
        for capacity in wanted
    }
    policies = [pair for pair in study.policies if not _is_plain_lru(*pair)]
    if not all(curve.covers(blocks) for blocks in sizes):
        policies.insert(0, POLICIES.parse(LRU))
    study = dataclasses.replace(
        study, policies=policies, capacities=[sizes[blocks] for blocks in sorted(sizes)]
    )
    replays = run_study(trace, study, progress, jobs, keep_hit_tokens=False)
    # That small caches hold no long request and large ones all is what a curve shows.
    warnings = [*trace.provenance.warnings, *limits_of_the_optimum(study)]
    replays = dataclasses.replace(replays, warnings=warnings)
    return CurveResult(replays, curve, sorted(sizes))


def _is_plain_lru(policy: PolicySpec, params: Params) -> bool:
    """Return whether a policy is the LRU that the curve is of."""
    return isinstance(params, LruParams) and params.order in ("auto", "tail-first")


def write_curves(result: CurveResult, path: Path) -> None:
    """Write all curves as CSV: LRU wherever it changes, others on the grid.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    with atomic_write(path) as out:
        writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rows(result))


_COLUMNS = (
    "policy",
    "capacity_blocks",
    "hit_requests",
    "hit_blocks",
    "hit_tokens",
    "block_miss_ratio",
    "token_miss_ratio",
)


def _rows(result: CurveResult) -> Iterator[dict[str, Any]]:
    for capacity in result.curve.steps().tolist():
        yield {"policy": LRU, **result.curve.counts(capacity)}
    for run in by_policy(result.replays.runs):
        if run.label == LRU and result.curve.covers(run.capacity_blocks):
            continue
        yield {
            "policy": run.label,
            "capacity_blocks": run.capacity_blocks,
            "hit_requests": round(run.request_hit_ratio * run.requests),
            "hit_blocks": run.hit_blocks,
            "hit_tokens": run.hit_tokens,
            "block_miss_ratio": miss_ratio(run.hit_blocks, run.accesses),
            "token_miss_ratio": miss_ratio(run.hit_tokens, run.input_tokens),
        }


def by_policy(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return runs by policy, in order of their first appearance, then by capacity."""
    labels = list(dict.fromkeys(run.label for run in runs))
    return sorted(runs, key=lambda run: (labels.index(run.label), run.capacity_blocks))
