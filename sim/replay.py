"""Replay of a trace under one policy: exact integer counts, no clock.

`Replay` runs step by step, so that a caller can show progress, stop, or look at what is
resident; `RunResult` holds the counts and the ratios made of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotset.policies.admission import ThresholdParams
from hotset.policies.arc import ArcParams
from hotset.policies.arrays import Int64Array
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.lru import LruParams
from hotset.policies.slots import make_slots
from hotset.sim import engine_loop, loop
from hotset.sim.engines import EngineRules
from hotset.sim.gpu import make_gpu
from hotset.sim.workload import Workload

_UNITS = {"request": loop.BY_REQUEST, "key": loop.BY_KEY, "second": loop.BY_SECOND}
_SLICE_ACCESSES = 4_000_000
_NO_LIMIT = 1 << 40


@dataclass(frozen=True)
class RunConfig:
    """One run: a policy at a capacity behind an engine.

    Parameters
    ----------
    policy, params : PolicySpec, Params
        The eviction policy.
    admission, admission_params : AdmissionSpec, Params
        The admission rule.
    capacity_blocks : int
        Trace blocks that fit, at least one chunk.
    engine : EngineRules
        The engine's rules.
    gpu_blocks : int
        Blocks of the GPU's pool in front, 0 for none.
    step_tokens : int
        Tokens that the engine prefills in one step.
    warmup : float
        Share of the requests before the measuring window, in [0, 1).
    """

    policy: PolicySpec
    params: Params
    admission: AdmissionSpec
    admission_params: Params
    capacity_blocks: int
    engine: EngineRules
    gpu_blocks: int = 0
    step_tokens: int = 8192
    warmup: float = 0.0


@dataclass(frozen=True)
class RunResult:
    """Counts of one run over its measuring window.

    ``label`` names the policy as asked for: its name and what differs from defaults.
    Ratios are in [0, 1], and 0 where the window holds nothing to count.
    """

    policy: str
    label: str
    params: dict[str, Any]
    admission: dict[str, Any]
    capacity_blocks: int
    requests: int
    accesses: int
    input_tokens: int
    hit_blocks: int
    hit_tokens: int
    gpu_hit_tokens: int
    token_hit_ratio: float
    block_hit_ratio: float
    request_hit_ratio: float
    stores: int
    evictions: int
    refused_stores: int
    measured_from_request: int


class Replay:
    """A run in progress.

    Parameters
    ----------
    workload : Workload
        The requests.
    config : RunConfig
        The run.

    Raises
    ------
    PolicyError
        If the capacity holds no chunk.
    """

    def __init__(self, workload: Workload, config: RunConfig) -> None:
        self.workload = workload
        self.config = resolve(config)
        self._label = config.policy.label(config.params)
        self.next_request = 0
        num_requests = workload.trace.num_requests
        self.first_measured = first_measured(config.warmup, num_requests)
        chunks = workload.chunks
        self.capacity_chunks = _capacity_chunks(workload, config)
        spec = config.policy
        # A slot for every distinct chunk is as good as any number more.
        num_slots = min(self.capacity_chunks, max(chunks.num_distinct, 1))
        self._policy = spec.make(
            self.config.params,
            num_slots,
            workload.next_use if spec.offline else None,
        )
        self._admission = config.admission.make(self.config.admission_params)
        self._slots = make_slots(num_slots)
        self._books = loop.make_books(chunks.num_distinct, num_requests)
        self._scratch = loop.make_scratch(chunks.offsets, chunks.ids)
        self._is_plain = config.engine.is_none and config.gpu_blocks == 0
        if not self._is_plain:
            self._gpu = make_gpu(config.gpu_blocks, workload.blocks.num_distinct)
            self._plan = self._make_plan()

    @property
    def is_done(self) -> bool:
        """Whether all requests were replayed."""
        return self.next_request >= self.workload.trace.num_requests

    def advance(self, num_requests: int) -> None:
        """Replay that many more requests, or those that are left."""
        start = self.next_request
        stop = min(start + num_requests, self.workload.trace.num_requests)
        if self._is_plain:
            loop.replay_plain(
                self._policy,
                self._admission,
                self._slots,
                self.workload.stream,
                self._books,
                self._scratch,
                _UNITS[self.config.policy.age_unit],
                self.workload.chunk_tokens,
                self.first_measured,
                start,
                stop,
            )
        else:
            engine_loop.replay_engine(
                self._policy,
                self._admission,
                self._slots,
                self._gpu,
                self.workload.stream,
                self._books,
                self._scratch,
                self._plan,
                start,
                stop,
            )
        self.next_request = stop

    def run(self, progress: Callable[[int], None] | None = None) -> RunResult:
        """Replay what is left; ``progress`` is told the accesses done, now and then."""
        offsets = self.workload.chunks.offsets
        while not self.is_done:
            done = offsets[self.next_request]
            upto = int(np.searchsorted(offsets, done + _SLICE_ACCESSES, side="right"))
            self.advance(max(upto - 1 - self.next_request, 1))
            if progress is not None:
                progress(int(offsets[self.next_request] - done))
        return self.result()

    @property
    def hit_tokens(self) -> Int64Array:
        """Hit tokens of each request that was replayed, int64[R]."""
        return self._books.hit_tokens

    def resident(self) -> Int64Array:
        """Return the ids of resident chunks, ascending."""
        return np.flatnonzero(self._books.slot_of >= 0)

    def result(self) -> RunResult:
        """Return the counts so far."""
        counts = [int(count) for count in self._books.counts]
        config = self.config
        per_chunk = self.workload.blocks_per_chunk
        return RunResult(
            policy=config.policy.name,
            label=self._label,
            params=dataclasses.asdict(config.params),
            admission={
                "name": config.admission.name,
                **dataclasses.asdict(config.admission_params),
            },
            capacity_blocks=self.capacity_chunks * per_chunk,
            requests=counts[loop.REQUESTS],
            accesses=counts[loop.ACCESSES],
            input_tokens=counts[loop.INPUT_TOKENS],
            hit_blocks=counts[loop.HIT_BLOCKS_TOTAL],
            hit_tokens=counts[loop.HIT_TOKENS],
            gpu_hit_tokens=counts[loop.GPU_HIT_TOKENS],
            token_hit_ratio=_ratio(counts[loop.HIT_TOKENS], counts[loop.INPUT_TOKENS]),
            block_hit_ratio=_ratio(
                counts[loop.HIT_BLOCKS_TOTAL], counts[loop.ACCESSES]
            ),
            request_hit_ratio=_ratio(counts[loop.HIT_REQUESTS], counts[loop.REQUESTS]),
            stores=counts[loop.STORES],
            evictions=counts[loop.EVICTIONS],
            refused_stores=counts[loop.REFUSED_STORES],
            measured_from_request=self.first_measured,
        )

    def _make_plan(self) -> engine_loop.Plan:
        config, workload = self.config, self.workload
        rules = config.engine
        touch = engine_loop.ONCE
        if is_vllms_own(config.params):
            touch = engine_loop.EACH_TIME if rules.reports_all else engine_loop.REPORTED
        numbers = np.zeros(engine_loop.NUM_PLAN, np.int64)
        numbers[engine_loop.BLOCK_TOKENS] = workload.trace.block_tokens
        numbers[engine_loop.CHUNK_TOKENS] = workload.chunk_tokens
        numbers[engine_loop.STEP_TOKENS] = (
            _NO_LIMIT if rules.is_none else config.step_tokens
        )
        numbers[engine_loop.WHOLE_OFFERS] = rules.whole_offers
        numbers[engine_loop.TOUCH] = touch
        # Blocks being written are evictable two steps on; each offer is one sight.
        numbers[engine_loop.RETRIES] = 2 + _min_count(config.admission_params)
        numbers[engine_loop.OFFERS_AT_END] = rules.offers_at_end
        numbers[engine_loop.UNIT] = _UNITS[config.policy.age_unit]
        numbers[engine_loop.FIRST_MEASURED] = self.first_measured
        longest = len(self._scratch.used)
        return engine_loop.Plan(
            numbers=numbers,
            gpu_offsets=workload.blocks.offsets,
            gpu_ids=workload.blocks.ids,
            output_tokens=workload.trace.output_tokens,
            pending=np.zeros((2, longest), np.int32),
            num_pending=np.zeros(2, np.int64),
        )


def first_measured(warmup: float, num_requests: int) -> int:
    """Return the index of the measuring window's first request."""
    return math.floor(warmup * num_requests)


