"""Least recently used.

Idea: the block that has not been used for the longest time goes first. Blocks of one
request are used at one moment; among them the tail goes first, since a prefix without
its tail is still of use and a tail without its prefix is not.

Source: the classic policy. The orders ``vllm-0.24``, ``vllm-0.32`` and ``vllm-0.33``
reproduce what vLLM's own LRU of these versions does with the same calls: in 0.24 (to
0.30) a block turns most recent when it becomes evictable; in 0.32 (and 0.31) when it is
inserted, head first, and when its request finishes, tail first; from 0.33 a running
request ranks its blocks tail first as well.

State: ``order`` tail-first, vllm-0.24 and vllm-0.32: one list, oldest to newest, of
exactly the resident slots. vllm-0.33: a heap of exactly the resident slots by
(rank, -depth). Each order is a state type of its own, since kernels are chosen by it;
`LinksState` is the order that `hotset.policies.guarded` falls back on.

Deviations: vLLM 0.24 orders the blocks of one transfer by hash; here they keep the
order in which they are given.

Cost: O(1) a block, vllm-0.33 O(log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.heap import (
    Heap,
    heap_clear,
    heap_remove,
    heap_set,
    heap_take,
    make_heap,
)
from hotset.policies.jit import kernel
from hotset.policies.linked import (
    clear_links,
    link_all_newest,
    link_newest,
    make_links,
    move_newest,
    unlink,
    unlink_oldest,
)
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.request import SCRATCH
from hotset.policies.verbs import Kernels, register_kernels

ORDERS = ("auto", "tail-first", "vllm-0.24", "vllm-0.32", "vllm-0.33")


@dataclass(frozen=True)
class LruParams(Params):
    """Parameters of `lru`."""

    order: str = param(
        "auto",
        "which block of equal age goes first, and what counts as a use; auto: as the "
        "engine does, tail-first without one",
        choices=ORDERS,
        tuned=False,
    )


class LruState(NamedTuple):
    """One recency list, used tail first."""

    links: Int32Array  # int32[C + 1, 2]


class LinksState(NamedTuple):
    """One recency list, used tail first, that leaves the scratch field alone."""

    links: Int32Array  # int32[C + 1, 2]


class Lru24State(NamedTuple):
    """One recency list in the order of vLLM 0.24."""

    links: Int32Array  # int32[C + 1, 2]


class Lru32State(NamedTuple):
    """One recency list in the order of vLLM 0.32."""

    links: Int32Array  # int32[C + 1, 2]


class Lru33State(NamedTuple):
    """Ranks in the order of vLLM 0.33."""

    heap: Heap
    depth: Int64Array  # int64[C]
    skipped: Int32Array  # int32[C], scratch
    last_rank: Int64Array  # int64[1]


def make_lru(params: LruParams, capacity: int, next_use: Any = None) -> Any:
    """Build the state for an order."""
    if params.order == "vllm-0.33":
        return Lru33State(
            heap=make_heap(capacity),
            depth=np.zeros(capacity, np.int64),
            skipped=np.zeros(capacity, np.int32),
            last_rank=np.zeros(1, np.int64),
        )
    links = make_links(capacity)
    if params.order in ("auto", "tail-first"):
        return LruState(links)
    return Lru24State(links) if params.order == "vllm-0.24" else Lru32State(links)


@kernel
def list_select(
    state: LruState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Unlink the oldest unblocked slots."""
    return unlink_oldest(state.links, state.links.shape[0] - 1, n, blocked, out)


@kernel
def list_on_remove(state: LruState, slots: Int32Array) -> None:
    """Unlink slots."""
    for i in range(slots.shape[0]):
        unlink(state.links, slots[i])


