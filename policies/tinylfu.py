"""W-TinyLFU: a window for newcomers, and a contest by frequency behind it.

Idea: a block gets into the main part of the cache only if it was seen more often, of
late, than the block that would have to go. A small window in front gives newcomers time
to be seen.

Source: Einziger, Friedman and Manes, TinyLFU: A Highly Efficient Cache Admission
Policy, ACM Transactions on Storage 13(4), 2017. Window 1 %, main part in two segments,
probation and protected (80 % of it), as there.

State: W, P and Q (window, probation, protected) hold exactly the resident slots, oldest
to newest. ``table`` counts how often keys were seen, resident or not, up to 15 each,
for the 4 C keys counted last; all counts are halved after every 10 C sights.

Deviations: counts are exact where the paper has a sketch. A request counts once for
each block. Blocks that a request stores together go into the window if they fit in it,
else they go into probation with all that is in the window; those beyond the size of the
window for which it has no block to take part must win the contest themselves, head
first, and at the first that loses the request is cut. When a request is put in order,
what it has in the window behind a block in probation joins that. Where all slots that
could take part are blocked, whatever is free gives. In every list the tail of a request
is older than its head.

Cost: O(1) amortised a block beside blocked ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.counts import (
    CountTable,
    count_of,
    count_up_to,
    counts_halve,
    make_counts,
)
from hotset.policies.jit import kernel
from hotset.policies.linked import NEWER, clear_links, link_newest, make_links, unlink
from hotset.policies.request import CUT
from hotset.policies.verbs import Kernels, register_kernels

_W, _P, _Q = 0, 1, 2
_WINDOW, _PROTECTED, _SEEN, _PERIOD, _FREE = 0, 1, 2, 3, 4
_MOST_COUNT = 15
_KEYS_PER_SLOT = 4
_SIGHTS_PER_SLOT = 10
_PROTECTED_SHARE = 0.8


@dataclass(frozen=True)
class TinyLfuParams(Params):
    """Parameters of `tinylfu`."""

    window: float = param(
        0.01, "share of the cache that the window has", low=0.0, high=1.0
    )


class TinyLfuState(NamedTuple):
    """Three lists, and the counts of all keys."""

    links: Int32Array  # int32[C + 3, 2], W, P and Q, oldest to newest
    which: Int32Array  # int32[C], the list of a resident slot
    size: Int64Array  # int64[3]
    key: Int64Array  # int64[C], of resident slots
    table: CountTable
    # int64[5]: most slots in W and in Q, sights since counts were halved, and after
    # how many they are, free slots at the last admission
    numbers: Int64Array


def make_tinylfu(
    params: TinyLfuParams, capacity: int, next_use: Any = None
) -> TinyLfuState:
    """Build the state."""
    window = max(1, int(params.window * capacity))
    protected = int(_PROTECTED_SHARE * (capacity - window))
    period = _SIGHTS_PER_SLOT * capacity
    return TinyLfuState(
        links=make_links(capacity, 3),
        which=np.zeros(capacity, np.int32),
        size=np.zeros(3, np.int64),
        key=np.zeros(capacity, np.int64),
        table=make_counts(_KEYS_PER_SLOT * capacity),
        numbers=np.array([window, protected, 0, period, 0], np.int64),
    )


@kernel
def _link(state: TinyLfuState, slot: int, where: int) -> None:
    """Put a slot that is in no list at the newest end of one."""
    state.which[slot] = where
    state.size[where] += 1
    link_newest(state.links, state.which.shape[0] + where, slot)


@kernel
def _take_out(state: TinyLfuState, slot: int) -> None:
    state.size[state.which[slot]] -= 1
    unlink(state.links, slot)


@kernel
def _move(state: TinyLfuState, slot: int, where: int) -> None:
    _take_out(state, slot)
    _link(state, slot, where)


@kernel
def _oldest(state: TinyLfuState, where: int) -> int:
    return int(state.links[state.which.shape[0] + where, NEWER])


@kernel
def _free_from(state: TinyLfuState, at: int, blocked: Int32Array) -> int:
    """Return the first slot from ``at`` on that is not blocked, or the sentinel."""
    while at < blocked.shape[0] and blocked[at] != 0:
        at = int(state.links[at, NEWER])
    return at


@kernel
def _main_victim(state: TinyLfuState, at: int, blocked: Int32Array) -> int:
    """Return the first free slot of the main part from ``at`` on, or a number >= C."""
    at = _free_from(state, at, blocked)
    if at == blocked.shape[0] + _P:
        at = _free_from(state, _oldest(state, _Q), blocked)
    return at


@kernel
def tinylfu_on_request(
    state: TinyLfuState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count each key."""
    numbers = state.numbers
    for i in range(keys.shape[0]):
        count_up_to(state.table, keys[i], _MOST_COUNT)
        numbers[_SEEN] += 1
        if numbers[_SEEN] >= numbers[_PERIOD]:
            counts_halve(state.table)
            numbers[_SEEN] = 0


