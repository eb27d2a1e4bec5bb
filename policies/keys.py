"""Keys of a server: the map to slots, and 63-bit identities for policies.

Residency is decided by whole keys in the map, never by identities.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Hashable, Iterable, Sequence, Set
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.identities import Identities, distinct
from hotset.policies.jit import kernel
from hotset.policies.native import NativeCalls
from hotset.policies.slots import Slots

K = TypeVar("K", bound=Hashable)

_MASK = (1 << 63) - 1
_HEAD_BYTES = 8
_GROUP_BYTES = 4
_SPREAD = 0x9E3779B1  # odd: small numbers of groups reach bits far apart


def fold(keys: Sequence[Any]) -> Int64Array:
    """Return 63-bit identities: whole numbers as they are, bytes by both their ends.

    vLLM's keys are a hash and the number of a KV cache group in 4 bytes: keys of two
    groups with one hash are two blocks.
    """
    kinds = set(map(type, keys))
    if kinds == {int}:
        with contextlib.suppress(OverflowError):
            return np.fromiter(keys, np.int64, len(keys)) & _MASK
    elif kinds == {bytes} and len(set(map(len, keys))) == 1:
        rows = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)
        if rows.shape[1] >= _HEAD_BYTES + _GROUP_BYTES:
            heads = np.ascontiguousarray(rows[:, :_HEAD_BYTES]).view(">u8").ravel()
            ends = np.ascontiguousarray(rows[:, -_GROUP_BYTES:]).view(">u4").ravel()
            mixed = heads.astype(np.uint64) ^ (
                ends.astype(np.uint64) * np.uint64(_SPREAD)
            )
            return (mixed & np.uint64(_MASK)).astype(np.int64)
    folded = [key & _MASK if isinstance(key, int) else _fold_bytes(key) for key in keys]
    return np.array(folded, np.int64)


def _fold_bytes(key: bytes) -> int:
    folded = int.from_bytes(key[:_HEAD_BYTES], "big")
    if len(key) >= _HEAD_BYTES + _GROUP_BYTES:
        folded ^= int.from_bytes(key[-_GROUP_BYTES:], "big") * _SPREAD
    return folded & _MASK


class KeyBatch(Generic[K]):
    """Keys of one request, head first, with what a driver works out of them once.

    Parameters
    ----------
    keys : list
        The keys, each once.
    folded : int64[n]
        Their 63-bit identities.
    slots : int32[n]
        Where the driver saw each of them last, -1 where nowhere.
    """

    __slots__ = ("folded", "keys", "slots")

    def __init__(self, keys: list[K], folded: Int64Array, slots: Int32Array) -> None:
        self.keys = keys
        self.folded = folded
        self.slots = slots

    @classmethod
    def of(cls, keys: list[K]) -> KeyBatch[K]:
        """Return a batch of keys that were not looked for yet."""
        return cls(keys, fold(keys), np.full(len(keys), -1, np.int32))

    def __len__(self) -> int:
        return len(self.keys)

    def extend(self, keys: list[K]) -> None:
        """Add keys behind the others."""
        more = KeyBatch.of(keys)
        self.keys = self.keys + more.keys
        self.folded = np.concatenate((self.folded, more.folded))
        self.slots = np.concatenate((self.slots, more.slots))

    def part(self, keys: list[K], places: Int64Array) -> KeyBatch[K]:
        """Return the batch of some of the keys, given with their places."""
        return KeyBatch(keys, self.folded[places], self.slots[places])

    def behind(self, place: int) -> KeyBatch[K]:
        """Return the batch of the keys from a place on."""
        return KeyBatch(self.keys[place:], self.folded[place:], self.slots[place:])


def folded_of(keys: Sequence[K] | KeyBatch[K]) -> Int64Array:
    """Return the identities of keys, those of a batch as they are known."""
    return keys.folded if isinstance(keys, KeyBatch) else fold(keys)


class KeyMap(Generic[K]):
    """Which key is in which of C slots, both ways.

    Parameters
    ----------
    slots : Slots
        The slots, which hold identities of keys.
    """

    def __init__(self, slots: Slots) -> None:
        self.slot_of: dict[K, int] = {}
        self.identities = Identities(len(slots.key))
        self._key_in: list[K | None] = [None] * len(slots.key)
        self._slots = slots
        self._run = NativeCalls()

    def find(self, keys: Iterable[K]) -> Int32Array:
        """Return the slots of keys.

        Raises
        ------
        KeyError
            If one of them is in no slot.
        """
        found = np.fromiter(map(self.slot_of.__getitem__, keys), np.int32)
        return in_order_of(keys, found)

    def look_up(self, keys: Iterable[K] | KeyBatch[K]) -> Int32Array:
        """Return the slots of keys, -1 for those that are in none."""
        if not isinstance(keys, KeyBatch):
            return np.fromiter(map(self.slot_of.get, keys, repeat(-1)), np.int32)
        slots = keys.slots
        if self._run(forget_moved, self._slots, keys.folded, slots):
            absent = np.flatnonzero(slots < 0)
            slots[absent] = self.look_up(keys.keys[i] for i in absent.tolist())
        return slots

    def resident(self, keys: Iterable[K] | KeyBatch[K]) -> Int32Array:
        """Return the slots of those keys that are in some, each slot once."""
        found = self.look_up(keys)
        return in_order_of(keys, distinct(self._run, found[found >= 0]))

    def keys_in(self, slots: Int32Array) -> list[K]:
        """Return the keys in slots that hold some."""
        return list(map(self._key_in.__getitem__, slots.tolist()))  # type: ignore[arg-type]

    def newcomers(
        self, keys: Sequence[K], folded: Int64Array, places: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return which of the keys at some places to store, and their identities.

        A key that is there twice counts once.
        """
        identities = self.identities.of_newcomers(folded[places])
        if np.array_equal(identities, folded[places]):
            return places, identities
        first = {keys[i]: i for i in reversed(places.tolist())}
        places = np.array(sorted(first.values()), np.int64)
        return places, self.identities.of_newcomers(folded[places])

    def put(
        self, keys: Sequence[K], identities: Int64Array, slots: Int32Array
    ) -> list[int]:
        """Put keys into free slots, and return these."""
        taken = slots.tolist()
        self.slot_of.update(zip(keys, taken, strict=True))
        _drain(map(self._key_in.__setitem__, taken, keys))
        self.identities.put(identities, slots)
        return taken

    def forget(self, slots: Int32Array) -> list[K]:
        """Free slots and return the keys that were in them."""
        gone = self.keys_in(slots)
        _drain(map(self._key_in.__setitem__, slots.tolist(), repeat(None)))
        _drain(map(self.slot_of.__delitem__, gone))
        self.identities.forget(slots)
        return gone

    def clear(self) -> None:
        """Free every slot."""
        self.slot_of.clear()
        self.identities.clear()
        self._key_in = [None] * len(self._key_in)


def in_order_of(keys: object, slots: Int32Array) -> Int32Array:
    """Return the slots of keys, those of a set ascending.

    The order in which a set gives its keys differs between processes.
    """
    return np.sort(slots) if isinstance(keys, Set) else slots


def _drain(calls: Iterable[None]) -> None:
    """Make the calls of a map without a step of Python for each."""
    deque(calls, maxlen=0)


@kernel
def forget_moved(slots: Slots, folded: Int64Array, seen: Int32Array) -> int:
    """Write -1 to ``seen`` where a slot holds another key now; return how many are -1.

    A slot that holds another key of the same identity passes: what relies on this may
    only order blocks, not read them. A key whose slot has an identity of another key's
    is looked for each time.
    """
    absent = 0
    for i in range(folded.shape[0]):
        slot = seen[i]
        if slot >= 0 and slots.key[slot] == folded[i]:
            continue
        seen[i] = -1
        absent += 1
    return absent
