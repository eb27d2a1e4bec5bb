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

from hotset.traces.intern import Codes, all_differ, densify, first_places

_MAX_NAME = 2**63 - 1
_NAME_BYTES = 8


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
    in_order = known[first_places(densify(known)[0])]
    names = names_of([values[code] for code in in_order.tolist()])
    return names if all_differ(names) else None


def id_names(raw: NDArray[np.int64], others: Codes) -> NDArray[np.int64] | None:
    """Names of ids.

    Parameters
    ----------
    raw : int64[A]
        Ids as codes: small integers as they are, others as -1 - code.
    others : Codes
        The ids that are no small integers.

    Returns
    -------
    int64[A] or None
        None where the codes are the names.
    """
    if not others:
        return None
    table = names_of(others.values())
    named = raw.copy()
    is_other = raw < 0
    named[is_other] = table[-1 - raw[is_other]]
    return named


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
