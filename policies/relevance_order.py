"""Who goes first under the relevance score: classes of residents, and the settled.

The state of `hotset.policies.relevance` and the kernels that keep its order; the score,
its source and the invariants are described there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.counts import CountTable
from hotset.policies.heap import Heap, heap_remove, heap_set
from hotset.policies.jit import inlined
from hotset.policies.pairing import Pairing, pairing_insert, pairing_remove
from hotset.policies.request import SOURCE_TYPES

COUNTS = 55  # 0 to 54; 1 - 0.5 ** 54 is 1 in float64
LEVELS = 64
LEVELS_PER_UNIT = 8
NUM_CLASSES = (len(SOURCE_TYPES) + 1) * LEVELS * COUNTS

W_RECENCY, HALF_LIFE, HALF, FLOORS = 0, 1, 2, 3
CLAMP, GIVEN_ORDER, BORN, NUM_LIVE, TURN = 0, 1, 2, 3, 4


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
    weights: Float64Array  # float64[3 + 5]: w_recency, half-life, 0.5, floors
    reuse: Float64Array  # float64[COUNTS], w_reuse * (1 - 0.5 ** count)
    numbers: Int64Array  # int64[5]: clamp, given order, insertions, live classes, turn


@inlined
def class_of_tags(source: float, priority: float, count: int) -> int:
    """Return the class of a source type, a priority and a count."""
    if math.isnan(priority):
        priority = 1.0  # unknown
    level = round(min(max(priority * LEVELS_PER_UNIT, 1.0), float(LEVELS)))
    kind = int(min(max(source + 1.0, 0.0), float(len(SOURCE_TYPES))))
    return (kind * LEVELS + level - 1) * COUNTS + min(count, COUNTS - 1)


@inlined
def worth_in_class(state: RelevanceState, which: int, recency: float) -> float:
    """Return the worth of a block of a class; the operations are the original's."""
    weights = state.weights
    raw = weights[W_RECENCY] * recency + state.reuse[which % COUNTS]
    kind = which // (LEVELS * COUNTS)
    if kind > 0:
        floor = weights[FLOORS + kind]
        if state.numbers[CLAMP] != 0:
            raw = max(raw, floor)
        else:
            raw = floor + (1.0 - floor) * raw
    level = (which // COUNTS) % LEVELS + 1
    return raw * (level / float(LEVELS_PER_UNIT))


@inlined
def worth_of(state: RelevanceState, slot: int, now: float) -> float:
    """Return the worth of a young slot."""
    age = now - state.young.key[slot]
    recency = math.pow(state.weights[HALF], age / state.weights[HALF_LIFE])
    return worth_in_class(state, state.class_of[slot], recency)


@inlined
def put(state: RelevanceState, slot: int, which: int, used: float) -> None:
    """Put a slot that is nowhere among the young of a class."""
    state.class_of[slot] = which
    pairing_insert(state.young, which, slot, used)
    state.members[which] += 1
    if state.live_at[which] < 0:
        state.live_at[which] = state.numbers[NUM_LIVE]
        state.live[state.numbers[NUM_LIVE]] = which
        state.numbers[NUM_LIVE] += 1


@inlined
def take(state: RelevanceState, slot: int) -> None:
    """Take a slot out of wherever it is."""
    if state.settled.position[slot] >= 0:
        heap_remove(state.settled, slot)
        return
    which = state.class_of[slot]
    pairing_remove(state.young, which, slot)
    state.members[which] -= 1
    if state.members[which] == 0:
        state.numbers[NUM_LIVE] -= 1
        last = state.live[state.numbers[NUM_LIVE]]
        place = state.live_at[which]
        state.live[place] = last
        state.live_at[last] = place
        state.live_at[which] = -1


@inlined
def _settle(state: RelevanceState, which: int, now: float, most: int) -> int:
    """Move blocks of a class whose recency no longer shows to the settled.

    Returns how many were moved; ``most`` at most.
    """
    final = worth_in_class(state, which, 0.0)
    moved = 0
    while moved < most and state.members[which] > 0:
        slot = int(state.young.root[which])
        if worth_of(state, slot, now) != final:
            break
        take(state, slot)
        heap_set(state.settled, slot, final, state.born[slot])
        moved += 1
    return moved


@inlined
def settle_some(state: RelevanceState, now: float, num_used: int) -> None:
    """Settle blocks at the pace at which they are used, so that none pile up.

    A block is due once for each use, so twice as many as were used just now keep up.
    The classes have their turns.
    """
    left = 2 * num_used
    while left > 0 and state.numbers[NUM_LIVE] > 0:
        turn = (state.numbers[TURN] + 1) % state.numbers[NUM_LIVE]
        state.numbers[TURN] = turn
        moved = _settle(state, state.live[turn], now, left)
        if moved == 0:
            return
        left -= moved


@inlined
def _find_first(
    state: RelevanceState, which: int, blocked: Int32Array, now: float
) -> None:
    """Find a class's next victim: of the least worth, the one inserted first."""
    state.first[which] = -1
    aside = 0
    while state.young.root[which] >= 0:
        slot = int(state.young.root[which])
        if blocked[slot] == 0:
            worth = worth_of(state, slot, now)
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
    for i in range(aside - 1, -1, -1):  # so that each goes in front, at once
        slot = int(state.aside[i])
        pairing_insert(state.young, which, slot, state.young.key[slot])


@inlined
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


@inlined
def _take_victim(state: RelevanceState, settled: int) -> int:
    """Take out the least worth of the classes' firsts and the first settled slot."""
    victim = settled
    worth = state.settled.key[settled] if settled >= 0 else math.inf
    for i in range(state.numbers[NUM_LIVE]):
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
        take(state, victim)
    return victim


@inlined
def relevance_select(
    state: RelevanceState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the slots of least worth."""
    for i in range(state.numbers[NUM_LIVE] - 1, -1, -1):
        which = state.live[i]
        state.first[which] = -2
        _settle(state, which, now, state.class_of.shape[0])
    found = 0
    num_aside = 0
    while found < n:
        for i in range(state.numbers[NUM_LIVE]):
            which = state.live[i]
            if state.first[which] == -2:
                _find_first(state, which, blocked, now)
        settled, num_aside = _first_settled(state, blocked, num_aside)
        victim = _take_victim(state, settled)
        if victim < 0:
            break
        if victim != settled:
            state.first[state.class_of[victim]] = -2
        out[found] = victim
        found += 1
    for i in range(num_aside):
        slot = int(state.aside_settled[i])
        heap_set(state.settled, slot, state.settled.key[slot], state.born[slot])
    return found
