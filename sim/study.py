"""Several runs over one trace, and the result that they make together.

The result is what `hotset replay` writes as JSON: the trace and its ceiling, the
definitions of the ratios, warnings, and one object for each run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hotset.policies.arrays import Int64Array
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.capacity import Capacity
from hotset.sim.engines import EngineRules
from hotset.sim.flat import flatten
from hotset.sim.parallel import reporter, run_all
from hotset.sim.replay import Replay, RunConfig, RunResult, first_measured
from hotset.sim.workload import Workload
from hotset.traces.errors import TraceError
from hotset.traces.model import Tail, Trace
from hotset.traces.stats import Ceiling, ceiling_of

_MOST_GPU_BLOCKS = 100_000_000
_MOST_STEP_TOKENS = 1 << 40

DEFINITIONS = {
    "block": "the cached unit: block_tokens tokens of the trace, or chunk_tokens where "
    "chunks are asked for",
    "hit": "a block of the longest prefix of the prompt whose blocks are all cached "
    "when the request comes",
    "token_hit_ratio": "tokens in hit blocks / all input tokens, those of partial last "
    "blocks included",
    "block_hit_ratio": "hit blocks / accesses, which are the prompts' blocks under the "
    "tail rule",
    "request_hit_ratio": "requests with at least one hit / requests",
    "ceiling": "the same ratios, over the measuring window, for a cache that holds "
    "everything",
    "stores": "blocks written to the cache",
    "evictions": "blocks that had to go for others",
    "tail": "drop: a last, partial block is not cached; count: it is cached like a "
    "full one",
}


FLAT_DEFINITIONS = {
    **DEFINITIONS,
    "hit": "a block that is cached when it is accessed, whatever stands before it",
    "token_hit_ratio": "tokens in hit blocks / tokens in accessed blocks",
    "request_hit_ratio": "hit blocks / accesses: each access is a request",
    "flat": "every access is a request of its own: no prefix has to be whole, and "
    "requests, warmup and what policies count by request mean accesses",
}


@dataclass(frozen=True)
class Study:
    """What to replay.

    Parameters
    ----------
    policies : sequence of (PolicySpec, Params)
        Eviction policies.
    capacities : sequence of Capacity
        Capacities; every policy runs at each.
    admission : (AdmissionSpec, Params)
        The admission rule of all runs.
    engine : EngineRules
        The engine of all runs.
    tail, warmup, chunk_tokens, gpu_blocks, step_tokens
        As in `Workload` and `RunConfig`.
    kv_bytes_per_token : int, optional
        For capacities in bytes.
    seed : int
        For policies that draw at random.
    flat : bool
        Whether every access is replayed by itself, see `hotset.sim.flat`.
    """

    policies: Sequence[tuple[PolicySpec, Params]]
    capacities: Sequence[Capacity]
    admission: tuple[AdmissionSpec, Params]
    engine: EngineRules
    tail: Tail = "drop"
    warmup: float = 0.0
    chunk_tokens: int | None = None
    gpu_blocks: int = 0
    step_tokens: int = 8192
    kv_bytes_per_token: int | None = None
    seed: int = 0
    flat: bool = False


@dataclass(frozen=True)
class StudyResult:
    """Runs and what they were computed from.

    Parameters
    ----------
    study : Study
        What was asked for.
    trace : Trace
        The trace.
    workload : Workload
        The trace as it was replayed.
    ceiling : Ceiling
        Of the measuring window.
    runs : list of RunResult
        By capacity, then by policy, as asked for.
    hit_tokens : list of int64[R]
        Of each run, by request; none where they were not kept.
    warnings : list of str
        What to know before trusting the runs.
    """

    study: Study
    trace: Trace
    workload: Workload
    ceiling: Ceiling
    runs: list[RunResult]
    hit_tokens: list[Int64Array]
    warnings: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        provenance, study = self.trace.provenance, self.study
        return {
            "trace": {
                "path": provenance.path,
                "sha256": provenance.sha256,
                "format": provenance.format,
                "requests": self.trace.num_requests,
                "accesses": int(self.workload.chunks.offsets[-1]),
                "distinct_blocks": self.workload.chunks.num_distinct,
                "block_tokens": self.trace.block_tokens,
                "rejected": provenance.rows_rejected,
                "options": dict(provenance.options),
                "steps": list(provenance.steps),
                "ceiling": {
                    "token_hit_ratio": self.ceiling.token_hit_ratio,
                    "block_hit_ratio": self.ceiling.block_hit_ratio,
                },
            },
            "settings": {
                "tail": study.tail,
                "warmup": study.warmup,
                "engine": study.engine.name,
                "chunk_tokens": self.workload.chunk_tokens,
                "gpu_blocks": study.gpu_blocks,
                "step_tokens": study.step_tokens,
                "kv_bytes_per_token": study.kv_bytes_per_token,
                "seed": study.seed,
                "flat": study.flat,
            },
            "definitions": FLAT_DEFINITIONS if study.flat else DEFINITIONS,
            "warnings": self.warnings,
            "runs": [dataclasses.asdict(run) for run in self.runs],
        }


def make_study(policies: Iterable[str], admission: str, **settings: Any) -> Study:
    """Build a study from the texts that name policies and admission.

    Raises
    ------
    PolicyError
        For an unknown name, a bad parameter or a setting out of range.
    """
    study = Study(
        policies=[POLICIES.parse(text) for text in policies],
        admission=ADMISSIONS.parse(admission),
        **settings,
    )
    _check(study)
    return study


def _check(study: Study) -> None:
    if not 0 <= study.warmup < 1:
        raise PolicyError(f"--warmup {study.warmup}: allowed is 0 to below 1")
    if study.gpu_blocks != 0 and not 2 <= study.gpu_blocks <= _MOST_GPU_BLOCKS:
        raise PolicyError(
            f"--gpu-blocks {study.gpu_blocks}: allowed is 0 (no GPU tier) or 2 to "
            f"{_MOST_GPU_BLOCKS}, of which the engine keeps one unused"
        )
    if not 1 <= study.step_tokens <= _MOST_STEP_TOKENS:
        raise PolicyError(
            f"--step-tokens {study.step_tokens}: allowed is 1 to {_MOST_STEP_TOKENS}"
        )
    if study.kv_bytes_per_token is not None and study.kv_bytes_per_token < 1:
        raise PolicyError(
            f"--kv-bytes-per-token {study.kv_bytes_per_token}: at least 1 is needed"
        )
    if study.seed < 0:
        raise PolicyError(f"--seed {study.seed}: allowed is 0 or more")
    has_engine = not study.engine.is_none or study.gpu_blocks > 0
    if has_engine and study.tail == "count":
        raise PolicyError("--tail count: an engine caches full blocks only")
    if study.flat and (has_engine or study.chunk_tokens is not None):
        raise PolicyError("--flat: not with --engine, --gpu-blocks or --chunk-tokens")


def run_study(
    trace: Trace,
    study: Study,
    progress: Callable[[int, int], None] | None = None,
    jobs: int = 1,
    keep_hit_tokens: bool = True,
) -> StudyResult:
    """Replay a trace under every policy at every capacity.

    Parameters
    ----------
    trace : Trace
        The trace.
    study : Study
        What to replay.
    progress : callable, optional
        Told accesses done and accesses in all, now and then.
    jobs : int
        Replays that run at once, at least 1; changes nothing in the result.
    keep_hit_tokens : bool
        Whether the result holds the hit tokens of each request, which take 8 bytes
        for each request and run.

    Raises
    ------
    PolicyError
        If a capacity is less than a block or chunk, or the window is empty.
    TraceError
        If the trace has no block ids.
    """
    check_reuse(trace)
    if study.flat:
        workload = Workload(flatten(trace, study.tail), "count")
    else:
        workload = Workload(trace, study.tail, study.chunk_tokens)
    configs = _configs(workload, study)
    total = int(workload.chunks.offsets[-1]) * len(configs)
    report = reporter(total, progress)

    def one(config: RunConfig) -> tuple[RunResult, Int64Array | None]:
        replay = Replay(workload, config)
        return replay.run(report), replay.hit_tokens if keep_hit_tokens else None

    prepare(workload, configs)
    done_runs = run_all([partial(one, config) for config in configs], jobs)
    first = first_measured(study.warmup, workload.trace.num_requests)
    return StudyResult(
        study=study,
        trace=trace,
        workload=workload,
        ceiling=_ceiling(workload, study, first),
        runs=[run for run, _ in done_runs],
        hit_tokens=[hits for _, hits in done_runs if hits is not None],
        warnings=_warnings(workload, study, configs),
    )


def check_reuse(trace: Trace) -> None:
    """Refuse a trace that says nothing of what its requests have in common.

    Raises
    ------
    TraceError
        If it has no block ids.
    """
    if trace.num_accesses == 0:
        raise TraceError(
            f"{trace.provenance.path}: no reuse information: lengths alone say nothing "
            "about cache hits; --synthetic-reuse MODEL makes reuse up"
        )


def prepare(workload: Workload, configs: Iterable[RunConfig]) -> None:
    """Make what the runs share before they start, so that threads only read it."""
    _ = workload.stream
    if any(config.policy.offline for config in configs):
        _ = workload.next_use


def _configs(workload: Workload, study: Study) -> list[RunConfig]:
    trace = workload.trace
    sizes = [
        capacity.blocks(
            workload.blocks.num_distinct, trace.block_tokens, study.kv_bytes_per_token
        )
        for capacity in study.capacities
    ]
    bounded = [pair for pair in study.policies if not pair[0].unbounded]
    unbounded = [pair for pair in study.policies if pair[0].unbounded]
    wanted = [(blocks, *pair) for blocks in sizes for pair in bounded]
    # The capacity means nothing to these, so once is enough.
    wanted += [(sizes[0], *pair) for pair in unbounded]
    return [
        RunConfig(
            policy=policy,
            params=params,
            admission=study.admission[0],
            admission_params=study.admission[1],
            capacity_blocks=blocks,
            engine=study.engine,
            gpu_blocks=study.gpu_blocks,
            step_tokens=study.step_tokens,
            warmup=study.warmup,
        )
        for blocks, policy, params in dict.fromkeys(wanted)
    ]


def _ceiling(workload: Workload, study: Study, first_request: int) -> Ceiling:
    """Return what no run can exceed, over the measuring window."""
    trace = workload.trace
    by_chunk = ceiling_of(
        workload.chunks, workload.chunk_tokens, trace.input_tokens, first_request
    )
    if study.gpu_blocks == 0:
        return by_chunk
    # The GPU tier serves single blocks, also within a chunk.
    by_block = ceiling_of(
        workload.blocks, trace.block_tokens, trace.input_tokens, first_request
    )
    return dataclasses.replace(by_chunk, hit_tokens=by_block.hit_tokens)


def _warnings(
    workload: Workload, study: Study, configs: Sequence[RunConfig]
) -> list[str]:
    """Say what the user should know before trusting the runs."""
    warnings = list(workload.trace.provenance.warnings)
    longest, per_chunk = workload.longest_blocks, workload.blocks_per_chunk
    distinct = workload.chunks.num_distinct
    for blocks in dict.fromkeys(config.capacity_blocks for config in configs):
        if blocks < longest:
            warnings.append(
                f"capacity {blocks} blocks is below the longest request, {longest} "
                "blocks: it cannot be cached whole"
            )
        if blocks // per_chunk >= distinct:
            unit = "blocks" if per_chunk == 1 else f"chunks of {per_chunk} blocks"
            warnings.append(
                f"capacity {blocks} blocks holds all {distinct} distinct {unit}: "
                "nothing is evicted, so policies do not differ"
            )
    warnings += limits_of_the_optimum(study)
    warnings += too_small_gpu(workload, study.gpu_blocks)
    return warnings


def too_small_gpu(workload: Workload, gpu_blocks: int) -> list[str]:
    """Say where a GPU tier cannot run the longest request; 0 is no GPU tier."""
    need = int(np.diff(workload.blocks.offsets).max(initial=0)) + 1
    if gpu_blocks == 0 or need <= gpu_blocks - 1:
        return []
    return [
        f"a GPU tier of {gpu_blocks} blocks cannot run the longest request, which "
        f"needs {need + 1}"
    ]


def limits_of_the_optimum(study: Study) -> list[str]:
    """Say where an offline policy of this study is no bound for the others."""
    names = ", ".join(dict.fromkeys(p.name for p, _ in study.policies if p.offline))
    if not names:
        return []
    reasons = []
    if study.gpu_blocks > 0:
        reasons.append("its future counts blocks that the GPU tier serves")
    if study.warmup > 0:
        reasons.append("it spares misses before the measuring window as well")
    if study.tail == "count":
        reasons.append("it counts a partial block like a full one")
    return [f"{names}: {reason}, so it is no exact optimum here" for reason in reasons]
