"""Keys that were seen lately, resident or not: how often, when, and in which slot.

A bounded memory of N keys. Keys that may be forgotten stand in list 0, oldest first;
a policy takes a key out of it while it needs the entry (a resident block, a member of
a shadow cache, which may use further lists of the same entries). When the memory is
full, the oldest key of list 0 makes room for a new one.

40 bytes a key with one list, and 4 to 8 bytes of heads of hash chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined
from hotset.policies.key_table import (
    NO_ENTRY,
    KeyTable,
    make_key_table,
    table_clear,
    table_erase,
    table_find,
    table_put,
)
from hotset.policies.linked import (
    NEWER,
    clear_links,
    link_before,
    make_links,
    unlink,
)

FORGETTABLE = 0
UNLISTED = -1
NO_SLOT = -1

# Uses at which a block moves up a class: seen once, twice, 3 or 4 times, 5 and more.
NUM_CLASSES = 4


class History(NamedTuple):
    """Arrays of N entries in L lists."""

    keys: KeyTable
    last: Float64Array  # float64[N], last use
    seen: Int32Array  # int32[N], uses
    slot: Int32Array  # int32[N], NO_SLOT where not resident
    listed: Int32Array  # int32[N], the list that an entry is in, or UNLISTED
    links: Int32Array  # int32[N + L, 2]
    size: Int64Array  # int64[1], entries in use


def make_history(entries: int, num_lists: int = 1) -> History:
    """Return an empty memory of at most ``entries`` keys."""
    return History(
        keys=make_key_table(entries),
        last=np.zeros(entries, np.float64),
        seen=np.zeros(entries, np.int32),
        slot=np.full(entries, NO_SLOT, np.int32),
        listed=np.full(entries, UNLISTED, np.int32),
        links=make_links(entries, num_lists),
        size=np.zeros(1, np.int64),
    )


@inlined
def class_of(seen: int) -> int:
    """Return the class of a block by how often it was seen."""
    if seen <= 2:
        return max(seen - 1, 0)
    return 2 if seen <= 4 else 3


@inlined
def history_clear(history: History) -> None:
    """Forget every key."""
    table_clear(history.keys)
    history.slot[:] = NO_SLOT
    history.listed[:] = UNLISTED
    clear_links(history.links, history.last.shape[0])
    history.size[0] = 0


@inlined
def history_find(history: History, key: int) -> int:
    """Return the entry of a key, or NO_ENTRY."""
    return table_find(history.keys, key)


@inlined
def history_place(history: History, entry: int, which: int, place: int) -> None:
    """Move an entry into a list, just older than ``place``."""
    if history.listed[entry] != UNLISTED:
        unlink(history.links, entry)
    link_before(history.links, place, entry)
    history.listed[entry] = which


@inlined
def history_take_out(history: History, entry: int) -> None:
    """Take an entry out of its list, if it is in one."""
    if history.listed[entry] != UNLISTED:
        unlink(history.links, entry)
        history.listed[entry] = UNLISTED


@inlined
def history_list(history: History, entry: int, which: int) -> None:
    """Make an entry the newest of a list."""
    history_place(history, entry, which, history.last.shape[0] + which)


@inlined
def history_vacancy(history: History, now: float) -> int:
    """Return the entry that a new key would get, or NO_ENTRY where none is to be had.

    An entry below ``size`` still holds the key that would be forgotten. Keys last used
    at ``now`` are kept: a request does not push its own out.
    """
    size = history.size[0]
    entries = history.last.shape[0]
    if size < entries:
        return size
    oldest = history.links[entries + FORGETTABLE, NEWER]
    if oldest == entries + FORGETTABLE or history.last[oldest] == now:
        return NO_ENTRY
    return oldest


@inlined
def history_put(history: History, entry: int, key: int, now: float) -> None:
    """Give a key the entry that `history_vacancy` named; it is unseen and unlisted."""
    if entry < history.size[0]:
        history_take_out(history, entry)
        table_erase(history.keys, entry)
    else:
        history.size[0] += 1
    table_put(history.keys, key, entry)
    history.last[entry] = now
    history.seen[entry] = 0
    history.slot[entry] = NO_SLOT
