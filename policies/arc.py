"""ARC, the adaptive replacement cache.

Idea: keep blocks that were used once apart from blocks that were used again, and let
the traffic say how much room each kind gets: a miss on a block that was evicted from
one of them says that it was too small.

Source: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST
2003. The orders ``vllm-0.24`` to ``vllm-0.33`` are in `hotset.policies.arc_vllm`.

State: T1 and T2 hold exactly the resident slots, B1 and B2 keys that are not resident,
in lists oldest to newest. T1 and B1 together are at most C long, all four at most 2 C;
``target`` (the paper's p) is in [0, C].

Deviations: a request's keys count as used at one moment. Its ghosts are adapted to when
it comes, tail first, before any of its blocks is evicted or stored; within a list the
tail of a request is older than its head. What the paper does for a miss in B2 while T1
is exactly as long as the target depends on the first missing key of a store. Where
every slot of the list whose turn it is is pinned, the other list gives. A block that is
removed, not evicted, leaves no ghost.

Cost: O(1) a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arc_lists import (
    B1,
    B2,
    T1,
    T2,
    ArcLists,
    arc_adapt_all,
    arc_bury,
    arc_choose,
    arc_clear,
    arc_link,
    arc_move,
    arc_remove,
    make_arc_lists,
)
from hotset.policies.arc_vllm import make_arc_of_vllm
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.ghosts import ghost_drop, ghost_drop_oldest, ghost_find
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.verbs import Kernels, register_kernels

ORDERS = ("auto", "paper", "vllm-0.24", "vllm-0.30", "vllm-0.32", "vllm-0.33")


@dataclass(frozen=True)
class ArcParams(Params):
    """Parameters of `arc`."""

    order: str = param(
        "auto",
        "whose ARC, and what counts as a use; auto: the engine's own, the paper's "
        "without one",
        choices=ORDERS,
        tuned=False,
    )


def arc_refuses(params: ArcParams) -> bool:
    """Return whether a store may fail where there is room to make."""
    return params.order == "vllm-0.24"


class ArcState(NamedTuple):
    """The paper's lists."""

    lists: ArcLists
    is_from_b2: Int64Array  # int64[1], whether the next store begins with a key of B2


def make_arc(params: ArcParams, capacity: int, next_use: Any = None) -> Any:
    """Build the state for an order."""
    if params.order not in ("auto", "paper"):
        return make_arc_of_vllm(params.order, capacity)
    return ArcState(make_arc_lists(capacity), np.zeros(1, np.int64))


@kernel
def arc_on_request(
    state: ArcState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Adapt the target to the ghosts that a request asks for."""
    arc_adapt_all(state.lists, keys, slots)


@kernel
def arc_admit(
    state: ArcState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit everything; note where it begins."""
    state.is_from_b2[0] = 0
    if keys.shape[0] > 0:
        entry = ghost_find(state.lists.ghosts, keys[0])
        if entry != NO_ENTRY and state.lists.ghosts.which[entry] == B2:
            state.is_from_b2[0] = 1
    return keys.shape[0]


@kernel
def arc_select(
    state: ArcState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose the oldest of T1 while it is longer than the target, else of T2."""
    target = state.lists.target[0]
    least = math.floor(target) + 1
    if state.is_from_b2[0] != 0:
        least = max(1, math.ceil(target))
    return arc_choose(state.lists, n, blocked, least, True, out)


@kernel
def arc_on_evict(state: ArcState, slots: Int32Array) -> None:
    """Remember the keys of victims."""
    state.is_from_b2[0] = 0
    for i in range(slots.shape[0]):
        arc_bury(state.lists, int(slots[i]))


@kernel
def arc_on_remove(state: ArcState, slots: Int32Array) -> None:
    """Forget slots."""
    arc_remove(state.lists, slots)


@kernel
def _keep_bounds(lists: ArcLists) -> None:
    """Forget ghosts: T1 and B1 at most C, all lists at most 2 C."""
    capacity = lists.key.shape[0]
    size = lists.ghosts.size
    while lists.size[T1] + size[B1] > capacity:
        ghost_drop_oldest(lists.ghosts, B1)
    while lists.size[T1] + lists.size[T2] + size[B1] + size[B2] > 2 * capacity:
        ghost_drop_oldest(lists.ghosts, B2)


@kernel
def arc_on_insert(
    state: ArcState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks: into T2 those that come back from a ghost, else into T1."""
    lists = state.lists
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        lists.key[slot] = keys[i]
        entry = ghost_find(lists.ghosts, keys[i])
        if entry == NO_ENTRY:
            arc_link(lists, slot, T1)
        else:
            ghost_drop(lists.ghosts, entry)
            arc_link(lists, slot, T2)
    _keep_bounds(lists)
    note_insert(request)


@kernel
def arc_on_hit(
    state: ArcState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones of T2, the head newest of all."""
    for i in range(slots.shape[0] - 1, -1, -1):
        arc_move(state.lists, int(slots[i]), T2)
    note_hit(request, slots.shape[0])


@kernel
def arc_on_finish(
    state: ArcState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Renew slots within their lists where tails look newer than heads."""
    if needs_order(request):
        for i in range(slots.shape[0] - 1, -1, -1):
            arc_move(state.lists, int(slots[i]), int(state.lists.which[slots[i]]))


@kernel
def arc_reset(state: ArcState) -> None:
    """Empty the cache and forget the ghosts."""
    arc_clear(state.lists)
    state.is_from_b2[0] = 0


register_kernels(
    ArcState,
    Kernels(
        on_request=arc_on_request,
        admit=arc_admit,
        select=arc_select,
        on_evict=arc_on_evict,
        on_remove=arc_on_remove,
        on_insert=arc_on_insert,
        on_hit=arc_on_hit,
        on_finish=arc_on_finish,
        reset=arc_reset,
    ),
)

SPEC = PolicySpec(
    name="arc",
    summary="blocks used once and used again apart, their shares learned from misses",
    params=ArcParams,
    make=make_arc,
    refuses=arc_refuses,
)
