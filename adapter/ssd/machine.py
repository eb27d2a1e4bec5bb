"""The threads of a served namespace, and what they share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hotset.adapter.ssd.book import SlotBook
from hotset.adapter.ssd.breaker import Breaker
from hotset.adapter.ssd.care import Caretaker
from hotset.adapter.ssd.committer import Committer
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.jobs import Task
from hotset.adapter.ssd.moves import Mover
from hotset.adapter.ssd.pool import TransferPool
from hotset.adapter.ssd.quota import write_about
from hotset.adapter.ssd.start import CLEAN, Started

_LEAST_S = 0.1


class Machine:
    """Pool, committer and caretaker, running.

    Parameters
    ----------
    config : SsdConfig
        The tier's configuration.
    started : Started
        The namespace; its rows are forgotten.
    files : OsFiles
        The operating system.
    clock, wall : callable
        Seconds by a clock that nobody sets, and since the epoch.
    on_over : callable
        Takes each task once when it is over; called by several threads.
    """

    def __init__(
        self,
        config: SsdConfig,
        started: Started,
        files: OsFiles,
        clock: Callable[[], float],
        wall: Callable[[], float],
        on_over: Callable[[Task], None],
    ) -> None:
        self.slots = slots = started.slots
        self.reads = Breaker("reads", clock)
        self.writes = Breaker("writes", clock)
        self._started, self._files = started, files
        book = SlotBook()
        taken = {row.slot for row in started.rows}
        every = (s for number in slots.numbers() for s in slots.slots_of(number))
        book.free(slot for slot in every if slot not in taken)
        started.rows = []
        self.care = Caretaker(
            files,
            started.quota,
            started.folder,
            started.name,
            slots,
            book,
            self.reads,
            self.writes,
            started.max_files,
            started.about.index_bytes,
            clock,
        )
        self.committer = Committer(
            started.index, slots, book, self.writes, on_over, wall
        )
        mover = Mover(
            slots,
            started.form,
            self.reads,
            self.writes,
            config.slow_s,
            on_over,
            self.committer.add_written,
        )
        self.pool = TransferPool(
            config.threads, slots.slot_bytes, book, mover.read, mover.write
        )
        self.care.pool, self.care.committer = self.pool, self.committer
        self.committer.care = self.care
        self.committer.num_writing = self.pool.num_writing
        self.committer.on_free = self.pool.note_free_slots
        self.committer.on_clear = self._make_ephemeral
        self.committer.start()

    def write(self, tasks: list[Task]) -> None:
        """Write blocks, behind all reads."""
        self.pool.add_writes(tasks)
        if self.pool.starved():
            self.committer.wake()

    def close(self, is_clean: bool, is_useless: bool, timeout_s: float) -> bool:
        """End the threads and let the namespace go; False where they do not end.

        Parameters
        ----------
        is_clean : bool
            Whether nothing is under way, so that the index is what the slots are.
        is_useless : bool
            Whether the blocks are of no use to a later process.
        timeout_s : float
            Seconds.
        """
        until_s = time.monotonic() + timeout_s
        if is_clean:
            self.committer.add(meta={CLEAN: 1.0})
        left_s = max(_LEAST_S, until_s - time.monotonic())
        if not self.pool.close(left_s):
            return False
        left_s = max(_LEAST_S, until_s - time.monotonic())
        if not self.committer.close(left_s):
            return False
        self._started.release(self._files, is_useless)
        return True

    def _make_ephemeral(self) -> None:
        """Let no later process find what is stored from now on."""
        about = replace(self._started.about, ephemeral=True)
        write_about(self._files, self._started.folder, about)
