"""Which slots are free to be written, which are being written."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

_SPARE_SHARE, _MOST_SPARE = 16, 256


def usable(num_slots: int) -> int:
    """Return how many of so many slots blocks may take at once.

    The others are spares: while the rows of victims are on their way to be durably
    gone, new blocks are written there.
    """
    return num_slots - min(num_slots // _SPARE_SHARE, _MOST_SPARE)


class SlotBook:
    """Free slots, given out oldest first.

    A slot is free once no durable row names it. Those that are given out come back as
    free, or are kept under a row.
    """

    def __init__(self) -> None:
        self._free: deque[int] = deque()
        self._out: set[int] = set()
        self._lost: set[int] = set()  # given out, and their file is gone
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._free)

    def take(self) -> int | None:
        """Give out a free slot, if there is one."""
        with self._lock:
            if not self._free:
                return None
            slot = self._free.popleft()
            self._out.add(slot)
            return slot

    def keep(self, slot: int) -> bool:
        """Note that a slot given out is now under a row; False if its file is gone."""
        with self._lock:
            self._out.discard(slot)
            if slot in self._lost:
                self._lost.discard(slot)
                return False
            return True

    def give_back(self, slot: int) -> None:
        """Note that a slot given out holds nothing that counts."""
        with self._lock:
            self._out.discard(slot)
            if slot in self._lost:
                self._lost.discard(slot)
            else:
                self._free.append(slot)

    def free(self, slots: Iterable[int]) -> None:
        """Add slots that no row names any more."""
        with self._lock:
            self._free.extend(slots)

    def free_all(self, slots: Iterable[int]) -> None:
        """Start anew: all of these are free but those that are given out."""
        with self._lock:
            self._free = deque(slot for slot in slots if slot not in self._out)

    def lose(self, slots: range) -> None:
        """Take out the slots of a file that is gone."""
        with self._lock:
            self._free = deque(slot for slot in self._free if slot not in slots)
            self._lost.update(slot for slot in self._out if slot in slots)
