"""A hash table from keys to entries, in three arrays.

Chained: each cell heads a list of the entries whose keys fall there. The caller owns
the entries and says which one a key gets. All operations are O(1) on average, with at
least as many cells as entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.jit import inlined

NO_ENTRY = -1


class KeyTable(NamedTuple):
    """Arrays of one table of N entries."""

    head: Int32Array  # int32[M], M a power of two >= N: first entry or NO_ENTRY
    following: Int32Array  # int32[N], of entries in use: next one of the cell
    key: Int64Array  # int64[N], of entries in use
    touched: Int64Array  # int64[1], of no meaning


def make_key_table(entries: int) -> KeyTable:
    """Return an empty table for entries 0 to ``entries`` - 1."""
    cells = 4
    while cells < entries:
        cells *= 2
    return KeyTable(
        head=np.full(cells, NO_ENTRY, np.int32),
        following=np.full(entries, NO_ENTRY, np.int32),
        key=np.zeros(entries, np.int64),
        touched=np.zeros(1, np.int64),
    )


@inlined
def table_clear(table: KeyTable) -> None:
    """Forget every key."""
    table.head[:] = NO_ENTRY


@inlined
def _cell(table: KeyTable, key: int) -> int:
    # 31 bits times a 32-bit odd constant stays within int64, not within a key's int32.
    wide: Any = np.int64(key)
    mixed = (((wide ^ (wide >> 31)) & 0x7FFFFFFF) * 0x9E3779B1) >> 20
    return mixed & (table.head.shape[0] - 1)


@inlined
def table_find(table: KeyTable, key: int) -> int:
    """Return the entry of a key, or `NO_ENTRY`."""
    entry = table.head[_cell(table, key)]
    while entry != NO_ENTRY and table.key[entry] != key:
        entry = table.following[entry]
    return entry


@inlined
def table_touch(table: KeyTable, keys: KeyArray) -> None:
    """Read what finding these keys will read.

    Finding one key waits for memory twice and decides in between; here the processor
    can ask for all of them at once. The sum keeps the reads from being left out.
    """
    total = 0
    for i in range(keys.shape[0]):
        total += table.head[_cell(table, keys[i])]
    for i in range(keys.shape[0]):
        entry = table.head[_cell(table, keys[i])]
        total += table.key[max(entry, 0)]
    table.touched[0] = total & 1


@inlined
def table_put(table: KeyTable, key: int, entry: int) -> None:
    """Give a key that has none an entry that has none."""
    cell = _cell(table, key)
    table.key[entry] = key
    table.following[entry] = table.head[cell]
    table.head[cell] = entry


@inlined
def table_erase(table: KeyTable, entry: int) -> None:
    """Forget the key of an entry."""
    cell = _cell(table, table.key[entry])
    at = table.head[cell]
    if at == entry:
        table.head[cell] = table.following[entry]
        return
    while table.following[at] != entry:
        at = table.following[at]
    table.following[at] = table.following[entry]
