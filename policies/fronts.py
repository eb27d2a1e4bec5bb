"""A heap of runs by the (key, tie) of their fronts, smallest first.

Four children a node, keys beside each other in heap order: half the levels of a binary
heap, and each level within a line or two of the processor's cache. Keys are float64,
ties int64 and all different, so there is one order.

Cost: O(log R) for R runs, O(1) to read the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined


class Fronts(NamedTuple):
    """Arrays of a heap of at most R runs; those of a place hold what stands there."""

    key: Float64Array  # float64[R], by place
    tie: Int64Array  # int64[R], by place
    run: Int32Array  # int32[R], by place
    place: Int32Array  # int32[R], by run, valid of those in the heap
    size: Int64Array  # int64[1]


def make_fronts(runs: int) -> Fronts:
    """Return an empty heap for runs 0 to ``runs`` - 1."""
    return Fronts(
        key=np.zeros(runs, np.float64),
        tie=np.zeros(runs, np.int64),
        run=np.zeros(runs, np.int32),
        place=np.zeros(runs, np.int32),
        size=np.zeros(1, np.int64),
    )


@inlined
def _stand(fronts: Fronts, at: int, run: int, key: float, tie: int) -> None:
    fronts.key[at] = key
    fronts.tie[at] = tie
    fronts.run[at] = run
    fronts.place[run] = at


@inlined
def _up(fronts: Fronts, at: int, run: int, key: float, tie: int) -> None:
    """Put a run at a place, or nearer the top if it comes before what is there."""
    while at > 0:
        above = (at - 1) >> 2
        other = fronts.key[above]
        if other < key or (other == key and fronts.tie[above] < tie):
            break
        _stand(fronts, at, int(fronts.run[above]), other, fronts.tie[above])
        at = above
    _stand(fronts, at, run, key, tie)


@inlined
def _down(fronts: Fronts, at: int, run: int, key: float, tie: int) -> None:
    """Put a run at a place, or further down if what is there comes before it."""
    size = fronts.size[0]
    while 4 * at + 1 < size:
        least = 4 * at + 1
        least_key, least_tie = fronts.key[least], fronts.tie[least]
        for child in range(least + 1, min(4 * at + 5, size)):
            other, other_tie = fronts.key[child], fronts.tie[child]
            before = (other < least_key) | (
                (other == least_key) & (other_tie < least_tie)
            )
            least = child if before else least
            least_key = other if before else least_key
            least_tie = other_tie if before else least_tie
        if key < least_key or (key == least_key and tie < least_tie):
            break
        _stand(fronts, at, int(fronts.run[least]), least_key, least_tie)
        at = least
    _stand(fronts, at, run, key, tie)


@inlined
def fronts_add(fronts: Fronts, run: int, key: float, tie: int) -> None:
    """Put a run in that is not."""
    fronts.size[0] += 1
    _up(fronts, fronts.size[0] - 1, run, key, tie)


@inlined
def fronts_mend(fronts: Fronts, key: float, tie: int) -> None:
    """Give the first run a key that is not before its own."""
    _down(fronts, 0, int(fronts.run[0]), key, tie)


@inlined
def fronts_remove(fronts: Fronts, run: int) -> None:
    """Take a run out."""
    at = int(fronts.place[run])
    fronts.size[0] -= 1
    end = fronts.size[0]
    if at == end:
        return
    last, key, tie = int(fronts.run[end]), fronts.key[end], fronts.tie[end]
    above = (at - 1) >> 2
    if at > 0 and (
        key < fronts.key[above]
        or (key == fronts.key[above] and tie < fronts.tie[above])
    ):
        _up(fronts, at, last, key, tie)
    else:
        _down(fronts, at, last, key, tie)
