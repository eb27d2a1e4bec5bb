"""Which row of the CPU tier's memory each slot of its driver lies in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from hotset.policies.driver import PolicyDriver
from hotset.policies.request import Request


class TierRows:
    """The rows of a CPU tier: one in each slot, and some to spare.

    Parameters
    ----------
    driver : PolicyDriver
        The tier.
    rows : sequence of memoryview
        Memory of each chunk.
    """

    def __init__(self, driver: PolicyDriver[Any], rows: Sequence[memoryview]) -> None:
        self._driver = driver
        self._rows = rows
        self._row_of = list(range(driver.capacity))
        self._spare = deque(range(driver.capacity, len(rows)))
        self._holder: dict[int, bytes] = {}

    @property
    def num_spare(self) -> int:
        """Rows that are in no slot and in no use."""
        return len(self._spare)

    def of(self, slots: Iterable[int]) -> list[int]:
        """Return the rows of slots."""
        return list(map(self._row_of.__getitem__, slots))

    def views(self, rows: Iterable[int]) -> list[memoryview]:
        """Return the memory of rows."""
        return [self._rows[row] for row in rows]

    def exchange(self, slot: int) -> None:
        """Put a spare row into a slot; its own one comes back by `give_back`."""
        self._row_of[slot] = self._spare.popleft()

    def give_back(self, rows: Iterable[int]) -> None:
        """Take back rows that were exchanged."""
        self._spare.extend(rows)

    def hold(self, rows: Iterable[int]) -> None:
        """Keep rows of a tier that was emptied from use, until `let_go`.

        Each gets a slot with a block that is being written and that nobody asks for.
        """
        self._holder.clear()
        slot_of = {row: slot for slot, row in enumerate(self._row_of)}
        for row in rows:
            name = b"hotset: row %d is in use" % row
            self._driver.insert(Request.of(), [name], [0])
            slot, before = self._driver.slot(name), slot_of[row]
            other = self._row_of[slot]
            self._row_of[slot], self._row_of[before] = row, other
            slot_of[row], slot_of[other] = slot, before
            self._holder[row] = name

    def let_go(self, rows: Iterable[int]) -> None:
        """Undo `hold`."""
        self._driver.complete([self._holder.pop(row) for row in rows], success=False)
