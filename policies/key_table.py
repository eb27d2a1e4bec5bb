"""A hash table from keys to entries, in two arrays.

Open addressing with linear probing over int64 keys. The caller owns the entries and
says which one a key gets; erasing closes the gap in the probe run, so there are no
tombstones. All operations are O(1) on average at the load of at most one half.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import kernel

NO_ENTRY = -1


class KeyTable(NamedTuple):
    """Arrays of one table of N entries."""

    cell: Int32Array  # int32[M], M a power of two >= 2 N: entry or NO_ENTRY
    key: Int64Array  # int64[N], of entries in use


def make_key_table(entries: int) -> KeyTable:
    """Return an empty table for entries 0 to ``entries`` - 1."""
    cells = 4
    while cells < 2 * entries:
        cells *= 2
    return KeyTable(
        cell=np.full(cells, NO_ENTRY, np.int32), key=np.zeros(entries, np.int64)
    )


@kernel
def table_clear(table: KeyTable) -> None:
    """Forget every key."""
    table.cell[:] = NO_ENTRY


@kernel
def _hash(key: int, mask: int) -> int:
    # 31 bits times a 32-bit odd constant stays within int64, not within a key's int32.
    wide: Any = np.int64(key)
    return ((((wide ^ (wide >> 31)) & 0x7FFFFFFF) * 0x9E3779B1) >> 20) & mask


@kernel
def _find_cell(table: KeyTable, key: int) -> int:
    """Return the cell that holds a key, or the free cell where it would go."""
    mask = table.cell.shape[0] - 1
    at = _hash(key, mask)
    while table.cell[at] != NO_ENTRY and table.key[table.cell[at]] != key:
        at = (at + 1) & mask
    return at


@kernel
def table_find(table: KeyTable, key: int) -> int:
    """Return the entry of a key, or `NO_ENTRY`."""
    return table.cell[_find_cell(table, key)]


@kernel
def table_put(table: KeyTable, key: int, entry: int) -> None:
    """Give a key that has none an entry."""
    table.cell[_find_cell(table, key)] = entry
    table.key[entry] = key


@kernel
def table_erase(table: KeyTable, entry: int) -> None:
    """Forget the key of an entry, closing the gap in its probe run."""
    mask = table.cell.shape[0] - 1
    hole = _find_cell(table, table.key[entry])
    at = hole
    while True:
        at = (at + 1) & mask
        other = table.cell[at]
        if other == NO_ENTRY:
            break
        home = _hash(table.key[other], mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            table.cell[hole] = other
            hole = at
    table.cell[hole] = NO_ENTRY
