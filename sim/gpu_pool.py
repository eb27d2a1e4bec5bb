"""The GPU's blocks under many requests at once: prefix cache, sharing, free queue.

The rules are those of `hotset.sim.gpu`: one block of the pool is never used, free
blocks form a queue, and a finished request frees its blocks in reverse, those without
a hash to the front and the others to the tail. Here requests overlap: a block is held
by as many requests as found it, and is free when the last of them is done.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

_NO_KEY = -1


class GpuPool:
    """A pool of blocks.

    Parameters
    ----------
    num_blocks : int
        Blocks of the pool, the unused one included; at least 2.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_usable = num_blocks - 1
        self.version = 0  # changes with whatever can make room for a request
        # The queue: blocks at its front, those never used, in order, and its tail.
        self._front: OrderedDict[int, None] = OrderedDict()
        self._tail: OrderedDict[int, None] = OrderedDict()
        self._key: list[int] = []  # of each block that was ever used
        self._holders: list[int] = []
        self._places: dict[int, list[int]] = {}  # places of a block, first one first

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        unused = self.num_usable - len(self._key)
        return len(self._front) + unused + len(self._tail)

    def lookup(self, keys: Sequence[int], limit: int) -> int:
        """Return how many leading blocks are cached, at most ``limit``."""
        places = self._places
        found = 0
        while found < limit and keys[found] in places:
            found += 1
        return found

    def num_queued(self, keys: Sequence[int]) -> int:
        """Return how many of these cached blocks nobody holds."""
        places, holders = self._places, self._holders
        return sum(holders[places[key][0]] == 0 for key in keys)

    def share(self, keys: Sequence[int]) -> list[int]:
        """Hold cached blocks; return their places."""
        held = [self._places[key][0] for key in keys]
        for place in held:
            if self._holders[place] == 0:
                del (self._tail if place in self._tail else self._front)[place]
            self._holders[place] += 1
        return held

    def take(self, count: int) -> list[int]:
        """Hold the blocks at the front of the queue; what was cached there is lost.

        The caller has made sure that there are enough.
        """
        taken = []
        for _ in range(count):
            place = self._pop()
            self._holders[place] = 1
            taken.append(place)
        return taken

    def _pop(self) -> int:
        """Take a block out of the queue, and forget what is cached in it."""
        unused = len(self._key)
        if not self._front and unused < self.num_usable:
            self._key.append(_NO_KEY)
            self._holders.append(0)
            return unused
        place, _nothing = (self._front or self._tail).popitem(last=False)
        self._forget(place)
        return place

    def name(self, places: Sequence[int], keys: Sequence[int]) -> None:
        """Cache full blocks under their keys."""
        self.version += 1
        for place, key in zip(places, keys, strict=True):
            self._key[place] = key
            self._places.setdefault(key, []).append(place)

    def release(self, held: Sequence[int], num_hashed: int) -> None:
        """Let go of a request's blocks; the first ``num_hashed`` have a hash."""
        self.version += 1
        front, holders = self._front, self._holders
        for i in range(len(held) - 1, -1, -1):
            place = held[i]
            holders[place] -= 1
            if i < num_hashed and holders[place] == 0:
                self._tail[place] = None
        # Prepending in head-to-tail order keeps the reversed order of freeing.
        for place in held[num_hashed:]:
            if holders[place] == 0:
                front[place] = None
                front.move_to_end(place, last=False)

    def cached(self) -> set[int]:
        """Return the keys of cached blocks."""
        return set(self._places)

    def _forget(self, place: int) -> None:
        key = self._key[place]
        if key == _NO_KEY:
            return
        self._key[place] = _NO_KEY
        places = self._places[key]
        places.remove(place)
        if not places:
            del self._places[key]
