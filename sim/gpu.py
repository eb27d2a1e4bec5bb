"""The GPU prefix cache in front of the CPU tier, one request at a time.

Rules of vLLM's block pool: one block of the pool is never used; only full blocks are
cached, and at least one token of a prompt is always computed; free blocks form a queue
that allocation takes from the front; a finished request frees its blocks in reverse,
those without a hash to the front, the others to the tail, so its head survives longest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.jit import kernel
from hotset.policies.linked import (
    NEWER,
    OLDER,
    link_newest,
    make_links,
    unlink,
)

NO_KEY = -1


class Gpu(NamedTuple):
    """Arrays of a pool of P usable blocks over U distinct ones."""

    queue: Int32Array  # int32[P + 1, 2], free blocks, oldest is the front
    key: Int64Array  # int64[P], or NO_KEY
    place_of: Int32Array  # int32[U], first copy of a block, -1 where it is not cached
    next_copy: Int32Array  # int32[P], the block's next copy, -1 behind the last
    held: Int32Array  # int32[P], blocks of the running request, head first
    num_held: Int64Array  # int64[1]


def make_gpu(num_blocks: int, num_distinct: int) -> Gpu:
    """Return an empty cache of ``num_blocks`` blocks, the unused one included.

    With 0 blocks there is no cache: nothing is found and nothing is held.
    """
    usable = max(num_blocks - 1, 0)
    gpu = Gpu(
        queue=make_links(usable),
        key=np.full(usable, NO_KEY, np.int64),
        place_of=np.full(num_distinct if usable else 0, -1, np.int32),
        next_copy=np.full(usable, -1, np.int32),
        held=np.zeros(usable, np.int32),
        num_held=np.zeros(1, np.int64),
    )
    for place in range(usable):
        link_newest(gpu.queue, usable, place)
    return gpu


@kernel
def gpu_lookup(gpu: Gpu, keys: KeyArray, limit: int) -> int:
    """Return how many leading blocks are cached, at most ``limit``."""
    if gpu.key.shape[0] == 0:
        return 0
    found = 0
    while found < limit and gpu.place_of[keys[found]] >= 0:
        found += 1
    return found


@kernel
def _name(gpu: Gpu, place: int, key: int) -> None:
    """Cache a block in a place; copies are found in the order in which they came."""
    gpu.key[place] = key
    last = gpu.place_of[key]
    if last < 0:
        gpu.place_of[key] = place
        return
    while gpu.next_copy[last] >= 0:
        last = gpu.next_copy[last]
    gpu.next_copy[last] = place


@kernel
def _forget(gpu: Gpu, place: int) -> None:
    """Forget what is cached in a place."""
    key = gpu.key[place]
    if key == NO_KEY:
        return
    after = gpu.next_copy[place]
    before = gpu.place_of[key]
    if before == place:
        gpu.place_of[key] = after
    else:
        while gpu.next_copy[before] != place:
            before = gpu.next_copy[before]
        gpu.next_copy[before] = after
    gpu.key[place] = NO_KEY
    gpu.next_copy[place] = -1


@kernel
def gpu_allocate(gpu: Gpu, keys: KeyArray, num_hits: int, num_blocks: int) -> None:
    """Hold ``num_blocks`` blocks, of which the first are hits.

    Blocks behind the hits are taken from the front of the queue and lose what was
    cached in them; those that ``keys`` names are cached under their key, also where
    there is a copy already.
    """
    queue, front = gpu.queue, gpu.key.shape[0]
    for i in range(num_hits):
        place = gpu.place_of[keys[i]]
        unlink(queue, place)
        gpu.held[i] = place
    for i in range(num_hits, num_blocks):
        place = queue[front, NEWER]
        unlink(queue, place)
        _forget(gpu, place)
        gpu.held[i] = place
        if i < keys.shape[0]:
            _name(gpu, place, keys[i])
    gpu.num_held[0] = num_blocks


@kernel
def gpu_free(gpu: Gpu, num_hashed: int) -> None:
    """Free the held blocks; the first ``num_hashed`` of them have a hash."""
    queue, front = gpu.queue, gpu.key.shape[0]
    for i in range(gpu.num_held[0] - 1, -1, -1):
        if i < num_hashed:
            link_newest(queue, front, gpu.held[i])
    # Prepending in head-to-tail order keeps the reversed order of freeing.
    for i in range(num_hashed, gpu.num_held[0]):
        place = gpu.held[i]
        newer = queue[front, NEWER]
        queue[place, OLDER] = front
        queue[place, NEWER] = newer
        queue[newer, OLDER] = place
        queue[front, NEWER] = place
    gpu.num_held[0] = 0
