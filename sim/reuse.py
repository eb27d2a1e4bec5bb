"""Reuse distances under LRU: one pass over a trace gives the hits at every capacity.

Plain replay of `lru` keeps a stack: a request moves its blocks to the top, head first,
and a cache of C blocks holds the C topmost ones. A block is therefore hit where C is at
least its place in the stack, and counts where the same holds for all blocks before it.

For requests of at most C blocks this is so on any trace: what a request evicts is the
bottom of the stack, since its own blocks are protected. A longer request keeps what it
finds and stores the first missing blocks that fit. If every block stands behind one and
the same prefix whenever it is used (the trace is a forest), no block is above the
blocks before it, what a request finds is a prefix of it, and the first C of its blocks
stay, which are again the topmost ones: the curve is exact at every capacity. Otherwise
it is exact from the longest request on.

In a forest, what is left of a request in the stack is always an unbroken end of it.
Blocks last used by one request thus have consecutive places and are counted together:
a request costs O(runs * log R), a run being blocks that one request used last, and one
look at each of its blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.jit import kernel
from hotset.sim.workload import Workload

_LAST, _PARENT = 0, 1
_NONE, _ROOT = -1, -2


class Distances(NamedTuple):
    """How many hits each capacity adds to those of the next smaller one.

    Indexed by capacity, 0 to the number of distinct blocks + 1.
    """

    blocks: Int64Array  # int64[U + 2]
    missing_tokens: Int64Array  # int64[U + 2], what partial blocks lack to full ones
    requests: Int64Array  # int64[U + 2]


class Input(NamedTuple):
    """The requests, and from which on they are measured."""

    offsets: Int64Array  # int64[R + 1]
    ids: KeyArray  # integer[A]
    short_tokens: Int64Array  # int64[R], what the last block lacks to a full one
    first_measured: int


def reuse_distances(workload: Workload, first_measured: int) -> tuple[Distances, int]:
    """Return the distances, and the least capacity from which on they are exact.

    Parameters
    ----------
    workload : Workload
        The requests.
    first_measured : int
        Index of the first request that is counted.
    """
    chunks = workload.chunks
    sizes = np.diff(chunks.offsets)
    lacking = sizes * workload.chunk_tokens - workload.trace.input_tokens
    given = Input(chunks.offsets, chunks.ids, np.maximum(lacking, 0), first_measured)
    num_requests, num_distinct = len(sizes), chunks.num_distinct
    out = _no_distances(num_distinct)
    nodes = np.full((num_distinct, 2), _NONE, np.int32)
    if len(chunks.ids) < 2**31 and forest_distances(
        given, nodes, np.zeros(num_requests + 1, np.int64), out
    ):
        np.cumsum(out.blocks, out=out.blocks)
        return out, 1
    out = _no_distances(num_distinct)
    longest = int(sizes.max(initial=1))
    any_distances(
        given,
        np.full(num_distinct, _NONE, np.int64),
        np.zeros(len(chunks.ids) + 1, np.int64),
        np.zeros(longest, np.int64),
        out,
    )
    return out, longest


def _no_distances(num_distinct: int) -> Distances:
    size = num_distinct + 2
    return Distances(*(np.zeros(size, np.int64) for _ in Distances._fields))


@kernel
def tree_add(tree: Int64Array, at: int, amount: int) -> None:
    """Add to the entry ``at`` (from 0 on) of a binary indexed tree."""
    i = at + 1
    while i < tree.shape[0]:
        tree[i] += amount
        i += i & -i


@kernel
def tree_sum(tree: Int64Array, count: int) -> int:
    """Return the sum of the first ``count`` entries."""
    total = 0
    i = count
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@kernel
def _run_end(
    ids: KeyArray, nodes: Int32Array, start: int, stop: int, r: int, parent: int
) -> int:
    """Move a run of blocks that one request used last to request r; return its end.

    A negative number where a block stands behind another block than before.
    """
    last = nodes[ids[start], _LAST]
    i = start
    while i < stop and nodes[ids[i], _LAST] == last:
        block = ids[i]
        if last == _NONE:
            nodes[block, _PARENT] = parent
        elif nodes[block, _PARENT] != parent:
            return -1
        nodes[block, _LAST] = r
        parent = block
        i += 1
    return i


@kernel
def forest_distances(
    given: Input, nodes: Int32Array, tree: Int64Array, out: Distances
) -> bool:
    """Count the distances of a forest; return False where the trace is none.

    Parameters
    ----------
    given : Input
        The requests.
    nodes : int32[U, 2]
        Scratch, all -1: by block, the request that used it last, and its parent.
    tree : int64[R + 1]
        Scratch, all 0: by request, how many blocks it was the last to use.
    out : Distances
        Receives the counts; of ``blocks`` the differences from entry to entry.
    """
    offsets, ids = given.offsets, given.ids
    stacked = 0
    for r in range(offsets.shape[0] - 1):
        measured = r >= given.first_measured
        start, stop = offsets[r], offsets[r + 1]
        parent = _ROOT
        while start < stop:
            last = nodes[ids[start], _LAST]
            end = _run_end(ids, nodes, start, stop, r, parent)
            if end < 0:
                return False
            if last != _NONE:
                # The request's own blocks up to here left the tree, but were above.
                above = stacked - tree_sum(tree, last + 1) + start - offsets[r]
                deepest = above + end - start
                tree_add(tree, last, start - end)
                stacked -= end - start
                if measured:
                    out.blocks[above + 1] += 1
                    out.blocks[deepest + 1] -= 1
                    if start == offsets[r]:
                        out.requests[above + 1] += 1
                    if end == stop:
                        out.missing_tokens[deepest] += given.short_tokens[r]
            parent = ids[end - 1]
            start = end
        tree_add(tree, r, stop - offsets[r])
        stacked += stop - offsets[r]
    return True


@kernel
def any_distances(
    given: Input,
    place: Int64Array,
    tree: Int64Array,
    found: Int64Array,
    out: Distances,
) -> None:
    """Count the distances of any trace, exact from its longest request on.

    Parameters
    ----------
    given : Input
        The requests.
    place : int64[U]
        Scratch, all -1: by block, when it was used last; heads later than tails.
    tree : int64[A + 1]
        Scratch, all 0: by moment, whether a block was used last then.
    found : int64[N]
        Scratch of the longest request.
    out : Distances
        Receives the counts.
    """
    offsets, ids = given.offsets, given.ids
    stacked = 0
    for r in range(offsets.shape[0] - 1):
        start, n = offsets[r], offsets[r + 1] - offsets[r]
        run = 0
        furthest = 0
        while run < n and place[ids[start + run]] >= 0:
            distance = stacked - tree_sum(tree, place[ids[start + run]])
            furthest = max(furthest, distance)
            found[run] = furthest
            run += 1
        if r >= given.first_measured and run > 0:
            for i in range(run):
                out.blocks[found[i]] += 1
            out.requests[found[0]] += 1
            if run == n:
                out.missing_tokens[found[n - 1]] += given.short_tokens[r]
        for i in range(n):
            block = ids[start + i]
            if place[block] >= 0:
                tree_add(tree, place[block], -1)
                stacked -= 1
            place[block] = start + n - 1 - i
            tree_add(tree, place[block], 1)
            stacked += 1
