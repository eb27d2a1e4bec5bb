"""Looks after the disk: grows within cap and floor, shrinks below it, tries again.

All of this runs on the committer's thread.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable

from hotset.adapter.ssd.book import SlotBook, usable
from hotset.adapter.ssd.breaker import Breaker
from hotset.adapter.ssd.committer import Committer
from hotset.adapter.ssd.files import OsFiles, is_same
from hotset.adapter.ssd.pool import TransferPool
from hotset.adapter.ssd.quota import PROBE, Quota
from hotset.adapter.ssd.slot import PAGE
from hotset.adapter.ssd.slot_files import SlotFiles

_LOG = logging.getLogger(__name__)

_RETRY_S = 10.0  # until the next try to grow where there was no room
_FAR = 8  # times the share of an index: the floor is far away
_MARK_S = 60.0  # between two marks that the namespace is in use


class Caretaker:
    """See the module.

    Parameters
    ----------
    files : OsFiles
        The operating system.
    quota : Quota
        Cap and floor.
    folder, name : int, str
        The namespace's open folder and its name.
    slots : SlotFiles
        Its files.
    book : SlotBook
        Its free slots.
    reads, writes : Breaker
        What pauses.
    max_files, index_bytes : int
        Files, and bytes of the index, at the most.
    clock : callable
        Seconds.

    Attributes
    ----------
    limit : int
        Blocks that there is room for now.
    lost : list of int
        Files that are gone, for the cache to take.
    is_vanished : bool
        Whether the folder was moved or removed.
    """

    def __init__(
        self,
        files: OsFiles,
        quota: Quota,
        folder: int,
        name: str,
        slots: SlotFiles,
        book: SlotBook,
        reads: Breaker,
        writes: Breaker,
        max_files: int,
        index_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._files, self._quota = files, quota
        self._folder, self._name = folder, name
        self._slots, self._book = slots, book
        self._reads, self._writes = reads, writes
        self._max_files, self._index_bytes = max_files, index_bytes
        self._clock = clock
        self._next_number = max(slots.numbers(), default=-1) + 1
        self._retry_s: float | None = None
        self._marked_s = clock()
        self.limit = usable(max_files * slots.slots_per_file)
        self.lost: list[int] = []
        self.is_vanished = False
        self.pool: TransferPool | None = None
        self.committer: Committer | None = None

    def look(self) -> None:
        """Look at the disk."""
        try:
            self._look()
        except OSError as error:
            self._writes.open_now(f"looking at the disk: {error}")

    def make_room(self) -> None:
        """Grow where writes wait for slots; where that cannot be, they fail."""
        assert self.pool is not None
        if not self.pool.starved():
            return
        if self._retry_s is None and len(self._slots.numbers()) < self._max_files:
            if self._grow():
                self.pool.note_free_slots()
                return
            self._deny()
        if self._retry_s is not None:
            self.fail_waiting("no_room")

    def fail_waiting(self, why: str) -> None:
        """Let the writes that wait fail."""
        assert self.pool is not None and self.committer is not None
        for task in self.pool.take_waiting():
            task.failure = why
            self.committer.add_written(task)

    def _look(self) -> None:
        here = os.path.join(self._quota.path, self._name)
        vanished = not self._quota.is_there or not is_same(self._folder, here)
        if vanished and not self.is_vanished:
            self.is_vanished = True
            self._writes.open_now(f"{here} is gone")
            self._reads.open_now(f"{here} is gone")
            self.fail_waiting("vanished")
        if self.is_vanished:
            return
        for number in self._slots.lost():
            self._remove(number)
        self._keep_floor()
        if self._retry_s is not None and self._clock() >= self._retry_s:
            self._retry_s = None
            self.limit = usable(self._max_files * self._slots.slots_per_file)
        self._try_again()
        if self._clock() - self._marked_s >= _MARK_S:
            self._marked_s = self._clock()
            os.utime("lock", dir_fd=self._folder)

    def _keep_floor(self) -> None:
        """Remove files, the newest first, while cap or floor are not kept.

        What the indices may still take counts as taken: it cannot be put off.
        """
        if self._quota.free_bytes() >= _FAR * self._index_bytes:
            return
        with self._quota.held():
            while self._quota.room() < 0 and self._slots.numbers():
                self._remove(self._slots.numbers()[-1])
                self._deny()

    def _grow(self) -> bool:
        with self._quota.held():
            if not self._quota.make_room(self._name, self._slots.claim_bytes):
                return False
            number = self._next_number
            self._next_number += 1
            try:
                self._slots.add(number)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    self._writes.open_now(f"making a file: {error}")
                return False
        self._book.free(self._slots.slots_of(number))
        return True

    def _deny(self) -> None:
        self._retry_s = self._clock() + _RETRY_S
        num_slots = len(self._slots.numbers()) * self._slots.slots_per_file
        self.limit = usable(num_slots)

    def _remove(self, number: int) -> None:
        self._book.lose(self._slots.slots_of(number))
        self._slots.remove(number)
        self.lost.append(number)

    def _try_again(self) -> None:
        """Try what paused, on a page of its own."""
        for breaker, is_write in ((self._reads, False), (self._writes, True)):
            if not breaker.wants_trial():
                continue
            started = time.monotonic()
            try:
                self._probe(is_write)
            except (OSError, sqlite3.Error):
                breaker.note_trial(False)
            else:
                breaker.note_trial(time.monotonic() - started < 1.0)

    def _probe(self, is_write: bool) -> None:
        import mmap

        fd = self._files.open(
            self._folder, PROBE, create=True, direct=self._slots.is_direct
        )
        try:
            with mmap.mmap(-1, PAGE) as memory, memoryview(memory) as page:
                if is_write:
                    self._files.write(fd, page, 0)
                    self._files.sync_data(fd)
                    assert self.committer is not None
                    self.committer.try_index()
                else:
                    self._files.read(fd, page, 0)
        finally:
            self._files.close(fd)
