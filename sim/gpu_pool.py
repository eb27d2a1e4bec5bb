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
        usable = num_blocks - 1
        self.num_usable = usable
        self.version = 0  # changes with whatever can make room for a request
        self._queue = OrderedDict.fromkeys(range(usable))
        self._key = [_NO_KEY] * usable
        self._holders = [0] * usable
        self._places: dict[int, list[int]] = {}  # places of a block, first one first

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return len(self._queue)

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
                del self._queue[place]
            self._holders[place] += 1
        return held

    def take(self, count: int) -> list[int]:
        """Hold the blocks at the front of the queue; what was cached there is lost.

        The caller has made sure that there are enough.
        """
        taken = []
        for _ in range(count):
            place, _nothing = self._queue.popitem(last=False)
            self._forget(place)
            self._holders[place] = 1
            taken.append(place)
        return taken

    def name(self, places: Sequence[int], keys: Sequence[int]) -> None:
        """Cache full blocks under their keys."""
        self.version += 1
        for place, key in zip(places, keys, strict=True):
            self._key[place] = key
            self._places.setdefault(key, []).append(place)

    def release(self, held: Sequence[int], num_hashed: int) -> None:
        """Let go of a request's blocks; the first ``num_hashed`` have a hash."""
        self.version += 1
        queue, holders = self._queue, self._holders
        for i in range(len(held) - 1, -1, -1):
            place = held[i]
            holders[place] -= 1
            if i < num_hashed and holders[place] == 0:
                queue[place] = None
        # Prepending in head-to-tail order keeps the reversed order of freeing.
        for place in held[num_hashed:]:
            if holders[place] == 0:
                queue[place] = None
                queue.move_to_end(place, last=False)

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
