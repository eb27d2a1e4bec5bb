"""ARC as vLLM's CPU tier has it, version by version.

Idea: as `hotset.policies.arc`; these orders exist so that a replay equals a server that
runs ``eviction_policy: arc``.

Source: what vLLM's own ARC of these versions does with the same calls. All versions
store every new block in T1, ghost or not; keep up to C keys in each ghost list; take
from T1 while it is at least as long as the whole part of the target.

- ``vllm-0.24`` (to 0.28): a touch names all keys of a request, after each look-up and
  each store. It moves readable blocks to T2, renews those being written within T1, and
  adapts to ghosts, each time. Where T1 is below the target and all of T2 is pinned,
  an eviction fails, though T1 has blocks to give.
- ``vllm-0.30``: the same, but then T1 gives.
- ``vllm-0.32`` and ``vllm-0.33``: a request adapts to a ghost once, when it offers the
  block. At its end it moves the blocks that it found to T2 and renews those that it
  stored within their list.

State: lists as in `hotset.policies.arc_lists`. ``pending`` (0.24, 0.30) is 1 where a
slot is being written. ``users`` (0.32) are the numbers of the last four requests that
found a slot, ``ghost_users`` the same of ghosts, ``adapted`` the number of the last
request that adapted to a ghost.

Deviations: 0.32 keeps sets of keys for each request, here a few requests for each
block. So it differs where more than four requests that found the same block run at
once, and where a ghost is forgotten while a request that found the block runs.

Cost: O(1) a block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arc_lists import (
    T1,
    T2,
    ArcLists,
    arc_adapt,
    arc_adapt_all,
    arc_bury,
    arc_choose,
    arc_clear,
    arc_link,
    arc_move,
    arc_remove,
    make_arc_lists,
)
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.ghosts import ghost_drop, ghost_find
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.ordering import number_of
from hotset.policies.verbs import Kernels, register_kernels

_USERS = 4


class Arc24State(NamedTuple):
    """The order of vLLM 0.24."""

    lists: ArcLists
    pending: Int32Array  # int32[C]


class Arc30State(NamedTuple):
    """The order of vLLM 0.30."""

    lists: ArcLists
    pending: Int32Array  # int32[C]


class Arc32State(NamedTuple):
    """The order of vLLM 0.32 and 0.33."""

    lists: ArcLists
    users: Int64Array  # int64[C, 4]
    ghost_users: Int64Array  # int64[2 C, 4]
    adapted: Int64Array  # int64[2 C]
    numbered: Int64Array  # int64[1]


def make_arc_of_vllm(order: str, capacity: int) -> Any:
    """Build the state for one of vLLM's orders."""
    lists = make_arc_lists(capacity)
    if order in ("vllm-0.32", "vllm-0.33"):
        return Arc32State(
            lists=lists,
            users=np.zeros((capacity, _USERS), np.int64),
            ghost_users=np.zeros((2 * capacity, _USERS), np.int64),
            adapted=np.zeros(2 * capacity, np.int64),
            numbered=np.zeros(1, np.int64),
        )
    pending = np.zeros(capacity, np.int32)
    return (Arc24State if order == "vllm-0.24" else Arc30State)(lists, pending)


# What all orders share


@kernel
def _enter(lists: ArcLists, slot: int, key: int) -> None:
    """Put a new block into T1 and forget its ghost."""
    entry = ghost_find(lists.ghosts, key)
    if entry != NO_ENTRY:
        ghost_drop(lists.ghosts, entry)
    lists.key[slot] = key
    arc_link(lists, slot, T1)


