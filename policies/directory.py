"""Which of several caches hold a key, and in which of their slots.

One hash table serves them all, so that a key is looked up once whatever the number of
caches. An entry lives while some cache holds its key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import kernel
from hotset.policies.key_table import (
    NO_ENTRY,
    KeyTable,
    make_key_table,
    table_clear,
    table_erase,
    table_put,
)

NOWHERE = -1  # the slot of a key in a cache that does not hold it
_GIVEN, _RETURNED = 0, 1


class Directory(NamedTuple):
    """Arrays of N entries for W caches."""

    table: KeyTable
    slot: Int32Array  # int32[N, W]: its slot in each cache, or NOWHERE
    holders: Int32Array  # int32[N], caches that hold the key
    returned: Int32Array  # int32[N], stack of entries given back
    numbers: Int64Array  # int64[2]: entries ever given, entries given back


def make_directory(num_caches: int, capacity: int) -> Directory:
    """Return the empty directory of caches of ``capacity`` slots each."""
    entries = num_caches * capacity
    return Directory(
        table=make_key_table(entries),
        slot=np.full((entries, num_caches), NOWHERE, np.int32),
        holders=np.zeros(entries, np.int32),
        returned=np.zeros(entries, np.int32),
        numbers=np.zeros(2, np.int64),
    )


@kernel
def directory_clear(directory: Directory) -> None:
    """Forget every key."""
    table_clear(directory.table)
    directory.slot[:] = NOWHERE
    directory.holders[:] = 0
    directory.numbers[:] = 0


@kernel
def _vacancy(directory: Directory) -> int:
    numbers = directory.numbers
    if numbers[_RETURNED] > 0:
        numbers[_RETURNED] -= 1
        return directory.returned[numbers[_RETURNED]]
    numbers[_GIVEN] += 1
    return numbers[_GIVEN] - 1


@kernel
def directory_enter(
    directory: Directory, entry: int, key: int, which: int, slot: int
) -> int:
    """Note that a cache holds a key that it did not hold; return the key's entry.

    ``entry`` is the one that it has, or `NO_ENTRY`.
    """
    if entry == NO_ENTRY:
        entry = _vacancy(directory)
        table_put(directory.table, key, entry)
    directory.slot[entry, which] = slot
    directory.holders[entry] += 1
    return entry


@kernel
def directory_leave(directory: Directory, entry: int, which: int) -> None:
    """Note that a cache no longer holds a key."""
    directory.slot[entry, which] = NOWHERE
    directory.holders[entry] -= 1
    if directory.holders[entry] == 0:
        table_erase(directory.table, entry)
        directory.returned[directory.numbers[_RETURNED]] = entry
        directory.numbers[_RETURNED] += 1
