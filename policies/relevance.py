"""The relevance score of evoke-vllm: recency and reuse above a floor by source.

Idea: a block is worth ``priority * (floor + (1 - floor) * (w_recency * 0.5 ** (age /
half_life) + w_reuse * (1 - 0.5 ** count)))``; the least worth goes first, of equals the
one inserted first. Source type and priority are those of the request that stored it.

Source: evoke-vllm 0.1.1. ``floor_rule=clamp`` is the rule of an earlier version,
``max(floor, ...)``, under which aged blocks of one source all tie.

State: the order changes with time, but blocks of one class (source, priority, count)
lose worth in the order of their last use. ``young`` holds one heap by last use for each
class; ``settled`` holds blocks whose recency no longer shows in float64, by their
constant worth, then by insertion. Every resident slot is in exactly one of them. The
victim is the best of the classes' first blocks and the first settled one. Blocks of one
class can be equal before they settle only within about 1.6 half-lives of it; that run
is looked through for the one inserted first.

Deviations: ``order=tail-first`` (default) uses the blocks of a batch tail first, so
that tails age before heads; ``order=given`` is the original's. Counts of resident
blocks are kept when the tracker forgets the key. Priorities are rounded to eighths from
1/8 to 8. Counts from 54 on are equal, as they are in float64.

Cost: O(live classes) a victim, O(log n) a use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.counts import (
    count_of,
    count_recent,
    counts_touch,
    make_counts,
)
from hotset.policies.heap import heap_clear, make_heap
from hotset.policies.jit import inlined, kernel
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.pairing import make_pairing, pairing_clear
from hotset.policies.relevance_order import (
    BORN,
    COUNTS,
    GIVEN_ORDER,
    NUM_CLASSES,
    NUM_LIVE,
    RelevanceState,
    class_of_tags,
    put,
    relevance_select,
    settle_some,
    take,
    worth_of,
)
from hotset.policies.request import PRIORITY, SOURCE_TYPE, SOURCE_TYPES
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class RelevanceParams(Params):
    """Parameters of `relevance`."""

    w_recency: float = param(0.5, "weight of recency", low=0.0, high=1.0)
    w_reuse: float = param(0.5, "weight of reuse", low=0.0, high=1.0)
    half_life: float = param(
        64.0, "age at which recency halves", low=1.0, high=1e9, log=True, unit="keys"
    )
    floor_system: float = param(0.6, "least worth of system text", low=0.0, high=1.0)
    floor_user: float = param(0.6, "least worth of user text", low=0.0, high=1.0)
    floor_assistant: float = param(
        0.5, "least worth of assistant text", low=0.0, high=1.0
    )
    floor_document: float = param(0.0, "least worth of documents", low=0.0, high=1.0)
    floor_rule: str = param(
        "rescale",
        "how a floor enters: by rescaling, or by the earlier clamp",
        choices=("rescale", "clamp"),
        tuned=False,
    )
    order: str = param(
        "tail-first",
        "in which order the blocks of a batch are used",
        choices=("tail-first", "given"),
        tuned=False,
    )
    tracker_size: int = param(
        64_000,
        "keys whose sights are counted",
        low=1,
        high=100_000_000,
        log=True,
        unit="keys",
        tuned=False,
    )


def make_relevance(
    params: RelevanceParams, capacity: int, next_use: Any = None
) -> RelevanceState:
    """Build the state."""
    weights = [params.w_recency, params.half_life, 0.5, 0.0]
    weights += [getattr(params, f"floor_{name}") for name in SOURCE_TYPES]
    flags = [params.floor_rule == "clamp", params.order == "given"]
    return RelevanceState(
        young=make_pairing(capacity, NUM_CLASSES),
        settled=make_heap(capacity),
        class_of=np.zeros(capacity, np.int32),
        born=np.zeros(capacity, np.int64),
        members=np.zeros(NUM_CLASSES, np.int32),
        live=np.zeros(NUM_CLASSES, np.int32),
        live_at=np.full(NUM_CLASSES, -1, np.int32),
        first=np.full(NUM_CLASSES, -2, np.int32),
        first_score=np.zeros(NUM_CLASSES, np.float64),
        table=make_counts(params.tracker_size),
        aside=np.zeros(capacity, np.int32),
        aside_settled=np.zeros(capacity, np.int32),
        weights=np.array(weights, np.float64),
        reuse=np.array([params.w_reuse * (1.0 - 0.5**n) for n in range(COUNTS)]),
        numbers=np.array([*flags, 0, 0, 0], np.int64),
    )


@kernel
def relevance_on_remove(state: RelevanceState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        take(state, slots[i])


@kernel
def relevance_on_request(
    state: RelevanceState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count each key, and move those that are resident to their new class."""
    counts_touch(state.table, keys)
    for i in range(keys.shape[0]):
        count_recent(state.table, keys[i])
        slot = slots[i]
        if slot >= 0 and state.class_of[slot] % COUNTS < COUNTS - 1:
            used = state.young.key[slot]
            take(state, slot)
            put(state, slot, state.class_of[slot] + 1, used)


@inlined
def _used_at(state: RelevanceState, moment: int, n: int) -> int:
    """Return which of a batch of n is used at its moment 1, 2, ... n."""
    return moment - 1 if state.numbers[GIVEN_ORDER] != 0 else n - moment


@kernel
def relevance_on_insert(
    state: RelevanceState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks with the tags of their request."""
    n = slots.shape[0]
    for moment in range(1, n + 1):
        i = _used_at(state, moment, n)
        count = count_of(state.table, keys[i])
        which = class_of_tags(request[SOURCE_TYPE], request[PRIORITY], count)
        state.born[slots[i]] = state.numbers[BORN] + moment
        put(state, slots[i], which, now + moment)
    state.numbers[BORN] += n
    settle_some(state, now + n, n)
    note_insert(request)


@kernel
def relevance_on_hit(
    state: RelevanceState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the last used of their class."""
    n = slots.shape[0]
    for moment in range(1, n + 1):
        slot = slots[_used_at(state, moment, n)]
        which = state.class_of[slot]
        take(state, slot)
        put(state, slot, which, now + moment)
    settle_some(state, now + n, n)
    note_hit(request, n)


@kernel
def relevance_on_finish(
    state: RelevanceState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make the head the last used, unless blocks are used in the order given."""
    if state.numbers[GIVEN_ORDER] != 0 or not needs_order(request):
        return
    latest = -math.inf
    for i in range(slots.shape[0]):
        latest = max(latest, state.young.key[slots[i]])
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        take(state, slot)
        put(state, slot, state.class_of[slot], latest - i)


@kernel
def relevance_reset(state: RelevanceState) -> None:
    """Empty the cache; counts stay."""
    pairing_clear(state.young)
    heap_clear(state.settled)
    state.members[:] = 0
    state.live_at[:] = -1
    state.numbers[NUM_LIVE] = 0


@kernel
def relevance_scores(
    state: RelevanceState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the worth of slots."""
    for i in range(slots.shape[0]):
        out[i] = worth_of(state, slots[i], now)


register_kernels(
    RelevanceState,
    Kernels(
        on_request=relevance_on_request,
        select=relevance_select,
        on_remove=relevance_on_remove,
        on_insert=relevance_on_insert,
        on_hit=relevance_on_hit,
        on_finish=relevance_on_finish,
        reset=relevance_reset,
        scores=relevance_scores,
    ),
)

SPEC = PolicySpec(
    name="relevance",
    summary="least recency and reuse above a floor by source goes first (evoke-vllm)",
    params=RelevanceParams,
    make=make_relevance,
    age_unit="key",
)
