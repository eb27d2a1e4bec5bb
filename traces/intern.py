"""Interning: whatever names a block becomes 0..U-1 in order of first appearance.

The key of a block is (scope, id) where an id stands for its whole prefix, and
(scope, parent, id) where it stands for one block's content.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IdArray = NDArray[np.int32] | NDArray[np.int64]


class Interned(NamedTuple):
    """Interned ids.

    Attributes
    ----------
    ids : int32[A] or int64[A]
        Blocks, 0..U-1 in order of first appearance.
    num_blocks : int
        U.
    num_unchained : int
        Raw ids found behind more than one parent in a format that declares
        its ids chained. Not 0 means that (parent, id) was the key.
    """

    ids: IdArray
    num_blocks: int
    num_unchained: int


class Codes:
    """Codes 0, 1, 2, ... for hashable values, in order of first appearance.

    Integers and strings never mix: "1" and 1 are different values.
    """

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, value: Hashable) -> bool:
        return value in self._codes

    def values(self) -> tuple[Hashable, ...]:
        """All values, by code.

        Returns
        -------
        tuple
            The value of code i at place i.
        """
        return tuple(self._codes)

    def code(self, value: Hashable) -> int:
        """Code of a value, a new one if it was never seen.

        Parameters
        ----------
        value : Hashable
            An int or a str.

        Returns
        -------
        int
            0 or more.
        """
        return self._codes.setdefault(value, len(self._codes))


def narrow(ids: NDArray[np.int64]) -> IdArray:
    """Ids as int32 where all of them fit.

    Parameters
    ----------
    ids : int64[A]
        Block ids.

    Returns
    -------
    int32[A] or int64[A]
        The same values.
    """
    limits = np.iinfo(np.int32)
    if ids.size and (int(ids.max()) > limits.max or int(ids.min()) < limits.min):
        return ids
    return ids.astype(np.int32)


def densify(raw: IdArray) -> tuple[NDArray[np.int64], int]:
    """Values numbered 0..D-1 in order of first appearance.

    Parameters
    ----------
    raw : int32[A] or int64[A]
        Any integers.

    Returns
    -------
    tuple of (int64[A], int)
        The numbers, and D.
    """
    if raw.size == 0:
        return np.zeros(0, np.int64), 0
    low, high = int(raw.min()), int(raw.max())
    if high - low > 4 * raw.size + 1024:
        # Sparse (hashes): a hash table beats sorting several times over.
        import pandas as pd

        codes, distinct = pd.factorize(raw)
        return codes.astype(np.int64, copy=False), len(distinct)
    local = raw if low == 0 else raw - raw.dtype.type(low)
    # Narrow scratch arrays where places fit: memory is most of the time here.
    kind = np.int32 if raw.size <= np.iinfo(np.int32).max else np.int64
    places = np.arange(raw.size, dtype=kind)
    first = np.empty(high - low + 1, kind)
    # Of repeated indices the last assignment stays: backwards, the first place.
    first[local[::-1]] = places[::-1]
    first_of = first[local]
    numbers = np.cumsum(first_of == places, dtype=kind) - 1
    return numbers[first_of].astype(np.int64), int(numbers[-1]) + 1


def intern_ids(
    raw: NDArray[np.int64], offsets: NDArray[np.int64], chained: bool
) -> Interned:
    """Intern the ids of all requests.

    Parameters
    ----------
    raw : int64[A]
        Ids as codes: equal codes mean equal (scope, id).
    offsets : int64[R+1]
        Request r refers to `raw[offsets[r]:offsets[r+1]]`, head first.
    chained : bool
        Whether the format declares that an id stands for its whole prefix.

    Returns
    -------
    Interned
        Keyed by id where chained and true, by (parent, id) otherwise.
    """
    codes, num_codes = densify(raw)
    if not chained:
        ids, num_blocks = _by_parent(codes, num_codes, offsets)
        return Interned(narrow(ids), num_blocks, 0)
    num_unchained = _count_unchained(codes, num_codes, offsets)
    if num_unchained:
        codes, num_codes = _by_parent(codes, num_codes, offsets)
    return Interned(narrow(codes), num_codes, num_unchained)


def _count_unchained(
    codes: NDArray[np.int64], num_codes: int, offsets: NDArray[np.int64]
) -> int:
    """Ids that occur behind more than one parent (a root's parent is -1)."""
    parents = np.empty(codes.size, np.int64)
    parents[1:] = codes[:-1]
    starts = offsets[:-1][np.diff(offsets) > 0]
    parents[starts] = -1
    parent_of = np.empty(num_codes, np.int64)
    parent_of[codes] = parents
    differs = np.zeros(num_codes, np.bool_)
    differs[codes[parent_of[codes] != parents]] = True
    return int(np.count_nonzero(differs))


def _by_parent(
    codes: NDArray[np.int64], num_codes: int, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Intern by (parent, id), one depth of all requests at a time."""
    sizes = np.diff(offsets)
    # Longest first, so that the requests that reach a depth are a prefix.
    order = np.argsort(-sizes, kind="stable")
    starts = offsets[:-1][order]
    max_depth = int(sizes.max(initial=0))
    reach = sizes.size - np.searchsorted(np.sort(sizes), np.arange(max_depth), "right")
    nodes = np.empty(codes.size, np.int64)
    parents = np.zeros(sizes.size, np.int64)
    num_nodes = 0
    for depth in range(max_depth):
        at = starts[: reach[depth]] + depth
        # Both factors are at most A, so the product fits int64 for A < 3e9.
        numbers, count = densify(parents[: at.size] * num_codes + codes[at])
        nodes[at] = numbers + num_nodes
        parents = nodes[at]
        num_nodes += count
    return densify(nodes)
