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
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.counts import CountTable, count_of, count_recent, make_counts
from hotset.policies.heap import (
    Heap,
    heap_clear,
    heap_remove,
    heap_set,
    make_heap,
)
from hotset.policies.jit import kernel
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.pairing import (
    Pairing,
    make_pairing,
    pairing_clear,
    pairing_insert,
    pairing_remove,
)
from hotset.policies.request import PRIORITY, SOURCE_TYPE, SOURCE_TYPES
from hotset.policies.verbs import Kernels, register_kernels

COUNTS = 55  # 0 to 54; 1 - 0.5 ** 54 is 1 in float64
LEVELS = 64
LEVELS_PER_UNIT = 8
NUM_CLASSES = (len(SOURCE_TYPES) + 1) * LEVELS * COUNTS

_W_RECENCY, _W_REUSE, _HALF_LIFE, _HALF, _FLOORS = 0, 1, 2, 3, 4
_CLAMP, _GIVEN_ORDER, _BORN, _NUM_LIVE = 0, 1, 2, 3


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


class RelevanceState(NamedTuple):
    """Residents by class and last use, or settled; and the counts of all keys."""

    young: Pairing  # NUM_CLASSES heaps by last use
    settled: Heap  # by (worth, insertion)
    class_of: Int32Array  # int32[C]
    born: Int64Array  # int64[C], insertion number
    members: Int32Array  # int32[NUM_CLASSES], young blocks of each class
    live: Int32Array  # int32[NUM_CLASSES], classes with young blocks, in front
    live_at: Int32Array  # int32[NUM_CLASSES], place in live, or -1
    first: Int32Array  # int32[NUM_CLASSES], a class's next victim, -1, or -2 unknown
    first_score: Float64Array  # float64[NUM_CLASSES], its worth
    table: CountTable
    aside: Int32Array  # int32[C], scratch
    aside_settled: Int32Array  # int32[C], scratch
    weights: Float64Array  # float64[4 + 5]: weights, half-life, 0.5, floors
    numbers: Int64Array  # int64[4]: clamp, given order, insertions, live classes


def make_relevance(
    params: RelevanceParams, capacity: int, next_use: Any = None
) -> RelevanceState:
    """Build the state."""
    weights = [params.w_recency, params.w_reuse, params.half_life, 0.5, 0.0]
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
        numbers=np.array([*flags, 0, 0], np.int64),
    )


@kernel
def _class(source: float, priority: float, count: int) -> int:
    if math.isnan(priority):
        priority = 1.0  # unknown
    level = round(min(max(priority * LEVELS_PER_UNIT, 1.0), float(LEVELS)))
    kind = int(min(max(source + 1.0, 0.0), float(len(SOURCE_TYPES))))
    return (kind * LEVELS + level - 1) * COUNTS + min(count, COUNTS - 1)


