"""The blocks of a cache: what the policy holds, where each one is, who reads it."""

from __future__ import annotations

from collections.abc import Callable

from hotset.adapter.ssd.counts import Counts
from hotset.adapter.ssd.index import Gone, Row
from hotset.adapter.ssd.jobs import Task
from hotset.adapter.ssd.moves import LOST
from hotset.policies.driver import PolicyDriver

_GENERATION_BITS = 48
_GENERATIONS = (1 << _GENERATION_BITS) - 1


class Blocks:
    """See the module.

    Parameters
    ----------
    driver : PolicyDriver
        The policy; knows of blocks that are stored, being stored and being read.
    counts : Counter
        Gets the evictions.
    let_go : callable
        Takes the (slot, generation) of rows that are to go.

    Attributes
    ----------
    place : dict
        Generation and slot of each block that can be found, as one number.
    writing : dict
        Tasks of the blocks that are being stored.
    """

    def __init__(
        self,
        driver: PolicyDriver[bytes],
        counts: Counts,
        let_go: Callable[[list[Gone]], None],
    ) -> None:
        self.driver = driver
        self.place: dict[bytes, int] = {}
        self.writing: dict[bytes, Task] = {}
        self._pins: dict[bytes, int] = {}
        self._doomed: set[bytes] = set()  # to go once nobody reads them
        self._completed: list[bytes] = []
        self.counts = counts
        self._let_go = let_go

    def restore(self, rows: list[Row]) -> None:
        """Take blocks that the driver has been told of."""
        self.place.update((r.key, _packed(r.slot, r.generation)) for r in rows)

    def at(self, key: bytes) -> Gone | None:
        """Return slot and generation of a block that can be found."""
        place = self.place.get(key)
        return None if place is None else _unpacked(place)

    def pin(self, keys: list[bytes]) -> None:
        """Keep blocks that can be found while they are read."""
        for key in keys:
            self._pins[key] = self._pins.get(key, 0) + 1
        self.driver.pin(keys)

    def evicted(self, keys: list[bytes], why: str) -> None:
        """Let rows of blocks go that the driver has let go."""
        if not keys:
            return
        self.counts["evictions", why] += len(keys)
        places = [self.place.pop(key, None) for key in keys]
        self._doomed.difference_update(keys)
        self._let_go([_unpacked(place) for place in places if place is not None])

    def end_store(self, task: Task) -> None:
        """Take a block that is stored now, or forget one that could not be."""
        if self.writing.get(task.key) is not task:
            return
        del self.writing[task.key]
        if task.failure:
            self.driver.complete([task.key], success=False)
        else:
            self.place[task.key] = _packed(task.slot, task.generation)
            self._completed.append(task.key)

    def complete(self) -> bool:
        """Let the policy have what was stored; return whether there was something."""
        if not self._completed:
            return False
        self.driver.complete(self._completed)
        self._completed = []
        return True

    def end_load(self, task: Task) -> None:
        """Unpin a block, and let it go if it was not what it should be."""
        key = task.key
        self._pins[key] -= 1
        if not self._pins[key]:
            del self._pins[key]
        self.driver.unpin([key])
        is_there = self.place.get(key) == _packed(task.slot, task.generation)
        if task.failure in LOST and is_there:
            self.drop(key, task.failure)
        if key in self._doomed and key not in self._pins:
            self._doomed.discard(key)
            self.driver.remove([key])

    def drop(self, key: bytes, why: str) -> None:
        """Let a block go that can be found."""
        self.counts["evictions", why] += 1
        self._let_go([_unpacked(self.place.pop(key))])
        if key in self._pins:
            self._doomed.add(key)
            return
        self.complete()
        self.driver.remove([key])

    def drop_files(self, lost: list[int], slots_per_file: int) -> None:
        """Let the blocks in files that are gone go, and take those off the list."""
        numbers = {lost.pop() for _ in range(len(lost))}
        if not numbers:
            return
        gone = [
            key
            for key, at in self.place.items()
            if _unpacked(at)[0] // slots_per_file in numbers
        ]
        for key in gone:
            self.drop(key, "lost")

    def reset(self) -> None:
        """Forget every block."""
        self.counts["evictions", "reset"] += len(self.place)
        self.driver.reset()
        for known in (self.place, self.writing, self._pins, self._doomed):
            known.clear()
        self._completed.clear()


def _packed(slot: int, generation: int) -> int:
    return slot << _GENERATION_BITS | generation


def _unpacked(place: int) -> Gone:
    return place >> _GENERATION_BITS, place & _GENERATIONS