def resolve(config: RunConfig) -> RunConfig:
    """Fill in what the engine decides where the user left it open.

    The order of an engine's own LRU and ARC, and when a sight counts.
    """
    params, admission_params = config.params, config.admission_params
    if isinstance(params, LruParams) and params.order == "auto":
        params = dataclasses.replace(params, order=config.engine.lru_order)
    elif isinstance(params, ArcParams) and params.order == "auto":
        params = dataclasses.replace(params, order=config.engine.arc_order)
    if (
        isinstance(admission_params, ThresholdParams)
        and admission_params.count == "auto"
    ):
        count = config.engine.count
        admission_params = dataclasses.replace(admission_params, count=count)
    return dataclasses.replace(config, params=params, admission_params=admission_params)


def _capacity_chunks(workload: Workload, config: RunConfig) -> int:
    if config.policy.unbounded:
        return max(workload.chunks.num_distinct, 1)
    chunks = config.capacity_blocks // workload.blocks_per_chunk
    if chunks < 1:
        raise PolicyError(
            f"a capacity of {config.capacity_blocks} blocks holds no chunk of "
            f"{workload.blocks_per_chunk} blocks; at least one is needed"
        )
    return chunks


def is_vllms_own(params: Params) -> bool:
    """Return whether a policy is one of vLLM's, which hears of uses as vLLM's does."""
    if not isinstance(params, (LruParams, ArcParams)):
        return False
    return params.order.startswith("vllm")


def _min_count(params: Params) -> int:
    return params.min_count if isinstance(params, ThresholdParams) else 0


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
