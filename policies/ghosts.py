"""Keys that were evicted and are remembered for a while: K lists, oldest to newest.

Entries of a `KeyTable`, each in exactly one list. The caller drops entries before it
adds more than fit. All operations are O(1); 24 bytes an entry, and 4 bytes a hash cell,
two to four cells an entry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import inlined
from hotset.policies.key_table import (
    KeyTable,
    make_key_table,
    table_clear,
    table_erase,
    table_find,
    table_put,
)
from hotset.policies.linked import NEWER, clear_links, link_newest, make_links, unlink

_RETURNED, _FRESH = 0, 1


class Ghosts(NamedTuple):
    """Arrays of K lists over N entries."""

    keys: KeyTable
    links: Int32Array  # int32[N + K, 2]
    which: Int32Array  # int32[N], the list of an entry
    free: Int32Array  # int32[N], stack of given-back entries
    size: Int64Array  # int64[K], entries in each list
    numbers: Int64Array  # int64[2]: given-back entries, entries ever used


def make_ghosts(entries: int, num_lists: int = 1) -> Ghosts:
    """Return empty lists for up to ``entries`` keys in all."""
    return Ghosts(
        keys=make_key_table(entries),
        links=make_links(entries, num_lists),
        which=np.zeros(entries, np.int32),
        free=np.zeros(entries, np.int32),
        size=np.zeros(num_lists, np.int64),
        numbers=np.zeros(2, np.int64),
    )


@inlined
def ghosts_clear(ghosts: Ghosts) -> None:
    """Forget every key."""
    table_clear(ghosts.keys)
    clear_links(ghosts.links, ghosts.which.shape[0])
    ghosts.size[:] = 0
    ghosts.numbers[:] = 0


@inlined
def ghost_find(ghosts: Ghosts, key: int) -> int:
    """Return the entry of a key, or `NO_ENTRY`."""
    return table_find(ghosts.keys, key)


@inlined
def ghost_add(ghosts: Ghosts, which: int, key: int) -> int:
    """Put a key that is in no list at the newest end of one, and return its entry.

    There must be room.
    """
    if ghosts.numbers[_RETURNED] > 0:
        ghosts.numbers[_RETURNED] -= 1
        entry = int(ghosts.free[ghosts.numbers[_RETURNED]])
    else:
        entry = ghosts.numbers[_FRESH]
        ghosts.numbers[_FRESH] += 1
    table_put(ghosts.keys, key, entry)
    ghosts.which[entry] = which
    ghosts.size[which] += 1
    link_newest(ghosts.links, ghosts.which.shape[0] + which, entry)
    return entry


@inlined
def ghost_drop(ghosts: Ghosts, entry: int) -> None:
    """Forget a key."""
    table_erase(ghosts.keys, entry)
    unlink(ghosts.links, entry)
    ghosts.size[ghosts.which[entry]] -= 1
    ghosts.free[ghosts.numbers[_RETURNED]] = entry
    ghosts.numbers[_RETURNED] += 1


@inlined
def ghost_drop_oldest(ghosts: Ghosts, which: int) -> None:
    """Forget the oldest key of a list that is not empty."""
    sentinel = ghosts.which.shape[0] + which
    ghost_drop(ghosts, int(ghosts.links[sentinel, NEWER]))


@inlined
def ghost_renew(ghosts: Ghosts, entry: int) -> None:
    """Move a key to the newest end of its list."""
    unlink(ghosts.links, entry)
    sentinel = ghosts.which.shape[0] + ghosts.which[entry]
    link_newest(ghosts.links, sentinel, entry)
