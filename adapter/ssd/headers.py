"""What the headers of slots claim, read by several threads.

A claim is compared with the index at a start; nothing is given out by it.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from hotset.adapter.ssd.index import Row
from hotset.adapter.ssd.slot import PAGE, SlotForm
from hotset.adapter.ssd.slot_files import SlotFiles

_PART = 64  # slots that one thread looks at in a row


def confirmed(
    rows: list[Row], slots: SlotFiles, form: SlotForm, threads: int
) -> list[Row]:
    """Return the rows that the headers of their slots confirm, and drop none else.

    Those that are not are left to be found stale by `_settle`, by their empty key.
    """
    there = {row.slot: row for row in rows if slots.holds(row.slot)}
    found = dict(headers(there, slots, form, threads))
    return [
        row
        if found.get(row.slot) == (row.key, row.generation, row.slot)
        else row._replace(key=b"")
        for row in rows
    ]


def headers(
    wanted: Iterable[int], slots: SlotFiles, form: SlotForm, threads: int
) -> Iterator[tuple[int, tuple[bytes, int, int] | None]]:
    """Yield what slots' headers claim; None where they cannot be read."""

    def look(part: list[int]) -> list[tuple[int, tuple[bytes, int, int] | None]]:
        found: list[tuple[int, tuple[bytes, int, int] | None]] = []
        with mmap.mmap(-1, PAGE) as memory, memoryview(memory) as page:
            for slot in part:
                try:
                    slots.read(slot, page)
                except OSError:
                    found.append((slot, None))
                else:
                    found.append((slot, form.claimed(page)))
        return found

    every = list(wanted)
    parts = [every[i : i + _PART] for i in range(0, len(every), _PART)]
    with ThreadPoolExecutor(threads, "hotset-ssd-start") as pool:
        for found in pool.map(look, parts):
            yield from found
