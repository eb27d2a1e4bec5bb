"""Interning: whatever names a block becomes 0..U-1 in order of first appearance.

The key of a block is (scope, id) where an id stands for its whole prefix, and
(scope, parent, id) where it stands for one block's content.
"""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_MASK = np.uint64(2**63 - 1)

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
    names : int64[U] or None
        What the source calls each block, 0 or more, each once: the id's own name,
        or a hash of those of the prefix where (parent, id) is the key. None where
        that names no block.
    """

    ids: IdArray
    num_blocks: int
    num_unchained: int
    names: NDArray[np.int64] | None


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
    raw: NDArray[np.int64],
    offsets: NDArray[np.int64],
    chained: bool,
    names: NDArray[np.int64] | None = None,
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
    names : int64[A] or None
        What the source calls the ids, 0 or more; None where they are the codes.

    Returns
    -------
    Interned
        Keyed by id where chained and true, by (parent, id) otherwise.
    """
    called = raw if names is None else names
    if not chained:
        return _by_parent(raw, offsets, called)
    codes, num_codes = densify(raw)
    num_unchained = _count_unchained(codes, num_codes, offsets)
    if num_unchained:
        # Names by a chain that does not hold would not fit those of other files.
        found = _by_parent(codes, offsets, codes)
        return found._replace(num_unchained=num_unchained, names=None)
    first = called[first_places(codes)]
    distinct = names is None or all_differ(first)
    return Interned(narrow(codes), num_codes, 0, first if distinct else None)


def first_places(ids: IdArray) -> NDArray[np.int64]:
    """Places where blocks appear first.

    Parameters
    ----------
    ids : int32[A] or int64[A]
        Blocks, 0..U-1 in order of first appearance.

    Returns
    -------
    int64[U]
        Place of block i at i.
    """
    most = np.maximum.accumulate(ids)
    is_first = np.ones(ids.size, np.bool_)
    is_first[1:] = most[1:] > most[:-1]
    return np.flatnonzero(is_first)


def all_differ(names: NDArray[np.int64]) -> bool:
    """Whether no two names are equal.

    Parameters
    ----------
    names : int64 array
        The names.

    Returns
    -------
    bool
        True for none at all.
    """
    ordered = np.sort(names)
    return not np.any(ordered[1:] == ordered[:-1])


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
    codes: NDArray[np.int64], offsets: NDArray[np.int64], names: NDArray[np.int64]
) -> Interned:
    """Intern by (parent, id): by a hash of the prefix's names, which is checked."""
    hashes = (prefix_hashes(names.view(np.uint64), offsets) & _MASK).view(np.int64)
    nodes, num_nodes = densify(hashes)
    parents = np.empty(codes.size, np.int64)
    parents[1:] = nodes[:-1]
    parents[offsets[:-1][np.diff(offsets) > 0]] = -1
    of_node = np.empty(num_nodes, np.int64)
    for column in (parents, codes):
        of_node[nodes] = column
        if not np.array_equal(of_node[nodes], column):
            ids, num_blocks = _by_parent_exactly(*densify(codes), offsets)
            return Interned(narrow(ids), num_blocks, 0, None)
    return Interned(narrow(nodes), num_nodes, 0, hashes[first_places(nodes)])


def prefix_hashes(
    values: NDArray[np.uint64], offsets: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Hash of each value and all before it in its request.

    Parameters
    ----------
    values : uint64[A]
        Any numbers.
    offsets : int64[R+1]
        Request r has `values[offsets[r]:offsets[r+1]]`, head first.

    Returns
    -------
    uint64[A]
        The sum, modulo 2**64, of the mixed values so far, each times a weight
        of its depth. Equal prefixes have equal hashes; those that differ in
        one place have different ones.
    """
    sizes = np.diff(offsets)
    depth = np.arange(values.size, dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    weights = mixed_bits(np.arange(int(sizes.max(initial=0)), dtype=np.uint64))
    terms = mixed_bits(values)
    terms *= (weights | np.uint64(1))[depth]
    # Sums wrap around, so what was there before a request can be taken off.
    np.cumsum(terms, out=terms)
    before = np.concatenate([np.zeros(1, np.uint64), terms])[offsets[:-1]]
    terms -= np.repeat(before, sizes)
    return terms


def mixed_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values with their bits mixed, one to one: a step of the splitmix64 generator.

    Parameters
    ----------
    values : uint64 array
        Any numbers.

    Returns
    -------
    uint64 array
        Another array.
    """
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed ^= mixed >> np.uint64(shift)
        if factor != 1:
            mixed *= np.uint64(factor)
    return mixed


def _by_parent_exactly(
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