@kernel
def tinylfu_admit(
    state: TinyLfuState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys while there is room, or while they win against the main part."""
    state.numbers[_FREE] = num_free
    if request[CUT] != 0.0:
        return 0
    capacity = state.which.shape[0]
    candidate = _free_from(state, _oldest(state, _W), blocked)
    victim = _main_victim(state, _oldest(state, _P), blocked)
    for i in range(num_free, keys.shape[0]):
        is_due = state.size[_W] + i >= state.numbers[_WINDOW]
        if is_due and candidate < capacity:
            loses = victim >= capacity or count_of(
                state.table, state.key[candidate]
            ) <= count_of(state.table, state.key[victim])
            candidate = int(state.links[candidate, NEWER])
            candidate = _free_from(state, candidate, blocked)
            if loses:
                continue
        elif is_due and victim < capacity:
            mine = count_of(state.table, keys[i])
            if mine <= count_of(state.table, state.key[victim]):
                request[CUT] = 1.0
                return i
        if victim < capacity:
            victim = _main_victim(state, int(state.links[victim, NEWER]), blocked)
    return keys.shape[0]


@kernel
def tinylfu_select(
    state: TinyLfuState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the losers of contests between the window and the main part."""
    capacity = state.which.shape[0]
    free = state.numbers[_FREE]
    window_size = state.size[_W]
    candidate = _free_from(state, _oldest(state, _W), blocked)
    victim = _main_victim(state, _oldest(state, _P), blocked)
    for found in range(n):
        if candidate >= capacity and victim >= capacity:  # winners are left
            victim = _main_victim(state, _oldest(state, _P), blocked)
        is_due = window_size + free + found >= state.numbers[_WINDOW]
        loser = victim
        if candidate < capacity and (is_due or victim >= capacity):
            contender = candidate
            candidate = int(state.links[candidate, NEWER])
            candidate = _free_from(state, candidate, blocked)
            if victim >= capacity or count_of(
                state.table, state.key[contender]
            ) <= count_of(state.table, state.key[victim]):
                loser = contender
            else:
                _move(state, contender, _P)
        if loser >= capacity:
            return found
        if loser == victim:
            victim = _main_victim(state, int(state.links[victim, NEWER]), blocked)
        _take_out(state, loser)
        out[found] = loser
    return n


@kernel
def tinylfu_on_evict(state: TinyLfuState, slots: Int32Array) -> None:
    """Forget how many slots were free."""
    state.numbers[_FREE] = 0


@kernel
def tinylfu_on_remove(state: TinyLfuState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        _take_out(state, int(slots[i]))


@kernel
def tinylfu_on_insert(
    state: TinyLfuState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Put new blocks into the window where they fit in it, else into probation."""
    where = _W if slots.shape[0] <= state.numbers[_WINDOW] else _P
    excess = state.size[_W] + slots.shape[0] - state.numbers[_WINDOW]
    for _older in range(min(excess, state.size[_W])):
        _move(state, _oldest(state, _W), _P)
    for i in range(slots.shape[0] - 1, -1, -1):
        state.key[slots[i]] = keys[i]
        _link(state, int(slots[i]), where)


@kernel
def tinylfu_on_hit(
    state: TinyLfuState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Renew slots; those on probation become protected, the oldest of these not."""
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        _move(state, slot, _W if state.which[slot] == _W else _Q)
        if state.size[_Q] > state.numbers[_PROTECTED]:
            _move(state, _oldest(state, _Q), _P)


@kernel
def tinylfu_on_finish(
    state: TinyLfuState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Renew slots within their lists; none stays in the window behind probation."""
    first_in_main = slots.shape[0]
    for i in range(slots.shape[0]):
        if state.which[slots[i]] == _P:
            first_in_main = i
            break
    for i in range(slots.shape[0] - 1, -1, -1):
        where = int(state.which[slots[i]])
        if where == _W and i > first_in_main:
            where = _P
        _move(state, int(slots[i]), where)


@kernel
def tinylfu_reset(state: TinyLfuState) -> None:
    """Empty the cache; counts stay."""
    clear_links(state.links, state.which.shape[0])
    state.size[:] = 0
    state.numbers[_FREE] = 0


register_kernels(
    TinyLfuState,
    Kernels(
        on_request=tinylfu_on_request,
        admit=tinylfu_admit,
        select=tinylfu_select,
        on_evict=tinylfu_on_evict,
        on_remove=tinylfu_on_remove,
        on_insert=tinylfu_on_insert,
        on_hit=tinylfu_on_hit,
        on_finish=tinylfu_on_finish,
        reset=tinylfu_reset,
    ),
)


def tinylfu_refuses(params: Any) -> bool:
    """Return True: newcomers may lose the contest."""
    return True


SPEC = PolicySpec(
    name="tinylfu",
    summary="newcomers that were seen less often than what they replace go (W-TinyLFU)",
    params=TinyLfuParams,
    make=make_tinylfu,
    refuses=tinylfu_refuses,
)
