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
from hotset.policies.jit import kernel
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


class KeyMap(Generic[K]):
    """Which key is in which of C slots, both ways.

    Parameters
    ----------
    capacity : int
        C.
    """

    def __init__(self, capacity: int) -> None:
        self.slot_of: dict[K, int] = {}
        self._key_in: list[K | None] = [None] * capacity

    def find(self, keys: Iterable[K]) -> Int32Array:
        """Return the slots of keys.

        Raises
        ------
        KeyError
            If one of them is in no slot.
        """
        return np.fromiter(map(self.slot_of.__getitem__, keys), np.int32)

    def look_up(self, keys: Iterable[K]) -> Int32Array:
        """Return the slots of keys, -1 for those that are in none."""
        return np.fromiter(map(self.slot_of.get, keys, repeat(-1)), np.int32)

    def keys_in(self, slots: Int32Array) -> list[K]:
        """Return the keys in slots that hold some."""
        return list(map(self._key_in.__getitem__, slots.tolist()))  # type: ignore[arg-type]

    def put(self, keys: Sequence[K], slots: list[int]) -> None:
        """Put keys into free slots."""
        self.slot_of.update(zip(keys, slots, strict=True))
        _drain(map(self._key_in.__setitem__, slots, keys))

    def forget(self, slots: Int32Array) -> list[K]:
        """Free slots and return the keys that were in them."""
        gone = self.keys_in(slots)
        _drain(map(self._key_in.__setitem__, slots.tolist(), repeat(None)))
        _drain(map(self.slot_of.__delitem__, gone))
        return gone

    def clear(self) -> None:
        """Free every slot."""
        self.slot_of.clear()
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
    only order blocks, not read them.
    """
    absent = 0
    for i in range(folded.shape[0]):
        slot = seen[i]
        if slot >= 0 and slots.key[slot] == folded[i]:
            continue
        seen[i] = -1
        absent += 1
    return absent
