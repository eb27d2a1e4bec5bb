"""S3-FIFO: a small queue in front of a main one, and a queue of ghosts.

Idea: most new blocks are never used again, so they pass through a small queue and leave
early; what is used while it is there, or comes back soon after, gets into the main one.

Source: Yang et al., FIFO Queues are All You Need for Cache Eviction, SOSP 2023.

State: S and M hold exactly the resident slots, oldest to newest; ``uses`` counts a
slot's uses since it got into its queue, up to 3. The ghosts are keys evicted from S, at
most C less the size of S.

Deviations: a request counts once for each block. Blocks that one request stores in one
queue stand together there, its tail oldest: a request that stores in several parts
moves its own new blocks to the newest end. Blocked slots are passed over in their
place; where all of a queue is blocked, the other one gives. Moving a block to M evicts
nothing by itself, since the cache is as full as before.

Cost: O(1) a use, O(1) amortised a victim beside blocked ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.ghosts import (
    Ghosts,
    ghost_add,
    ghost_drop,
    ghost_drop_oldest,
    ghost_find,
    ghosts_clear,
    make_ghosts,
)
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_newest,
    make_links,
    move_newest,
    unlink,
)
from hotset.policies.ordering import needs_order, note_insert, number_of
from hotset.policies.verbs import Kernels, register_kernels

_S, _M = 0, 1
_MOST_USES = 3
_USES_FOR_MAIN = 2


@dataclass(frozen=True)
class S3FifoParams(Params):
    """Parameters of `s3fifo`."""

    small: float = param(
        0.1, "share of the cache that the small queue has", low=0.0, high=1.0
    )


class S3FifoState(NamedTuple):
    """Two queues and the ghosts of the small one."""

    links: Int32Array  # int32[C + 2, 2], S and M, oldest to newest
    which: Int32Array  # int32[C], the queue of a resident slot
    uses: Int32Array  # int32[C], 0 to 3
    key: Int64Array  # int64[C], of resident slots
    stored_by: Int64Array  # int64[C], the number of the request that stored a slot
    ghosts: Ghosts  # at most C keys
    # int64[3]: slots in S, how many S should have, most ghosts
    numbers: Int64Array
    requests: Int64Array  # int64[1], requests numbered so far


_IN_SMALL, _SMALL, _MOST_GHOSTS = 0, 1, 2


def make_s3fifo(
    params: S3FifoParams, capacity: int, next_use: Any = None
) -> S3FifoState:
    """Build the state."""
    small = max(1, int(params.small * capacity))
    ghosts = max(1, capacity - small)
    return S3FifoState(
        links=make_links(capacity, 2),
        which=np.zeros(capacity, np.int32),
        uses=np.zeros(capacity, np.int32),
        key=np.zeros(capacity, np.int64),
        stored_by=np.zeros(capacity, np.int64),
        ghosts=make_ghosts(ghosts),
        numbers=np.array([0, small, ghosts], np.int64),
        requests=np.zeros(1, np.int64),
    )


@kernel
def _move_to(state: S3FifoState, slot: int, queue: int) -> None:
    """Put a slot at the newest end of a queue."""
    unlink(state.links, slot)
    state.numbers[_IN_SMALL] += int(queue == _S) - int(state.which[slot] == _S)
    state.which[slot] = queue
    link_newest(state.links, state.which.shape[0] + queue, slot)


@kernel
def _take_out(state: S3FifoState, slot: int) -> None:
    unlink(state.links, slot)
    state.numbers[_IN_SMALL] -= state.which[slot] == _S


@kernel
def _evict_small(state: S3FifoState, blocked: Int32Array) -> int:
    """Take the oldest slot of S that has few uses; the others it meets move to M."""
    sentinel = state.which.shape[0] + _S
    at = int(state.links[sentinel, NEWER])
    while at != sentinel:
        upper = int(state.links[at, NEWER])
        if blocked[at] == 0:
            if state.uses[at] < _USES_FOR_MAIN:
                _take_out(state, at)
                return at
            state.uses[at] = 0
            _move_to(state, at, _M)
        at = upper
    return -1


@kernel
def _evict_main(state: S3FifoState, blocked: Int32Array) -> int:
    """Take the oldest slot of M without uses; each it meets loses one and moves up."""
    sentinel = state.which.shape[0] + _M
    for _round in range(_MOST_USES + 1):
        last = int(state.links[sentinel, OLDER])
        at = int(state.links[sentinel, NEWER])
        while at != sentinel:
            upper = int(state.links[at, NEWER])
            if blocked[at] == 0:
                if state.uses[at] == 0:
                    _take_out(state, at)
                    return at
                state.uses[at] -= 1
                _move_to(state, at, _M)
            if at == last:
                break
            at = upper
    return -1


@kernel
def s3fifo_select(
    state: S3FifoState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take slots from S while it is large enough, else from M."""
    for found in range(n):
        slot = -1
        from_small = state.numbers[_IN_SMALL] >= state.numbers[_SMALL]
        if from_small:
            slot = _evict_small(state, blocked)
        if slot < 0:
            slot = _evict_main(state, blocked)
        if slot < 0:
            slot = _evict_small(state, blocked)
        if slot < 0:  # what was in S has moved to M
            slot = _evict_main(state, blocked)
        if slot < 0:
            return found
        out[found] = slot
    return n


