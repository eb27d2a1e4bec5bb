"""SIEVE.

Idea: a queue by insertion and a hand that walks it from old to new, passing over blocks
that were used since it last came by; the first that was not goes. Blocks never move, so
what nobody uses again is sifted out early.

Source: Zhang et al., SIEVE is Simpler than LRU: an Efficient Turn-Key Eviction
Algorithm for Web Caches, NSDI 2024.

State: one list, oldest to newest by insertion, of exactly the resident slots;
``visited`` is 1 where a slot was used since the hand last passed it. ``hand`` is a
slot, or the list's sentinel where the walk starts at the oldest again.

Deviations: blocks stored by one request stand together in the queue, its tail oldest: a
request that stores in several parts moves its own new blocks to the newest end. The
hand passes pinned and protected blocks without clearing their bit.

Cost: O(1) a use, O(1) amortised a victim beside blocked ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec
from hotset.policies.jit import kernel
from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_all_newest,
    link_newest,
    make_links,
    unlink,
)
from hotset.policies.ordering import needs_order, note_insert, number_of
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class SieveParams(Params):
    """`sieve` has none."""


class SieveState(NamedTuple):
    """The queue and its hand."""

    links: Int32Array  # int32[C + 1, 2]
    visited: Int32Array  # int32[C]
    stored_by: Int64Array  # int64[C], the number of the request that stored a slot
    hand: Int64Array  # int64[1]
    requests: Int64Array  # int64[1], requests numbered so far


def make_sieve(params: SieveParams, capacity: int, next_use: Any = None) -> SieveState:
    """Build the state."""
    return SieveState(
        links=make_links(capacity),
        visited=np.zeros(capacity, np.int32),
        stored_by=np.zeros(capacity, np.int64),
        hand=np.full(1, capacity, np.int64),
        requests=np.zeros(1, np.int64),
    )


@kernel
def sieve_select(
    state: SieveState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Walk on from the hand and take the slots that were not visited."""
    links, visited = state.links, state.visited
    sentinel = visited.shape[0]
    found = 0
    looks_left = 3 * sentinel + 3  # two rounds find every unblocked slot
    at = int(state.hand[0])
    while found < n and looks_left > 0:
        looks_left -= 1
        upper = int(links[at, NEWER])
        if at < sentinel and blocked[at] == 0:
            if visited[at] == 0:
                out[found] = at
                found += 1
                unlink(links, at)
            visited[at] = 0
        at = upper
    state.hand[0] = at
    return found


@kernel
def _take_out(state: SieveState, slot: int) -> None:
    """Unlink a slot; a hand that points at it moves on."""
    if state.hand[0] == slot:
        state.hand[0] = state.links[slot, NEWER]
    unlink(state.links, slot)


@kernel
def sieve_on_remove(state: SieveState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        _take_out(state, int(slots[i]))


@kernel
def sieve_on_insert(
    state: SieveState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Queue new blocks, the head newest."""
    number = number_of(request, state.requests)
    for i in range(slots.shape[0]):
        state.visited[slots[i]] = 0
        state.stored_by[slots[i]] = number
    link_all_newest(state.links, state.visited.shape[0], slots)
    note_insert(request)


@kernel
def sieve_on_hit(
    state: SieveState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Mark slots as visited."""
    for i in range(slots.shape[0]):
        state.visited[slots[i]] = 1


@kernel
def sieve_on_finish(
    state: SieveState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Bring together what the request stored in several parts."""
    if not needs_order(request):
        return
    number = number_of(request, state.requests)
    sentinel = state.visited.shape[0]
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        if state.stored_by[slot] == number and state.links[sentinel, OLDER] != slot:
            _take_out(state, slot)
            link_newest(state.links, sentinel, slot)
    hand = state.hand[0]
    if hand < sentinel and state.stored_by[hand] == number:
        state.hand[0] = sentinel  # nothing else is left in front of it


@kernel
def sieve_reset(state: SieveState) -> None:
    """Empty the queue."""
    sentinel = state.visited.shape[0]
    clear_links(state.links, sentinel)
    state.hand[0] = sentinel


register_kernels(
    SieveState,
    Kernels(
        select=sieve_select,
        on_remove=sieve_on_remove,
        on_insert=sieve_on_insert,
        on_hit=sieve_on_hit,
        on_finish=sieve_on_finish,
        reset=sieve_reset,
    ),
)

SPEC = PolicySpec(
    name="sieve",
    summary="in the order of storing, the first that was not used goes (SIEVE)",
    params=SieveParams,
    make=make_sieve,
)
