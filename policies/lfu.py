"""Least frequently used.

Idea: the block that the fewest requests have used since it was stored goes first; of
equals, the one unused for the longest time.

Source: the classic policy, in the form of Shah, Mitra and Matani, An O(1) algorithm for
implementing the LFU cache eviction scheme, 2010.

State: one list for each count that some resident slot has, oldest to newest, and the
counts in a chain, lowest first. Every list in the chain has a slot in it; together they
hold exactly the resident slots.

Deviations: a request counts once for each block. Among blocks of one count the tail of
a request is older than its head. A block that comes back starts at one.

Cost: O(1) a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec
from hotset.policies.jit import inlined, kernel
from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_newest,
    make_links,
    move_newest,
    unlink,
    unlink_oldest,
)
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class LfuParams(Params):
    """`lfu` has none."""


class LfuState(NamedTuple):
    """Slots by count; list b of C + 1 is the one behind sentinel C + b."""

    links: Int32Array  # int32[2 C + 1, 2], slots, oldest to newest
    which: Int32Array  # int32[C], the list of a resident slot
    uses: Int64Array  # int64[C + 1], the count of each list in use
    chain: Int32Array  # int32[C + 2, 2], lists in use, lowest count first
    spare: Int32Array  # int32[C + 1], stack of lists not in use
    num_spare: Int64Array  # int64[1]


def make_lfu(params: LfuParams, capacity: int, next_use: Any = None) -> LfuState:
    """Build the state."""
    num_lists = capacity + 1
    return LfuState(
        links=make_links(capacity, num_lists),
        which=np.zeros(capacity, np.int32),
        uses=np.zeros(num_lists, np.int64),
        chain=make_links(num_lists),
        spare=np.arange(num_lists, dtype=np.int32),
        num_spare=np.array([num_lists], np.int64),
    )


@inlined
def _open_behind(state: LfuState, at: int, count: int) -> int:
    """Return the list of a count that belongs behind list ``at`` in the chain."""
    upper = int(state.chain[at, NEWER])
    if upper < state.uses.shape[0] and state.uses[upper] == count:
        return upper
    state.num_spare[0] -= 1
    opened = int(state.spare[state.num_spare[0]])
    state.uses[opened] = count
    state.chain[at, NEWER] = opened
    state.chain[opened, OLDER] = at
    state.chain[opened, NEWER] = upper
    state.chain[upper, OLDER] = opened
    return opened


@inlined
def _close_if_empty(state: LfuState, at: int) -> None:
    sentinel = state.which.shape[0] + at
    if state.links[sentinel, NEWER] == sentinel:
        unlink(state.chain, at)
        state.spare[state.num_spare[0]] = at
        state.num_spare[0] += 1


@kernel
def lfu_select(
    state: LfuState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the oldest slots of the lowest counts."""
    capacity, end = state.which.shape[0], state.uses.shape[0]
    found = 0
    at = int(state.chain[end, NEWER])
    while found < n and at != end:
        upper = int(state.chain[at, NEWER])
        found += unlink_oldest(
            state.links, capacity + at, n - found, blocked, out[found:]
        )
        _close_if_empty(state, at)
        at = upper
    return found


@kernel
def lfu_on_remove(state: LfuState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        unlink(state.links, slots[i])
        _close_if_empty(state, int(state.which[slots[i]]))


@kernel
def lfu_on_insert(
    state: LfuState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, used once."""
    if slots.shape[0] == 0:
        return
    opened = _open_behind(state, state.uses.shape[0], 1)
    for i in range(slots.shape[0] - 1, -1, -1):
        state.which[slots[i]] = opened
        link_newest(state.links, state.which.shape[0] + opened, slots[i])
    note_insert(request)


@kernel
def lfu_on_hit(
    state: LfuState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Count one more use of slots."""
    capacity = state.which.shape[0]
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        old = int(state.which[slot])
        new = _open_behind(state, old, state.uses[old] + 1)
        unlink(state.links, slot)
        link_newest(state.links, capacity + new, slot)
        state.which[slot] = new
        _close_if_empty(state, old)
    note_hit(request, slots.shape[0])


@kernel
def lfu_on_finish(
    state: LfuState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Renew slots among equals where tails look newer than heads."""
    if needs_order(request):
        for i in range(slots.shape[0] - 1, -1, -1):
            sentinel = state.which.shape[0] + state.which[slots[i]]
            move_newest(state.links, sentinel, slots[i])


@kernel
def lfu_reset(state: LfuState) -> None:
    """Empty the cache."""
    num_lists = state.uses.shape[0]
    clear_links(state.links, state.which.shape[0])
    clear_links(state.chain, num_lists)
    for i in range(num_lists):
        state.spare[i] = i
    state.num_spare[0] = num_lists


@kernel
def lfu_scores(
    state: LfuState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the counts of slots."""
    for i in range(slots.shape[0]):
        out[i] = float(state.uses[state.which[slots[i]]])


register_kernels(
    LfuState,
    Kernels(
        select=lfu_select,
        on_remove=lfu_on_remove,
        on_insert=lfu_on_insert,
        on_hit=lfu_on_hit,
        on_finish=lfu_on_finish,
        reset=lfu_reset,
        scores=lfu_scores,
    ),
)

SPEC = PolicySpec(
    name="lfu",
    summary="the block used in the fewest requests since it was stored goes first",
    params=LfuParams,
    make=make_lfu,
)