@kernel
def _worth(state: RelevanceState, which: int, recency: float) -> float:
    """Return the worth of a block of a class; the operations are the original's."""
    weights = state.weights
    reuse = 1.0 - math.pow(weights[_HALF], float(which % COUNTS))
    raw = weights[_W_RECENCY] * recency + weights[_W_REUSE] * reuse
    kind = which // (LEVELS * COUNTS)
    if kind > 0:
        floor = weights[_FLOORS + kind]
        if state.numbers[_CLAMP] != 0:
            raw = max(raw, floor)
        else:
            raw = floor + (1.0 - floor) * raw
    level = (which // COUNTS) % LEVELS + 1
    return raw * (level / float(LEVELS_PER_UNIT))


@kernel
def _worth_of(state: RelevanceState, slot: int, now: float) -> float:
    age = now - state.young.key[slot]
    recency = math.pow(state.weights[_HALF], age / state.weights[_HALF_LIFE])
    return _worth(state, state.class_of[slot], recency)


@kernel
def _put(state: RelevanceState, slot: int, which: int, used: float) -> None:
    """Put a slot that is nowhere among the young of a class."""
    state.class_of[slot] = which
    pairing_insert(state.young, which, slot, used)
    state.members[which] += 1
    if state.live_at[which] < 0:
        state.live_at[which] = state.numbers[_NUM_LIVE]
        state.live[state.numbers[_NUM_LIVE]] = which
        state.numbers[_NUM_LIVE] += 1


@kernel
def _take(state: RelevanceState, slot: int) -> None:
    """Take a slot out of wherever it is."""
    if state.settled.position[slot] >= 0:
        heap_remove(state.settled, slot)
        return
    which = state.class_of[slot]
    pairing_remove(state.young, which, slot)
    state.members[which] -= 1
    if state.members[which] == 0:
        state.numbers[_NUM_LIVE] -= 1
        last = state.live[state.numbers[_NUM_LIVE]]
        place = state.live_at[which]
        state.live[place] = last
        state.live_at[last] = place
        state.live_at[which] = -1


@kernel
def _settle(state: RelevanceState, which: int, now: float) -> None:
    """Move the blocks of a class whose recency no longer shows to the settled."""
    final = _worth(state, which, 0.0)
    while state.members[which] > 0:
        slot = int(state.young.root[which])
        if _worth_of(state, slot, now) != final:
            return
        _take(state, slot)
        heap_set(state.settled, slot, final, state.born[slot])


@kernel
def _find_first(
    state: RelevanceState, which: int, blocked: Int32Array, now: float
) -> None:
    """Find a class's next victim: of the least worth, the one inserted first."""
    state.first[which] = -1
    aside = 0
    while state.young.root[which] >= 0:
        slot = int(state.young.root[which])
        if blocked[slot] == 0:
            worth = _worth_of(state, slot, now)
            best = state.first[which]
            if best < 0:
                state.first[which] = slot
                state.first_score[which] = worth
            elif worth != state.first_score[which]:
                break
            elif state.born[slot] < state.born[best]:
                state.first[which] = slot
        pairing_remove(state.young, which, slot)
        state.aside[aside] = slot
        aside += 1
    for i in range(aside):
        slot = int(state.aside[i])
        pairing_insert(state.young, which, slot, state.young.key[slot])


@kernel
def _first_settled(
    state: RelevanceState, blocked: Int32Array, num_aside: int
) -> tuple[int, int]:
    """Return the first unblocked settled slot or -1; blocked ones are put aside."""
    while state.settled.size[0] > 0:
        slot = int(state.settled.order[0])
        if blocked[slot] == 0:
            return slot, num_aside
        heap_remove(state.settled, slot)
        state.aside_settled[num_aside] = slot
        num_aside += 1
    return (-1), num_aside


@kernel
def _take_victim(state: RelevanceState, settled: int) -> int:
    """Take out the least worth of the classes' firsts and the first settled slot."""
    victim = settled
    worth = state.settled.key[settled] if settled >= 0 else math.inf
    for i in range(state.numbers[_NUM_LIVE]):
        which = state.live[i]
        slot = int(state.first[which])
        if slot < 0:
            continue
        better = victim < 0 or state.first_score[which] < worth
        if not better and state.first_score[which] == worth:
            better = state.born[slot] < state.born[victim]
        if better:
            victim = slot
            worth = state.first_score[which]
    if victim >= 0:
        _take(state, victim)
    return victim


@kernel
def relevance_select(
    state: RelevanceState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the slots of least worth."""
    for i in range(state.numbers[_NUM_LIVE] - 1, -1, -1):
        which = state.live[i]
        state.first[which] = -2
        _settle(state, which, now)
    found = 0
    num_aside = 0
    while found < n:
        for i in range(state.numbers[_NUM_LIVE]):
            which = state.live[i]
            if state.first[which] == -2:
                _find_first(state, which, blocked, now)
        settled, num_aside = _first_settled(state, blocked, num_aside)
        victim = _take_victim(state, settled)
        if victim < 0:
            break
        state.first[state.class_of[victim]] = -2
        out[found] = victim
        found += 1
    for i in range(num_aside):
        slot = int(state.aside_settled[i])
        heap_set(state.settled, slot, state.settled.key[slot], state.born[slot])
    return found


@kernel
def relevance_on_remove(state: RelevanceState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        _take(state, slots[i])


@kernel
def relevance_on_request(
    state: RelevanceState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count each key, and move those that are resident to their new class."""
    for i in range(keys.shape[0]):
        count_recent(state.table, keys[i])
        slot = slots[i]
        if slot >= 0 and state.class_of[slot] % COUNTS < COUNTS - 1:
            used = state.young.key[slot]
            _take(state, slot)
            _put(state, slot, state.class_of[slot] + 1, used)


@kernel
def _tick(state: RelevanceState, now: float, i: int, n: int) -> float:
    """Return the moment at which the i-th of a batch is used."""
    return now + (i + 1 if state.numbers[_GIVEN_ORDER] != 0 else n - i)


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
    for i in range(n):
        count = count_of(state.table, keys[i])
        which = _class(request[SOURCE_TYPE], request[PRIORITY], count)
        used = _tick(state, now, i, n)
        state.born[slots[i]] = state.numbers[_BORN] + int(used - now)
        _put(state, slots[i], which, used)
    state.numbers[_BORN] += n
    note_insert(request)


@kernel
def relevance_on_hit(
    state: RelevanceState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the last used of their class."""
    n = slots.shape[0]
    for i in range(n):
        slot = slots[i]
        which = state.class_of[slot]
        _take(state, slot)
        _put(state, slot, which, _tick(state, now, i, n))
    note_hit(request, n)


@kernel
def relevance_on_finish(
    state: RelevanceState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make the head the last used, unless blocks are used in the order given."""
    if state.numbers[_GIVEN_ORDER] != 0 or not needs_order(request):
        return
    latest = -math.inf
    for i in range(slots.shape[0]):
        latest = max(latest, state.young.key[slots[i]])
    for i in range(slots.shape[0]):
        slot = slots[i]
        _take(state, slot)
        _put(state, slot, state.class_of[slot], latest - i)


@kernel
def relevance_reset(state: RelevanceState) -> None:
    """Empty the cache; counts stay."""
    pairing_clear(state.young)
    heap_clear(state.settled)
    state.members[:] = 0
    state.live_at[:] = -1
    state.numbers[_NUM_LIVE] = 0


@kernel
def relevance_scores(
    state: RelevanceState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the worth of slots."""
    for i in range(slots.shape[0]):
        out[i] = _worth_of(state, slots[i], now)


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
