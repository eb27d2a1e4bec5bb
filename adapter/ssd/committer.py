"""One thread that makes things durable, in the order that keeps right bytes right.

It takes what has come together since its last round: slots that were written, rows that
go, uses to note. First the files of the written slots are synced, then rows go and come
in durable commits, then the freed slots may be written, then the stores are reported.
So a row is durable only after its data, and a slot's bytes change only after the row
that named it is durably gone.

Between rounds it looks after the disk, see `Caretaker`.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Protocol

from hotset.adapter.ssd.book import SlotBook
from hotset.adapter.ssd.breaker import Breaker
from hotset.adapter.ssd.index import Gone, Index, Row
from hotset.adapter.ssd.jobs import Task
from hotset.adapter.ssd.slot_files import SlotFiles

_LOG = logging.getLogger(__name__)

_TICK_S = 0.25
_GATHER, _GATHER_S = 32, 0.01  # writes to a commit, and how long it waits for them
_MOST_USES = 1 << 16  # that wait, about
Use = tuple[int, float, int, int]  # used, used_s, slot, generation


class Care(Protocol):
    """What looks after the disk."""

    def look(self) -> None:
        """Look at the disk, now and then; may not raise."""

    def make_room(self) -> None:
        """Make slots for writes that wait; may not raise."""


class Committer:
    """The thread.

    Parameters
    ----------
    index : Index
        The durable rows; this thread's alone once it runs.
    slots : SlotFiles
        The files.
    book : SlotBook
        Gets what becomes free.
    breaker : Breaker
        Of writes.
    report : callable
        Takes a task that is over.
    wall : callable
        Seconds since the epoch.
    """

    def __init__(
        self,
        index: Index,
        slots: SlotFiles,
        book: SlotBook,
        breaker: Breaker,
        report: Callable[[Task], None],
        wall: Callable[[], float],
    ) -> None:
        self._index, self._slots, self._book = index, slots, book
        self._breaker, self._report, self._wall = breaker, report, wall
        self._changed = threading.Condition()
        self._written: list[Task] = []
        self._gone: list[Gone] = []
        self._uses: list[Use] = []
        self._meta: dict[str, float] = {}
        self._epoch = 0  # clearings so far
        self._must_clear = self._is_closed = self._is_stuck = False
        self._busy = False
        self._wake = False
        self._has_failed = False
        self.care: Care | None = None
        self.on_clear: Callable[[], None] = lambda: None
        self.num_writing: Callable[[], int] = lambda: 0
        self.on_free: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=self._run, name="hotset-ssd-commit", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add_written(self, task: Task) -> None:
        """Take a task whose slot is written, or whose write failed."""
        with self._changed:
            self._written.append(task)
            self._changed.notify()

    def add(
        self,
        gone: list[Gone] | None = None,
        uses: list[Use] | None = None,
        meta: dict[str, float] | None = None,
    ) -> None:
        """Take rows that go, uses to note and numbers to keep."""
        with self._changed:
            self._gone += gone or ()
            if len(self._uses) < _MOST_USES:  # a disk that hangs does not take them
                self._uses += uses or ()
            self._meta.update(meta or {})
            if gone or uses:
                self._is_stuck = False
                self._changed.notify()

    def clear(self) -> None:
        """Delete every row before anything new is committed."""
        with self._changed:
            self._gone.clear()
            self._uses.clear()
            self._epoch += 1
            self._must_clear = True
            self._is_stuck = False
            self._changed.notify()

    def wake(self) -> None:
        """Look after waiting writes now."""
        with self._changed:
            self._wake = True
            self._changed.notify()

    def try_index(self) -> None:
        """Commit something small, on this thread; what waited is tried again then.

        Raises
        ------
        sqlite3.Error
            If the index cannot be written.
        """
        self._index.commit(meta=[("trial", self._wall())])
        with self._changed:
            self._is_stuck = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be committed."""
        with self._changed:
            waiting = self._written or self._gone or self._uses or self._must_clear
            return self._is_stuck or not (waiting or self._busy)

    def close(self, timeout_s: float) -> bool:
        """End the thread, after a last round; False where it does not come back."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # The thread

    def _run(self) -> None:
        last_look_s = time.monotonic()
        while True:
            with self._changed:
                if not self._has_work() and not self._is_closed:
                    self._changed.wait(_TICK_S)
                if self._written and not self._is_closed:
                    self._gather()
                written, self._written = self._written, []
                gone, self._gone = self._gone, []
                uses, self._uses = self._uses, []
                meta, self._meta = self._meta, {}
                must_clear, self._must_clear = self._must_clear, False
                is_last, self._wake, self._busy = self._is_closed, False, True
            if written or gone or uses or must_clear or (meta and is_last):
                try:
                    self._round(written, gone, uses, meta, must_clear)
                except Exception as error:
                    self._contain(error, written)
            else:
                with self._changed:
                    self._meta = {**meta, **self._meta}
            with self._changed:
                self._busy = False
                if is_last and not self._written:
                    return
            if self.care is not None:
                try:
                    self.care.make_room()
                    if time.monotonic() - last_look_s >= _TICK_S:
                        last_look_s = time.monotonic()
                        self.care.look()
                except Exception as error:
                    self._contain(error, [])

    def _contain(self, error: Exception, written: list[Task]) -> None:
        """Pause stores after a failure of this module; what it held has failed."""
        self._breaker.open_now(f"a failure: {error!r}")
        if not self._has_failed:
            self._has_failed = True
            _LOG.error("hotset: the SSD tier failed: %r", error, exc_info=error)
        for task in written:
            # Its slot is not used again: nobody knows what names it.
            task.failure = task.failure or "fault"
            self._report(task)

    def _gather(self) -> None:
        """Wait a little for writes under way: one sync and one commit do for many."""
        until_s = time.monotonic() + _GATHER_S
        while len(self._written) < _GATHER and self.num_writing():
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            self._changed.wait(left_s)

    def _has_work(self) -> bool:
        waiting = self._gone or self._uses or self._must_clear
        return bool(self._written or self._wake or (waiting and not self._is_stuck))

    def _round(
        self,
        written: list[Task],
        gone: list[Gone],
        uses: list[Use],
        meta: dict[str, float],
        must_clear: bool,
    ) -> None:
        rows, kept = self._rows(written)
        try:
            if must_clear:
                self.on_clear()
                self._index.clear()
                must_clear = False
                self._book.free_all(
                    slot
                    for number in self._slots.numbers()
                    for slot in self._slots.slots_of(number)
                )
                self.on_free()
            self._index.commit(gone, rows, uses, list(meta.items()))
            self._free(gone)
        except (sqlite3.Error, OSError) as error:
            self._breaker.open_now(f"the index: {error}")
            for task in kept:
                # Its row may be there or not: the slot is free once it surely is not.
                task.failure = "index"
                self._book.keep(task.slot)
                gone.append((task.slot, task.generation))
                task.slot = -1
            # What could not go is tried again with what comes next.
            with self._changed:
                self._gone = gone + self._gone
                self._must_clear = self._must_clear or must_clear
                self._is_stuck = True
        self._finish(written)

    def _rows(self, written: list[Task]) -> tuple[list[Row], list[Task]]:
        """Sync the data of written slots; return rows for those that shall stay."""
        self._sync(written)
        rows, kept = [], []
        now_s, epoch = self._wall(), self._epoch
        for task in written:
            with task.lock:
                if task.job.epoch != epoch:
                    task.failure = task.failure or "reset"
                if task.is_dead or task.failure:
                    continue
                task.is_committing = True
            kept.append(task)
            rows.append(
                Row(
                    task.slot,
                    task.key,
                    task.generation,
                    task.depth,
                    task.used,
                    1,
                    now_s,
                    now_s,
                )
            )
        return rows, kept

    def _sync(self, written: list[Task]) -> None:
        by_file: dict[int, list[Task]] = {}
        for task in written:
            if not task.failure and not task.is_dead:
                number = task.slot // self._slots.slots_per_file
                by_file.setdefault(number, []).append(task)
        for number, tasks in by_file.items():
            try:
                self._slots.sync(number)
            except OSError as error:
                self._breaker.note(False, f"syncing: {error}")
                for task in tasks:
                    task.failure = "sync"

    def _free(self, gone: list[Gone]) -> None:
        if gone:
            self._book.free(slot for slot, _ in gone if self._slots.holds(slot))
            self.on_free()

    def _finish(self, written: list[Task]) -> None:
        freed = False
        while written:
            task = written.pop(0)
            if task.slot >= 0:
                if task.is_dead or task.failure:
                    self._book.give_back(task.slot)
                    freed = True
                elif not self._book.keep(task.slot):
                    task.failure = "lost"
                    self.add([(task.slot, task.generation)])
            self._report(task)
        if freed:
            self.on_free()
