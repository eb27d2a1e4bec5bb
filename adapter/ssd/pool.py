"""A small pool of threads that move slots: reads first, writes while slots are free."""

from __future__ import annotations

import logging
import mmap
import threading
import time
from collections import deque
from collections.abc import Callable

from hotset.adapter.ssd.book import SlotBook
from hotset.adapter.ssd.jobs import Task

_LOG = logging.getLogger(__name__)


class TransferPool:
    """Threads that take tasks and hand them to what moves the bytes.

    Parameters
    ----------
    num_threads : int
        That many transfers at once; one of them is never a write.
    slot_bytes : int
        Bytes of a slot; each thread has one bounce buffer of that size.
    book : SlotBook
        Where slots for writes come from.
    read, write : callable
        Take a task and a bounce buffer; never raise.
    """

    def __init__(
        self,
        num_threads: int,
        slot_bytes: int,
        book: SlotBook,
        read: Callable[[Task, memoryview], None],
        write: Callable[[Task, memoryview], None],
    ) -> None:
        self._book = book
        self._read, self._write = read, write
        self._changed = threading.Condition()
        self._reads: deque[Task] = deque()
        self._writes: deque[Task] = deque()
        self._writing = 0
        self._most_writing = max(1, num_threads - 1)
        self._is_closed = False
        self._slot_bytes = slot_bytes
        self._threads = [
            threading.Thread(target=self._run, name=f"hotset-ssd-{i}", daemon=True)
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def add_reads(self, tasks: list[Task]) -> None:
        """Queue reads, ahead of all writes."""
        with self._changed:
            self._reads.extend(tasks)
            self._changed.notify(len(tasks))

    def add_writes(self, tasks: list[Task]) -> None:
        """Queue writes."""
        with self._changed:
            self._writes.extend(tasks)
            self._changed.notify(len(tasks))

    def note_free_slots(self) -> None:
        """Wake threads: there are free slots again."""
        with self._changed:
            self._changed.notify_all()

    def num_writing(self) -> int:
        """Return how many writes are under way now."""
        return self._writing

    def starved(self) -> int:
        """Return how many writes wait and find no free slot."""
        with self._changed:
            return 0 if len(self._book) else len(self._writes)

    def take_waiting(self) -> list[Task]:
        """Take the writes that wait out of the queue."""
        with self._changed:
            waiting = list(self._writes)
            self._writes.clear()
            return waiting

    def close(self, timeout_s: float) -> bool:
        """End the threads; False where some do not come back in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        with mmap.mmap(-1, self._slot_bytes) as memory, memoryview(memory) as page:
            while True:
                task = self._take()
                if task is None:
                    return
                if not task.job.is_store:
                    self._read(task, page)
                    continue
                self._write(task, page)
                with self._changed:
                    self._writing -= 1
                    if self._writes:
                        self._changed.notify()

    def _take(self) -> Task | None:
        with self._changed:
            while True:
                if self._reads:
                    return self._reads.popleft()
                if self._is_closed:
                    return None
                if self._writes and self._writing < self._most_writing:
                    slot = self._book.take()
                    if slot is not None:
                        self._writing += 1
                        task = self._writes.popleft()
                        task.slot = slot
                        return task
                self._changed.wait()
