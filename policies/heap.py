"""An indexed binary heap of slots: smallest (key, tie) first.

``Heap.order`` holds slots in heap order, ``position`` where each slot stands (-1:
not in the heap). Keys are float64, ties int64, so equal keys have one order in
every process. Push, update and remove are O(log n); reading the top is O(1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined


class Heap(NamedTuple):
    """Arrays of one heap over C slots."""

    order: Int32Array  # int32[C]
    position: Int32Array  # int32[C], -1 where absent
    key: Float64Array  # float64[C]
    tie: Int64Array  # int64[C]
    size: Int64Array  # int64[1]


def make_heap(capacity: int) -> Heap:
    """Return an empty heap over ``capacity`` slots."""
    return Heap(
        order=np.zeros(capacity, np.int32),
        position=np.full(capacity, -1, np.int32),
        key=np.zeros(capacity, np.float64),
        tie=np.zeros(capacity, np.int64),
        size=np.zeros(1, np.int64),
    )


@inlined
def heap_clear(heap: Heap) -> None:
    """Empty the heap."""
    heap.position[:] = -1
    heap.size[0] = 0


@inlined
def _before(heap: Heap, a: int, b: int) -> bool:
    if heap.key[a] != heap.key[b]:
        return bool(heap.key[a] < heap.key[b])
    return bool(heap.tie[a] < heap.tie[b])


@inlined
def _sift_up(heap: Heap, place: int) -> None:
    slot = heap.order[place]
    while place > 0:
        above = (place - 1) >> 1
        other = heap.order[above]
        if not _before(heap, slot, other):
            break
        heap.order[place] = other
        heap.position[other] = place
        place = above
    heap.order[place] = slot
    heap.position[slot] = place


@inlined
def _sift_down(heap: Heap, place: int) -> None:
    size = heap.size[0]
    slot = heap.order[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _before(heap, heap.order[child + 1], heap.order[child]):
            child += 1
        other = heap.order[child]
        if not _before(heap, other, slot):
            break
        heap.order[place] = other
        heap.position[other] = place
        place = child
    heap.order[place] = slot
    heap.position[slot] = place


@inlined
def heap_set(heap: Heap, slot: int, key: float, tie: int) -> None:
    """Put a slot in with this key, or change its key."""
    place = heap.position[slot]
    if place < 0:
        place = heap.size[0]
        heap.size[0] += 1
        heap.order[place] = slot
        heap.position[slot] = place
        heap.key[slot] = key
        heap.tie[slot] = tie
        _sift_up(heap, place)
        return
    earlier = key < heap.key[slot] or (key == heap.key[slot] and tie < heap.tie[slot])
    heap.key[slot] = key
    heap.tie[slot] = tie
    if earlier:
        _sift_up(heap, place)
    else:
        _sift_down(heap, place)


@inlined
def heap_remove(heap: Heap, slot: int) -> None:
    """Take a slot out; a slot that is not in the heap is left alone."""
    place = heap.position[slot]
    if place < 0:
        return
    heap.position[slot] = -1
    heap.size[0] -= 1
    last = heap.order[heap.size[0]]
    if last == slot:
        return
    heap.order[place] = last
    heap.position[last] = place
    _sift_up(heap, place)
    _sift_down(heap, heap.position[last])


@inlined
def heap_rebuild(heap: Heap) -> None:
    """Restore the heap order after keys were changed in bulk."""
    for place in range(heap.size[0] // 2 - 1, -1, -1):
        _sift_down(heap, place)


@inlined
def heap_take(
    heap: Heap, n: int, blocked: Int32Array, skipped: Int32Array, out: Int32Array
) -> int:
    """Remove the n first unblocked slots into ``out``; return how many were found.

    Blocked slots keep their place; ``skipped`` is scratch for them, int32[C].
    """
    found = 0
    num_skipped = 0
    while found < n and heap.size[0] > 0:
        slot = heap.order[0]
        heap_remove(heap, slot)
        if blocked[slot] != 0:
            skipped[num_skipped] = slot
            num_skipped += 1
        else:
            out[found] = slot
            found += 1
    for i in range(num_skipped):
        slot = skipped[i]
        heap_set(heap, slot, heap.key[slot], heap.tie[slot])
    return found
