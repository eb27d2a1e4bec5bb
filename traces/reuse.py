"""When and how far apart blocks are used again."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotset.traces.model import Accesses

MAX_SAMPLED = 1 << 20
"""Accesses above which reuse distances come from a sample of the blocks."""

_MULTIPLIER = 2654435761
_HASH_BITS = 32


def previous_use(ids: NDArray[np.integer]) -> NDArray[np.int64]:
    """Place of the access before, to the same block, of each access.

    Parameters
    ----------
    ids : int[A]
        Blocks in order of use.

    Returns
    -------
    int64[A]
        -1 where there is none.
    """
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    previous = np.full(ids.size, -1, np.int64)
    previous[order[again]] = order[again - 1]
    return previous


class ReuseDistances(NamedTuple):
    """Distances of a trace, or of a sample of its blocks.

    Attributes
    ----------
    blocks : int64[N]
        Distinct blocks used between two uses of a block; of a sample, scaled up.
    one_in : int
        1 where all blocks were looked at; k where one in k was.
    """

    blocks: NDArray[np.int64]
    one_in: int


def reuse_distances(
    accesses: Accesses, max_accesses: int = MAX_SAMPLED
) -> ReuseDistances:
    """Distinct blocks used between two uses of a block, for every reuse.

    Parameters
    ----------
    accesses : Accesses
        Block references.
    max_accesses : int
        Above it, a sample of the blocks is looked at: which ones depends on
        their ids alone, and a distance counts once for each block left out.

    Returns
    -------
    ReuseDistances
        In order of use.
    """
    ids = accesses.ids
    one_in = 1
    while ids.size > max_accesses and one_in < 1 << 16:
        one_in *= 2
        mixed = accesses.ids.astype(np.uint64) * np.uint64(_MULTIPLIER)
        mixed &= np.uint64((1 << _HASH_BITS) - 1)
        ids = accesses.ids[mixed < (1 << _HASH_BITS) // one_in]
    previous = previous_use(ids)
    again = np.flatnonzero(previous >= 0)
    between = again - previous[again] - 1
    # Of the accesses in between, those whose own earlier use is there as well
    # add no block: they are the later reuses that reach back less far.
    return ReuseDistances((between - _larger_before(previous[again])) * one_in, one_in)


def _larger_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values before each one are larger; values are distinct.

    Values are split by their bits, the highest first, each part in the old
    order. Two values part at the first bit in which they differ, and there the
    smaller counts the larger ones before it.
    """
    size = values.size
    counts = np.zeros(size, np.int64)
    ranks = np.empty(size, np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(size)
    owner = np.arange(size)
    places = np.arange(size)
    for bit in range(max(size - 1, 0).bit_length() - 1, -1, -1):
        # Ranks are dense, so the part of a place follows from the place alone.
        starts = places >> (bit + 1) << (bit + 1)
        ones = ranks >> bit & 1
        before = np.cumsum(ones) - ones
        ones_before = before - before[starts]
        counts[owner] += (1 - ones) * ones_before
        zeros_before = places - starts - ones_before
        target = starts + np.where(ones == 1, (1 << bit) + ones_before, zeros_before)
        moved_ranks, moved_owner = np.empty_like(ranks), np.empty_like(owner)
        moved_ranks[target], moved_owner[target] = ranks, owner
        ranks, owner = moved_ranks, moved_owner
    return counts