@kernel
def s3fifo_on_evict(state: S3FifoState, slots: Int32Array) -> None:
    """Remember the keys that left from S."""
    for i in range(slots.shape[0]):
        if state.which[slots[i]] == _S:
            if state.ghosts.size[0] >= state.numbers[_MOST_GHOSTS]:
                ghost_drop_oldest(state.ghosts, 0)
            ghost_add(state.ghosts, 0, state.key[slots[i]])


@kernel
def s3fifo_on_remove(state: S3FifoState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        _take_out(state, int(slots[i]))


@kernel
def s3fifo_on_insert(
    state: S3FifoState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Queue new blocks: in M those that come back from a ghost, else in S."""
    number = number_of(request, state.requests)
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = int(slots[i])
        state.uses[slot] = 0
        state.key[slot] = keys[i]
        state.stored_by[slot] = number
        queue = _S
        entry = ghost_find(state.ghosts, keys[i])
        if entry != NO_ENTRY:
            ghost_drop(state.ghosts, entry)
            queue = _M
        state.which[slot] = queue
        state.numbers[_IN_SMALL] += queue == _S
        link_newest(state.links, state.which.shape[0] + queue, slot)
    note_insert(request)


@kernel
def s3fifo_on_hit(
    state: S3FifoState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Count a use of slots."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        state.uses[slot] = min(state.uses[slot] + 1, _MOST_USES)


@kernel
def s3fifo_on_finish(
    state: S3FifoState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Bring together what the request stored in several parts."""
    if not needs_order(request):
        return
    number = number_of(request, state.requests)
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        if state.stored_by[slot] == number:
            sentinel = state.which.shape[0] + state.which[slot]
            move_newest(state.links, sentinel, slot)


@kernel
def s3fifo_reset(state: S3FifoState) -> None:
    """Empty the queues and forget the ghosts."""
    clear_links(state.links, state.which.shape[0])
    ghosts_clear(state.ghosts)
    state.numbers[_IN_SMALL] = 0


register_kernels(
    S3FifoState,
    Kernels(
        select=s3fifo_select,
        on_evict=s3fifo_on_evict,
        on_remove=s3fifo_on_remove,
        on_insert=s3fifo_on_insert,
        on_hit=s3fifo_on_hit,
        on_finish=s3fifo_on_finish,
        reset=s3fifo_reset,
    ),
)

SPEC = PolicySpec(
    name="s3fifo",
    summary="unused blocks leave early through a small queue (S3-FIFO)",
    params=S3FifoParams,
    make=make_s3fifo,
)
