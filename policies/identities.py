"""Identities that policies are told: each stands for one key at a time.

A policy knows a key by 63 bits of it, and its lists rely on it that no identity comes
twice in one call or is in two slots. Two keys may share their 63 bits, by a client's
intent if not by chance; here the later one of two in the cache gets the next identity
that is free. What is not in the cache has only its own: where that is taken, or came in
the call before, the policy is not told.

About 18 bytes a slot.
"""

from __future__ import annotations

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import kernel
from hotset.policies.key_table import (
    NO_ENTRY,
    KeyTable,
    make_key_table,
    table_clear,
    table_erase,
    table_find,
    table_put,
)
from hotset.policies.native import NativeCalls

_LAST = (1 << 63) - 1
_VACANT = -1


class Identities:
    """Which identity is in which of C slots.

    Parameters
    ----------
    capacity : int
        C.
    """

    def __init__(self, capacity: int) -> None:
        self._table = make_key_table(capacity)
        self._run = NativeCalls()

    def of_newcomers(self, folded: Int64Array) -> Int64Array:
        """Return identities that are free for keys that are about to be stored."""
        names = folded.copy()
        self._run(_name_apart, self._table, _scratch(len(names)), names)
        return names

    def of_seen(
        self, folded: Int64Array, slots: Int32Array
    ) -> tuple[Int64Array, Int32Array]:
        """Return the identities, each once, and the slots of keys that were seen.

        Parameters
        ----------
        folded : int64[n]
            The 63 bits of each key.
        slots : int32[n]
            Its slot, -1 where it is not resident.
        """
        names, places = np.empty_like(folded), np.empty_like(slots)
        scratch = _scratch(len(folded))
        told = self._run(_name_seen, self._table, scratch, folded, slots, names, places)
        return names[:told], places[:told]

    def put(self, names: Int64Array, slots: Int32Array) -> None:
        """Note the identities in slots that were free."""
        self._run(_put_all, self._table, names, slots)

    def forget(self, slots: Int32Array) -> None:
        """Free slots."""
        self._run(_erase_all, self._table, slots)

    def clear(self) -> None:
        """Free every slot."""
        self._run(table_clear, self._table)


def distinct(run: NativeCalls, slots: Int32Array) -> Int32Array:
    """Return slots without those that came before."""
    out = np.empty_like(slots)
    return out[: run(_drop_repeated, _scratch(len(slots)), slots, out)]


def _scratch(num_keys: int) -> Int64Array:
    """Return an empty open hash table for so many keys, at most half full."""
    return np.full(1 << (2 * num_keys).bit_length(), _VACANT, np.int64)


@kernel
def _is_new(scratch: Int64Array, name: int) -> bool:
    """Enter an identity; return whether it was not there."""
    last = scratch.shape[0] - 1
    cell = (name ^ (name >> 32)) & last
    while scratch[cell] != _VACANT:
        if scratch[cell] == name:
            return False
        cell = (cell + 1) & last
    scratch[cell] = name
    return True


@kernel
def _name_apart(table: KeyTable, scratch: Int64Array, names: Int64Array) -> None:
    for i in range(names.shape[0]):
        name = names[i]
        while table_find(table, name) != NO_ENTRY or not _is_new(scratch, name):
            name = name + 1 if name < _LAST else 0
        names[i] = name


@kernel
def _name_seen(
    table: KeyTable,
    scratch: Int64Array,
    folded: Int64Array,
    slots: Int32Array,
    names: Int64Array,
    places: Int32Array,
) -> int:
    told = 0
    for i in range(folded.shape[0]):
        slot = slots[i]
        name = folded[i]
        if slot >= 0:
            name = table.key[slot]
        elif table_find(table, name) != NO_ENTRY:
            continue
        if _is_new(scratch, name):
            names[told] = name
            places[told] = slot
            told += 1
    return told


@kernel
def _drop_repeated(scratch: Int64Array, slots: Int32Array, out: Int32Array) -> int:
    kept = 0
    for i in range(slots.shape[0]):
        if _is_new(scratch, slots[i]):
            out[kept] = slots[i]
            kept += 1
    return kept


@kernel
def _put_all(table: KeyTable, names: Int64Array, slots: Int32Array) -> None:
    for i in range(names.shape[0]):
        table_put(table, names[i], slots[i])


@kernel
def _erase_all(table: KeyTable, slots: Int32Array) -> None:
    for i in range(slots.shape[0]):
        table_erase(table, slots[i])