@kernel
def list_insert_tail_first(
    state: LruState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Link new slots so that the head is the newest."""
    link_all_newest(state.links, state.links.shape[0] - 1, slots)


@kernel
def list_insert_head_first(
    state: LruState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Link new slots in the order given."""
    sentinel = state.links.shape[0] - 1
    for i in range(slots.shape[0]):
        link_newest(state.links, sentinel, slots[i])


@kernel
def list_use_tail_first(
    state: LruState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones, the head newest of all."""
    sentinel = state.links.shape[0] - 1
    for i in range(slots.shape[0] - 1, -1, -1):
        move_newest(state.links, sentinel, slots[i])


@kernel
def lru_on_insert(
    state: LruState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Link new slots so that the head is the newest."""
    list_insert_tail_first(state, slots, keys, depths, now, request)
    note_insert(request)


@kernel
def lru_on_hit(
    state: LruState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones, the head newest of all."""
    list_use_tail_first(state, slots, now, request)
    note_hit(request, slots.shape[0])


@kernel
def lru_on_finish(
    state: LruState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones where tails look newer than heads."""
    if needs_order(request):
        list_use_tail_first(state, slots, now, request)


@kernel
def list_on_ready(state: LruState, slots: Int32Array) -> None:
    """Make slots the newest ones, in the order given."""
    sentinel = state.links.shape[0] - 1
    for i in range(slots.shape[0]):
        move_newest(state.links, sentinel, slots[i])


@kernel
def list_reset(state: LruState) -> None:
    """Empty the list."""
    clear_links(state.links, state.links.shape[0] - 1)


@kernel
def rank_select(
    state: Lru33State, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose the slots of lowest rank."""
    return heap_take(state.heap, n, blocked, state.skipped, out)


@kernel
def rank_on_remove(state: Lru33State, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        heap_remove(state.heap, slots[i])


@kernel
def _request_rank(state: Lru33State, request: Float64Array) -> float:
    if request[SCRATCH] == 0.0:
        state.last_rank[0] += 1
        request[SCRATCH] = state.last_rank[0]
    return request[SCRATCH]


@kernel
def rank_on_insert(
    state: Lru33State,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Rank new slots with their request, deeper ones first to go."""
    rank = _request_rank(state, request)
    for i in range(slots.shape[0]):
        state.depth[slots[i]] = depths[i]
        heap_set(state.heap, slots[i], rank, -depths[i])


@kernel
def rank_on_hit(
    state: Lru33State, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Raise slots to the rank of the request that uses them."""
    rank = _request_rank(state, request)
    for i in range(slots.shape[0]):
        if state.heap.key[slots[i]] < rank:
            heap_set(state.heap, slots[i], rank, -state.depth[slots[i]])


@kernel
def rank_on_finish(
    state: Lru33State, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Give each slot a fresh rank, tail first."""
    for i in range(slots.shape[0] - 1, -1, -1):
        state.last_rank[0] += 1
        heap_set(state.heap, slots[i], float(state.last_rank[0]), 0)


@kernel
def rank_reset(state: Lru33State) -> None:
    """Empty the heap."""
    heap_clear(state.heap)


register_kernels(
    LruState,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=lru_on_insert,
        on_hit=lru_on_hit,
        on_finish=lru_on_finish,
        reset=list_reset,
    ),
)
register_kernels(
    LinksState,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=list_insert_tail_first,
        on_hit=list_use_tail_first,
        on_finish=list_use_tail_first,
        reset=list_reset,
    ),
)
register_kernels(
    Lru24State,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=list_insert_head_first,
        on_hit=list_use_tail_first,
        on_ready=list_on_ready,
        reset=list_reset,
    ),
)
register_kernels(
    Lru32State,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=list_insert_head_first,
        on_finish=list_use_tail_first,
        reset=list_reset,
    ),
)
register_kernels(
    Lru33State,
    Kernels(
        select=rank_select,
        on_remove=rank_on_remove,
        on_insert=rank_on_insert,
        on_hit=rank_on_hit,
        on_finish=rank_on_finish,
        reset=rank_reset,
    ),
)

SPEC = PolicySpec(
    name="lru",
    summary="the block unused for the longest time goes first",
    params=LruParams,
    make=make_lru,
)
