"""A log-linear worth of recency, reuse, depth and what a request tells.

Idea: a block is worth the exponential of a weighted sum; the least worth goes first:

    - recency * age + reuse_weight * ln r(count) - depth_weight * ln(depth + 1)
    + length * ln(blocks of the request) + hit * (share of it that was cached)
    + end / (1 + blocks behind this one) + turn * ln(turn of its session)
    + priority * ln(client's priority) + source_TYPE (weight of the source type)

with r(n) = n, ln(1 + n) or 1. A block keeps what the request that used it last told.
`lru` is recency alone, `lfu` reuse alone with ``count=resident``, `marconi` the first
line.

Source: ours. The form is that of Marconi-style scores as well as of GDSF (Cherkasova,
1998) under its logarithm.

State: ``order`` holds exactly the resident slots by the sum without the part of the age
that all share, so a sum changes only when its block is used or counted. ``base`` moves
up now and then, so that float64 keeps its precision. Counts are of sights in requests:
``count=remembered``, of at most ``tracker_size`` keys, resident or not;
``count=resident``, of resident blocks since they were stored.

Deviations: none from the formula. What is not known counts as 0; a priority is clamped
to 1/8 to 8. Equal sums fall to the block used longest ago, tails first.

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
    REUSE,
    LogTerms,
    count_term,
    depth_term,
    make_log_terms,
    spread,
)
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.request import (
    HIT_BLOCKS,
    NUM_BLOCKS,
    PRIORITY,
    SOURCE_TYPE,
    SOURCE_TYPES,
    TURN,
)
from hotset.policies.verbs import Kernels, register_kernels

# Places in WeightedState.weights; source types follow.
_RECENCY, _LENGTH, _HIT, _END, _TURN, _PRIORITY = range(6)
_SOURCE = 6
_BASE, _REBASE_AT = 0, 1
_USES, _FORGETS = 0, 1
_COUNTS = ("remembered", "resident")
_LEAST_PRIORITY, _MOST_PRIORITY = 0.125, 8.0


def _weight(default: float, doc: str, unit: str = "") -> Any:
    return param(default, doc, low=-8.0, high=8.0, unit=unit)


@dataclass(frozen=True)
class WeightedParams(Params):
    """Parameters of `weighted`."""

    recency: float = param(
        0.01, "loss of worth with age", low=0.0, high=100.0, unit="1/request"
    )
    reuse: str = param("linear", "how the count of sights enters", choices=REUSE)
    count: str = param(
        "remembered", "whether sights before a block was stored count", choices=_COUNTS
    )
    reuse_weight: float = param(1.0, "power of the reuse", low=0.0, high=8.0)
    depth_weight: float = param(
        1.0, "power of (depth + 1) that divides the worth", low=0.0, high=8.0
    )
    length: float = _weight(0.0, "power of the request's blocks")
    hit: float = _weight(0.0, "weight of the share of the request that was cached")
    end: float = _weight(0.0, "weight of being near the prompt's end")
    turn: float = _weight(0.0, "power of the turn in the session")
    priority: float = _weight(0.0, "power of the client's priority")
    source_system: float = _weight(0.0, "weight of system prompts")
    source_user: float = _weight(0.0, "weight of user input")
    source_assistant: float = _weight(0.0, "weight of assistant output")
    source_document: float = _weight(0.0, "weight of documents")
    tracker_size: int = param(
        100_000,
        "keys whose sights are counted",
        low=1,
        high=100_000_000,
        log=True,
        unit="keys",
        tuned=False,
    )


class WeightedState(NamedTuple):
    """Residents by worth, and the counts of all keys."""

    order: Calendar
    terms: LogTerms
    depth: Int32Array  # int32[C], 0-based
    last_use: Float64Array  # float64[C]
    told: Float64Array  # float64[C], the request's part of the sum
    seen: Int32Array  # int32[C], sights, at least 1
    table: CountTable
    weights: Float64Array  # float64[6 + 4]
    clock: Float64Array  # float64[2]: base, when to rebase
    numbers: Int64Array  # int64[2]: uses so far, whether only residents are counted


def make_weighted(
    params: WeightedParams, capacity: int, next_use: Any = None
) -> WeightedState:
    """Build the state."""
    sources = [getattr(params, f"source_{name}") for name in SOURCE_TYPES]
    span = spread(capacity, params.depth_weight, params.reuse_weight, params.recency)
    return WeightedState(
        order=make_calendar(capacity, width_for(capacity, span)),
        terms=make_log_terms(params.reuse, params.reuse_weight, params.depth_weight),
        depth=np.zeros(capacity, np.int32),
        last_use=np.zeros(capacity, np.float64),
        told=np.zeros(capacity, np.float64),
        seen=np.ones(capacity, np.int32),
        table=make_counts(params.tracker_size),
        weights=np.array(
            [
                params.recency,
                params.length,
                params.hit,
                params.end,
                params.turn,
                params.priority,
                *sources,
            ]
        ),
        clock=np.array([0.0, 2.0**20]),
        numbers=np.array([0, _COUNTS.index(params.count)], np.int64),
    )


@inlined
def _sum(state: WeightedState, slot: int) -> float:
    """Return a block's sum, its age counted from the base."""
    total = state.weights[_RECENCY] * (state.last_use[slot] - state.clock[_BASE])
    total -= depth_term(state.terms, state.depth[slot])
    total += count_term(state.terms, state.seen[slot])
    return total + state.told[slot]


