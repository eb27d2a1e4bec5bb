"""Belady's optimum: the block whose next use lies furthest ahead goes first.

Idea: a cache that knows the future keeps what is used soonest. Under the prefix rule a
block is never used later than its descendants, so among blocks of one next use the
deepest goes first, and what stays resident is closed under prefixes.

Source: Belady, A study of replacement algorithms for a virtual-storage computer,
IBM Systems Journal 5(2), 1966; bypass after Mattson et al., 1970.

State: a heap of exactly the resident slots by (-next use, -depth, last use), where next
use is the index of the request that uses the block next, NEVER where none does. Only
blocks that are never used again can be equal in the first two.

Deviations: with ``bypass=true`` (default) a block whose next use is not nearer than
that of the block it would displace is not stored, and one that is never used again is
not stored at all; this is the bound for policies that may refuse. With
``bypass=false`` every missing block is stored, as in libCacheSim.

Cost: O(log n) a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
from hotset.policies.verbs import Kernels, register_kernels

NEVER = 1 << 50

_BYPASS, _START, _NEXT_START, _USES = 0, 1, 2, 3
_USES_BITS = 40


@dataclass(frozen=True)
class BeladyParams(Params):
    """Parameters of `belady`."""

    bypass: bool = param(
        True, "whether a block may be refused instead of stored", tuned=False
    )


class BeladyState(NamedTuple):
    """The future, and the residents by next use."""

    heap: Heap
    next_use: Int64Array  # int64[A]
    skipped: Int32Array  # int32[C], scratch
    candidates: Int32Array  # int32[C], scratch
    # int64[4]: bypass, first access of the request, of the next, uses so far
    numbers: Int64Array


def make_belady(
    params: BeladyParams, capacity: int, next_use: Int64Array | None = None
) -> BeladyState:
    """Build the state from the future.

    Raises
    ------
    ValueError
        If the future is not given.
    """
    if next_use is None:
        raise ValueError("belady needs next_use, the future of the trace")
    return BeladyState(
        heap=make_heap(capacity),
        next_use=next_use,
        skipped=np.zeros(capacity, np.int32),
        candidates=np.zeros(capacity, np.int32),
        numbers=np.array([params.bypass, 0, 0, 0], np.int64),
    )


@kernel
def _set(state: BeladyState, slot: int, depth: int) -> None:
    next_use = state.next_use[state.numbers[_START] + depth]
    state.numbers[_USES] += 1
    tie = state.numbers[_USES] - (depth << _USES_BITS)
    heap_set(state.heap, slot, float(-next_use), tie)


@kernel
def belady_on_request(
    state: BeladyState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Step to the next request and renew the next use of its resident blocks."""
    state.numbers[_START] = state.numbers[_NEXT_START]
    state.numbers[_NEXT_START] += keys.shape[0]
    for depth in range(slots.shape[0]):
        if slots[depth] >= 0:
            _set(state, slots[depth], depth)


@kernel
def belady_admit(
    state: BeladyState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys while each is used sooner than the block that it displaces."""
    if state.numbers[_BYPASS] == 0:
        return keys.shape[0]
    wanted = 0
    while wanted < keys.shape[0]:
        if state.next_use[state.numbers[_START] + depths[wanted]] == NEVER:
            break
        wanted += 1
    need = wanted - num_free
    if need <= 0:
        return wanted
    found = heap_take(state.heap, need, blocked, state.skipped, state.candidates)
    admitted = num_free
    for i in range(found):
        slot = state.candidates[i]
        next_use = state.next_use[state.numbers[_START] + depths[num_free + i]]
        if admitted == num_free + i and next_use < -state.heap.key[slot]:
            admitted += 1
    for i in range(found):
        slot = state.candidates[i]
        heap_set(state.heap, slot, state.heap.key[slot], state.heap.tie[slot])
    return admitted


@kernel
def belady_select(
    state: BeladyState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose the slots used furthest ahead."""
    return heap_take(state.heap, n, blocked, state.skipped, out)


@kernel
def belady_on_remove(state: BeladyState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        heap_remove(state.heap, slots[i])


@kernel
def belady_on_insert(
    state: BeladyState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks by their next use."""
    for i in range(slots.shape[0]):
        _set(state, slots[i], depths[i])


@kernel
def belady_reset(state: BeladyState) -> None:
    """Empty the cache; the place in the future stays."""
    heap_clear(state.heap)


def _refuses(params: BeladyParams) -> bool:
    return params.bypass


register_kernels(
    BeladyState,
    Kernels(
        on_request=belady_on_request,
        admit=belady_admit,
        select=belady_select,
        on_remove=belady_on_remove,
        on_insert=belady_on_insert,
        reset=belady_reset,
    ),
)

SPEC = PolicySpec(
    name="belady",
    summary="the block used furthest ahead goes first: the optimum, offline",
    params=BeladyParams,
    make=make_belady,
    offline=True,
    refuses=_refuses,
)


def next_uses(offsets: Int64Array, ids: KeyArray, num_distinct: int) -> Int64Array:
    """Return for each access the request that next uses its block, or NEVER.

    Parameters
    ----------
    offsets : int64[R + 1]
        Where each request's accesses begin.
    ids : integer[A]
        Block ids, 0 to ``num_distinct`` - 1.
    num_distinct : int
        Number of distinct blocks.
    """
    upcoming = np.full(num_distinct, NEVER, np.int64)
    result = np.empty(ids.shape[0], np.int64)
    _fill_next_uses(offsets, ids, upcoming, result)
    return result


@kernel
def _fill_next_uses(
    offsets: Int64Array, ids: KeyArray, upcoming: Int64Array, result: Int64Array
) -> None:
    for r in range(offsets.shape[0] - 2, -1, -1):
        for a in range(offsets[r], offsets[r + 1]):
            result[a] = upcoming[ids[a]]
        for a in range(offsets[r], offsets[r + 1]):
            upcoming[ids[a]] = r
