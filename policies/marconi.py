"""The score of vllm-marconi-offload: reuse, age and depth.

Idea: a block is worth ``reuse(count) * exp(-decay * age) / (depth + 1) ** b``; the
least worth goes first. Counts are of sights in requests, resident or not, so a block
that returns brings its past along; a block near the root outlives its descendants.

Source: vllm-marconi-offload 0.2.2 (its b is 1), named after Marconi (MLSys 2025),
whose FLOP term it does not use.

State: ``order`` holds exactly the resident slots by the logarithm of the worth without
the part that all share, ``ln reuse - b ln(depth + 1) + decay * (last_use - base)``,
which changes only when a block is used or counted. ``base`` moves up now and then, so
that float64 keeps its precision.

Deviations: scores so small that exp() gives 0 stay in order here. Equal scores fall to
the block used longest ago, the tail of a request first; the original takes the lower
slot number. The original's age counts engine steps, here requests.

Cost: O(1) a use and a count, O(log of those of about the same worth) a victim.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.calendar import (
    Calendar,
    calendar_clear,
    calendar_rebuild,
    calendar_remove,
    calendar_set,
    calendar_set_aside,
    calendar_take,
    holds,
    make_calendar,
    width_for,
)
from hotset.policies.counts import (
    CountTable,
    count_hot,
    count_of,
    counts_touch,
    make_counts,
)
from hotset.policies.jit import inlined, kernel
from hotset.policies.log_terms import (
    LogTerms,
    count_term,
    depth_term,
    make_log_terms,
    spread,
)
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.verbs import Kernels, register_kernels

_DECAY, _BASE, _REBASE_AT = 0, 2, 3
_THRESHOLD, _USES = 0, 1


@dataclass(frozen=True)
class MarconiParams(Params):
    """Parameters of `marconi`."""

    reuse: str = param(
        "linear", "how the count of sights enters", choices=("linear", "log", "none")
    )
    decay: float = param(
        0.0, "loss of worth with age", low=0.0, high=100.0, unit="1/request"
    )
    depth_weight: float = param(
        1.0, "power of (depth + 1) that divides the worth", low=0.0, high=8.0
    )
    admission_threshold: int = param(
        1, "sights of a block before it is stored", low=1, high=1000, unit="sights"
    )
    tracker_size: int = param(
        100_000,
        "keys whose sights are counted",
        low=1,
        high=100_000_000,
        log=True,
        unit="keys",
        tuned=False,
    )


class MarconiState(NamedTuple):
    """Residents by worth, and the counts of all keys."""

    order: Calendar
    terms: LogTerms
    depth: Int32Array  # int32[C], 0-based
    last_use: Float64Array  # float64[C]
    seen: Int32Array  # int32[C], sights, at least 1
    table: CountTable
    weights: Float64Array  # float64[4]: decay, depth weight, base, when to rebase
    numbers: Int64Array  # int64[2]: admission threshold, uses so far


def make_marconi(
    params: MarconiParams, capacity: int, next_use: Any = None
) -> MarconiState:
    """Build the state."""
    span = spread(capacity, params.depth_weight, 1.0, params.decay)
    return MarconiState(
        order=make_calendar(capacity, width_for(capacity, span)),
        terms=make_log_terms(params.reuse, depth_weight=params.depth_weight),
        depth=np.zeros(capacity, np.int32),
        last_use=np.zeros(capacity, np.float64),
        seen=np.ones(capacity, np.int32),
        table=make_counts(params.tracker_size),
        weights=np.array([params.decay, params.depth_weight, 0.0, 2.0**20], np.float64),
        numbers=np.array([params.admission_threshold, 0], np.int64),
    )


@inlined
def _key(state: MarconiState, slot: int) -> float:
    weights = state.weights
    age_part = weights[_DECAY] * (state.last_use[slot] - weights[_BASE])
    key = age_part - depth_term(state.terms, state.depth[slot])
    return key + count_term(state.terms, state.seen[slot])


@inlined
def _rebase(state: MarconiState, now: float) -> None:
    """Start ages anew from ``now`` once keys have grown large."""
    weights = state.weights
    if weights[_DECAY] * (now - weights[_BASE]) < weights[_REBASE_AT]:
        return
    weights[_BASE] = now
    for slot in range(state.depth.shape[0]):
        if holds(state.order, slot):
            state.order.key[slot] = _key(state, slot)
    calendar_rebuild(state.order)


@kernel
def marconi_on_request(
    state: MarconiState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count each key, and raise the worth of those that are resident."""
    _rebase(state, now)
    counts_touch(state.table, keys)
    for i in range(keys.shape[0]):
        count = count_hot(state.table, keys[i])
        slot = slots[i]
        # A key that fell out of the table counts as seen once, like a new one.
        if slot >= 0 and state.seen[slot] != max(1, count):
            state.seen[slot] = max(1, count)
            calendar_set_aside(state.order, slot, _key(state, slot))


@kernel
def marconi_admit(
    state: MarconiState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys up to the first that was not seen often enough."""
    threshold = state.numbers[_THRESHOLD]
    if threshold <= 1:
        return keys.shape[0]
    admitted = 0
    while (
        admitted < keys.shape[0] and count_of(state.table, keys[admitted]) >= threshold
    ):
        admitted += 1
    return admitted


@kernel
def marconi_select(
    state: MarconiState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the slots of least worth."""
    return calendar_take(state.order, n, blocked, out)


@kernel
def marconi_on_remove(state: MarconiState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        calendar_remove(state.order, slots[i])


@inlined
def _use(state: MarconiState, slot: int, now: float) -> None:
    state.last_use[slot] = now
    state.numbers[_USES] += 1
    calendar_set(state.order, slot, _key(state, slot), state.numbers[_USES])


@kernel
def marconi_on_insert(
    state: MarconiState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks with the sights that they have had."""
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        state.depth[slot] = depths[i]
        state.seen[slot] = max(1, count_of(state.table, keys[i]))
        _use(state, slot, now)
    note_insert(request)


@kernel
def marconi_on_hit(
    state: MarconiState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Start the age of slots anew."""
    for i in range(slots.shape[0] - 1, -1, -1):
        _use(state, slots[i], now)
    note_hit(request, slots.shape[0])


@kernel
def marconi_on_finish(
    state: MarconiState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots equally old, tails first to go among equals."""
    if not needs_order(request):
        return
    latest = -math.inf
    for i in range(slots.shape[0]):
        latest = max(latest, state.last_use[slots[i]])
    for i in range(slots.shape[0] - 1, -1, -1):
        _use(state, slots[i], latest)


@kernel
def marconi_reset(state: MarconiState) -> None:
    """Empty the cache; counts stay."""
    calendar_clear(state.order)


@kernel
def marconi_scores(
    state: MarconiState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the worth of slots."""
    shared = state.weights[_DECAY] * (now - state.weights[_BASE])
    for i in range(slots.shape[0]):
        out[i] = math.exp(state.order.key[slots[i]] - shared)


def _refuses(params: MarconiParams) -> bool:
    return params.admission_threshold > 1


register_kernels(
    MarconiState,
    Kernels(
        on_request=marconi_on_request,
        admit=marconi_admit,
        select=marconi_select,
        on_remove=marconi_on_remove,
        on_insert=marconi_on_insert,
        on_hit=marconi_on_hit,
        on_finish=marconi_on_finish,
        reset=marconi_reset,
        scores=marconi_scores,
    ),
)

SPEC = PolicySpec(
    name="marconi",
    summary="least reuse * exp(-decay * age) / (depth + 1) ** b goes first",
    params=MarconiParams,
    make=make_marconi,
    refuses=_refuses,
)