@inlined
def _told_by(state: WeightedState, request: Float64Array) -> float:
    """Return the part of the sum that is the same for all blocks of a request."""
    weights = state.weights
    blocks = max(request[NUM_BLOCKS], 1.0)
    priority = request[PRIORITY]
    if not priority >= _LEAST_PRIORITY:  # NaN, too
        priority = 1.0 if np.isnan(priority) else _LEAST_PRIORITY
    priority = min(priority, _MOST_PRIORITY)
    total = weights[_LENGTH] * math.log(blocks)
    total += weights[_HIT] * min(request[HIT_BLOCKS] / blocks, 1.0)
    total += weights[_TURN] * math.log(max(request[TURN], 1.0))
    total += weights[_PRIORITY] * math.log(priority)
    source = request[SOURCE_TYPE]
    if source >= 0.0 and source < weights.shape[0] - _SOURCE:
        total += weights[_SOURCE + int(source)]
    return total


@inlined
def _rebase(state: WeightedState, now: float) -> None:
    """Start ages anew from ``now`` once sums have grown large."""
    clock = state.clock
    if state.weights[_RECENCY] * (now - clock[_BASE]) < clock[_REBASE_AT]:
        return
    clock[_BASE] = now
    for slot in range(state.depth.shape[0]):
        if holds(state.order, slot):
            state.order.key[slot] = _sum(state, slot)
    calendar_rebuild(state.order)


@kernel
def weighted_on_request(
    state: WeightedState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count each key, and raise the worth of those that are resident."""
    _rebase(state, now)
    counts_touch(state.table, keys)
    for i in range(keys.shape[0]):
        slot = slots[i]
        if state.numbers[_FORGETS] == 0:
            count = count_hot(state.table, keys[i])
        else:
            count = state.seen[slot] + 1 if slot >= 0 else 0
        # A key that fell out of the table counts as seen once, like a new one.
        if slot >= 0 and state.seen[slot] != max(1, count):
            state.seen[slot] = max(1, count)
            calendar_set_aside(state.order, slot, _sum(state, slot))


@kernel
def weighted_select(
    state: WeightedState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the slots of least worth."""
    return calendar_take(state.order, n, blocked, out)


@kernel
def weighted_on_remove(state: WeightedState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        calendar_remove(state.order, slots[i])


@inlined
def _use(state: WeightedState, slot: int, now: float) -> None:
    state.last_use[slot] = now
    state.numbers[_USES] += 1
    calendar_set(state.order, slot, _sum(state, slot), state.numbers[_USES])


@inlined
def _use_all(
    state: WeightedState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Note a use and what the request tells, the head last."""
    told = _told_by(state, request)
    end = state.weights[_END]
    last = max(request[NUM_BLOCKS], 1.0) - 1.0
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        behind = max(last - state.depth[slot], 0.0)
        state.told[slot] = told + end / (1.0 + behind)
        _use(state, slot, now)


@kernel
def weighted_on_insert(
    state: WeightedState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks with the sights that they have had."""
    for i in range(slots.shape[0]):
        state.depth[slots[i]] = depths[i]
        count = 1
        if state.numbers[_FORGETS] == 0:
            count = max(1, count_of(state.table, keys[i]))
        state.seen[slots[i]] = count
    _use_all(state, slots, now, request)
    note_insert(request)


@kernel
def weighted_on_hit(
    state: WeightedState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Start the age of slots anew."""
    _use_all(state, slots, now, request)
    note_hit(request, slots.shape[0])


@kernel
def weighted_on_finish(
    state: WeightedState, slots: Int32Array, now: float, request: Float64Array
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
def weighted_reset(state: WeightedState) -> None:
    """Empty the cache; counts stay."""
    calendar_clear(state.order)


@kernel
def weighted_scores(
    state: WeightedState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the sums of slots, ages included."""
    shared = state.weights[_RECENCY] * (now - state.clock[_BASE])
    for i in range(slots.shape[0]):
        out[i] = state.order.key[slots[i]] - shared


register_kernels(
    WeightedState,
    Kernels(
        on_request=weighted_on_request,
        select=weighted_select,
        on_remove=weighted_on_remove,
        on_insert=weighted_on_insert,
        on_hit=weighted_on_hit,
        on_finish=weighted_on_finish,
        reset=weighted_reset,
        scores=weighted_scores,
    ),
)

SPEC = PolicySpec(
    name="weighted",
    summary="least weighted sum of recency, reuse, depth and what requests tell first",
    params=WeightedParams,
    make=make_weighted,
)