@kernel
def select_or_fall_back(
    state: Arc30State, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose victims from T1 while it is as long as the target, else from T2."""
    least = int(state.lists.target[0])
    return arc_choose(state.lists, n, blocked, least, True, out)


@kernel
def vllm_on_evict(state: Arc24State, slots: Int32Array) -> None:
    """Remember the keys of victims."""
    for i in range(slots.shape[0]):
        arc_bury(state.lists, int(slots[i]))


@kernel
def vllm_on_remove(state: Arc24State, slots: Int32Array) -> None:
    """Forget slots."""
    arc_remove(state.lists, slots)


@kernel
def vllm_reset(state: Arc24State) -> None:
    """Empty the cache and forget the ghosts."""
    arc_clear(state.lists)


# 0.24 to 0.30: touches


@kernel
def touch_on_request(
    state: Arc24State,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Adapt to the ghosts among the keys that are touched."""
    arc_adapt_all(state.lists, keys, slots)


@kernel
def select_or_give_up(
    state: Arc24State, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose victims from T1 while it is as long as the target, else from T2 alone."""
    least = int(state.lists.target[0])
    return arc_choose(state.lists, n, blocked, least, False, out)


@kernel
def touch_on_insert(
    state: Arc24State,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, head first; they are being written."""
    for i in range(slots.shape[0]):
        state.pending[slots[i]] = 1
        _enter(state.lists, int(slots[i]), keys[i])


@kernel
def touch_on_ready(state: Arc24State, slots: Int32Array) -> None:
    """Note that slots are written."""
    for i in range(slots.shape[0]):
        state.pending[slots[i]] = 0


@kernel
def touch_on_hit(
    state: Arc24State, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Move readable slots to T2, tail first; those being written stay in T1."""
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        arc_move(state.lists, slot, T1 if state.pending[slot] != 0 else T2)


# 0.32 and later: once a request


@kernel
def once_admit(
    state: Arc32State,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Adapt to the ghosts among the blocks on offer; admit everything."""
    ghosts = state.lists.ghosts
    number = number_of(request, state.numbered)
    for i in range(keys.shape[0] - 1, -1, -1):
        entry = ghost_find(ghosts, keys[i])
        if entry != NO_ENTRY and state.adapted[entry] != number:
            state.adapted[entry] = number
            arc_adapt(state.lists, entry)
    return keys.shape[0]


@kernel
def once_on_evict(state: Arc32State, slots: Int32Array) -> None:
    """Remember the keys of victims, and who found them."""
    for i in range(slots.shape[0]):
        entry = arc_bury(state.lists, int(slots[i]))
        state.adapted[entry] = 0
        for user in range(_USERS):
            state.ghost_users[entry, user] = state.users[slots[i], user]


@kernel
def once_on_insert(
    state: Arc32State,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, head first."""
    for i in range(slots.shape[0]):
        entry = ghost_find(state.lists.ghosts, keys[i])
        for user in range(_USERS):
            found_by = 0 if entry == NO_ENTRY else state.ghost_users[entry, user]
            state.users[slots[i], user] = found_by
        _enter(state.lists, int(slots[i]), keys[i])


@kernel
def once_on_hit(
    state: Arc32State, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Note who found slots."""
    number = number_of(request, state.numbered)
    for i in range(slots.shape[0]):
        state.users[slots[i], number % _USERS] = number


@kernel
def once_on_finish(
    state: Arc32State, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Move blocks that the request found to T2; renew those that it stored."""
    number = number_of(request, state.numbered)
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        was_found = state.users[slot, number % _USERS] == number
        arc_move(state.lists, slot, T2 if was_found else int(state.lists.which[slot]))


register_kernels(
    Arc24State,
    Kernels(
        on_request=touch_on_request,
        select=select_or_give_up,
        on_evict=vllm_on_evict,
        on_remove=vllm_on_remove,
        on_insert=touch_on_insert,
        on_hit=touch_on_hit,
        on_ready=touch_on_ready,
        reset=vllm_reset,
    ),
)
register_kernels(
    Arc30State,
    Kernels(
        on_request=touch_on_request,
        select=select_or_fall_back,
        on_evict=vllm_on_evict,
        on_remove=vllm_on_remove,
        on_insert=touch_on_insert,
        on_hit=touch_on_hit,
        on_ready=touch_on_ready,
        reset=vllm_reset,
    ),
)
register_kernels(
    Arc32State,
    Kernels(
        admit=once_admit,
        select=select_or_fall_back,
        on_evict=once_on_evict,
        on_remove=vllm_on_remove,
        on_insert=once_on_insert,
        on_hit=once_on_hit,
        on_finish=once_on_finish,
        reset=vllm_reset,
    ),
)
