"""What blocks and sessions are called outside a trace, so that traces can be joined.

A trace numbers its blocks in order of first appearance, so its numbers mean nothing
in another. Names do: equal names are equal blocks wherever they come from the same
source. A name is an integer of 0 or more, below 2**63: the source's own where it is
one, a hash otherwise.
"""

from collections.abc import Hashable, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from hotset.traces.intern import Codes, IdArray

_MASK = np.uint64(2**63 - 1)
_MAX_NAME = 2**63 - 1
_NAME_BYTES = 8
_ROOT = 0x243F6A8885A308D3
# Constants of the splitmix64 generator, whose last step mixes bits well.
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def hashed(value: Hashable) -> int:
    """Name of a string, or of an integer that is no name itself.

    Parameters
    ----------
    value : str or int
        The value.

    Returns
    -------
    int
        0 or more, below 2**63; "1" and 1 have different ones.
    """
    kind = "s" if type(value) is str else "i"
    text = f"{kind}{value if kind == 's' else hex(value)}"  # type: ignore[arg-type]
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=_NAME_BYTES).digest()) >> 1


def names_of(values: Sequence[Hashable]) -> NDArray[np.int64]:
    """Names of integers and strings.

    Parameters
    ----------
    values : sequence of int or str
        What a source uses.

    Returns
    -------
    int64 array
        Integers below 2**63 keep theirs.
    """
    made = (
        value if type(value) is int and 0 <= value <= _MAX_NAME else hashed(value)
        for value in values
    )
    return np.fromiter(made, np.int64, len(values))


def session_names(
    codes: NDArray[np.int64], values: Sequence[Hashable]
) -> NDArray[np.int64] | None:
    """Names of sessions, by the numbers that a trace has for them.

    Parameters
    ----------
    codes : int64[R]
        Code of each request's session, -1 for none, in order of the trace.
    values : sequence of int or str
        What the source calls the session of each code.

    Returns
    -------
    int64[S] or None
        None if two would have one name.
    """
    known = codes[codes >= 0]
    distinct, first = np.unique(known, return_index=True)
    in_order = distinct[np.argsort(first)]
    return _distinct(names_of([values[code] for code in in_order.tolist()]))


def block_names(
    ids: IdArray,
    raw: NDArray[np.int64],
    offsets: NDArray[np.int64],
    others: Codes,
    by_parent: bool,
) -> NDArray[np.int64] | None:
    """Names of blocks, by their numbers in a trace.

    Parameters
    ----------
    ids : int32[A] or int64[A]
        Blocks, 0..U-1 in order of first appearance.
    raw : int64[A]
        The source's ids as codes: integers as they are, others as -1 - code.
    offsets : int64[R+1]
        Request r refers to `ids[offsets[r]:offsets[r+1]]`, head first.
    others : Codes
        The source's ids that are no small integers.
    by_parent : bool
        Whether an id stands for a block's content alone: then its name is a
        hash of its parent's name and its own.

    Returns
    -------
    int64[U] or None
        None if two would have one name.
    """
    first = first_places(ids)
    names = raw[first]
    is_other = names < 0
    if is_other.any():
        table = names_of(others.values())
        names[is_other] = table[-1 - names[is_other]]
    if by_parent:
        names = _chained(names, ids, first, offsets)
    elif not is_other.any():
        return names  # different ids are different numbers
    return _distinct(names)


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


def _chained(
    own: NDArray[np.int64],
    ids: IdArray,
    first: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Hashes over the parent's hash and a block's own name, one depth at a time."""
    request = np.searchsorted(offsets, first, "right") - 1
    depth = first - offsets[request]
    # The last place stands for what is before a prompt's head.
    parent = np.where(depth > 0, ids[first - 1], own.size)
    hashes = np.full(own.size + 1, _ROOT, np.uint64)
    order = np.argsort(depth, kind="stable")
    ends = np.cumsum(np.bincount(depth))
    begin = 0
    for end in ends.tolist():
        at = order[begin:end]
        mixed = _mixed(hashes[parent[at]])
        hashes[at] = _mixed(mixed ^ _mixed(own[at].astype(np.uint64)))
        begin = end
    return (hashes[:-1] & _MASK).astype(np.int64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values with their bits mixed, one to one."""
    mixed = values + np.uint64(_GAMMA)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_FIRST)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_SECOND)
    return mixed ^ (mixed >> np.uint64(31))


def keyed(
    names: NDArray[np.int64], key: bytes, what: str, scope: str = ""
) -> NDArray[np.int64]:
    """Names under a key: without it nobody can tell which they were.

    Parameters
    ----------
    names : int64 array
        The names.
    key : bytes
        At most 64.
    what : str
        What they are names of: equal names of different things differ.
    scope : str
        Where they mean something; empty where they do everywhere.

    Returns
    -------
    int64 array
        BLAKE2b of each, cut to 63 bits.
    """
    start = blake2b(key=key, digest_size=_NAME_BYTES, person=what.encode())
    start.update(scope.encode())
    made = np.empty(names.size, np.int64)
    for at, content in enumerate(names.astype("<i8").view("V8").tolist()):
        digest = start.copy()
        digest.update(content)
        made[at] = int.from_bytes(digest.digest()) >> 1
    return made


def _distinct(names: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Names, if no two are equal."""
    return names if np.unique(names).size == names.size else None
