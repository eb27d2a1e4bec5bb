"""A four-ary heap of slots, smallest (key, tie) first.

Four children a node, keys beside each other in heap order: half the levels of a binary
heap, and each level within a line or two of the processor's cache. Keys are float64,
ties int64 and all different, so there is one order.

Cost: O(log n) for n slots, O(1) to read the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined


class WideHeap(NamedTuple):
    """Arrays of a heap of at most C slots; those of a place hold what stands there."""

    key: Float64Array  # float64[C], by place
    tie: Int64Array  # int64[C], by place
    slot: Int32Array  # int32[C], by place
    place: Int32Array  # int32[C], by slot, valid of those in the heap
    size: Int64Array  # int64[1]


def make_wide_heap(capacity: int) -> WideHeap:
    """Return an empty heap for slots 0 to ``capacity`` - 1."""
    return WideHeap(
        key=np.zeros(capacity, np.float64),
        tie=np.zeros(capacity, np.int64),
        slot=np.zeros(capacity, np.int32),
        place=np.zeros(capacity, np.int32),
        size=np.zeros(1, np.int64),
    )


@inlined
def _stand(heap: WideHeap, at: int, slot: int, key: float, tie: int) -> None:
    heap.key[at] = key
    heap.tie[at] = tie
    heap.slot[at] = slot
    heap.place[slot] = at


@inlined
def _up(heap: WideHeap, at: int, slot: int, key: float, tie: int) -> None:
    """Put a slot at a place, or nearer the top if it comes before what is there."""
    while at > 0:
        above = (at - 1) >> 2
        other = heap.key[above]
        if other < key or (other == key and heap.tie[above] < tie):
            break
        _stand(heap, at, int(heap.slot[above]), other, heap.tie[above])
        at = above
    _stand(heap, at, slot, key, tie)


@inlined
def _down(heap: WideHeap, at: int, slot: int, key: float, tie: int) -> None:
    """Put a slot at a place, or further down if what is there comes before it."""
    size = heap.size[0]
    while 4 * at + 1 < size:
        least = 4 * at + 1
        least_key, least_tie = heap.key[least], heap.tie[least]
        for child in range(least + 1, min(4 * at + 5, size)):
            other, other_tie = heap.key[child], heap.tie[child]
            before = (other < least_key) | (
                (other == least_key) & (other_tie < least_tie)
            )
            least = child if before else least
            least_key = other if before else least_key
            least_tie = other_tie if before else least_tie
        if key < least_key or (key == least_key and tie < least_tie):
            break
        _stand(heap, at, int(heap.slot[least]), least_key, least_tie)
        at = least
    _stand(heap, at, slot, key, tie)


@inlined
def wide_heap_add(heap: WideHeap, slot: int, key: float, tie: int) -> None:
    """Put a slot in that is not."""
    heap.size[0] += 1
    _up(heap, heap.size[0] - 1, slot, key, tie)


@inlined
def wide_heap_remove(heap: WideHeap, slot: int) -> None:
    """Take a slot out."""
    at = int(heap.place[slot])
    heap.size[0] -= 1
    end = heap.size[0]
    if at == end:
        return
    last, key, tie = int(heap.slot[end]), heap.key[end], heap.tie[end]
    above = (at - 1) >> 2
    if at > 0 and (
        key < heap.key[above] or (key == heap.key[above] and tie < heap.tie[above])
    ):
        _up(heap, at, last, key, tie)
    else:
        _down(heap, at, last, key, tie)
