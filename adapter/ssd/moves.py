"""Moves one slot between the caller's memory and the disk, by way of a bounce buffer.

The caller's buffer is touched under the task's lock, while the task is alive, and by
nobody afterwards; so a transfer that hangs cannot write to memory that has another use
by the time it wakes up. Nothing in here raises.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable

from hotset.adapter.ssd import slot as slots_form
from hotset.adapter.ssd.breaker import Breaker
from hotset.adapter.ssd.jobs import Task
from hotset.adapter.ssd.slot import SlotForm
from hotset.adapter.ssd.slot_files import SlotFiles

_LOG = logging.getLogger(__name__)

ERROR, GONE = "error", "gone"
# After these a block is of no use any more.
LOST = frozenset(
    (
        slots_form.TORN,
        slots_form.FOREIGN,
        slots_form.OTHER_KEY,
        slots_form.STALE,
        slots_form.CHECKSUM,
        ERROR,
        GONE,
    )
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Mover:
    """See the module.

    Parameters
    ----------
    slots : SlotFiles
        The files.
    form : SlotForm
        The form of a slot.
    reads, writes : Breaker
        Are told how transfers go.
    slow_s : float
        What takes longer is a failure of the disk.
    on_read, on_written : callable
        Take the task afterwards.
    """

    def __init__(
        self,
        slots: SlotFiles,
        form: SlotForm,
        reads: Breaker,
        writes: Breaker,
        slow_s: float,
        on_read: Callable[[Task], None],
        on_written: Callable[[Task], None],
    ) -> None:
        self._slots, self._form = slots, form
        self._reads, self._writes = reads, writes
        self._slow_s = slow_s
        self._on_read, self._on_written = on_read, on_written
        self._has_failed = False

    def read(self, task: Task, page: memoryview) -> None:
        """Read a slot, check it, and copy it out."""
        try:
            if not task.is_dead:
                self._read(task, page)
        except OSError as error:
            gone = error.errno == errno.ENOENT
            task.failure = GONE if gone else ERROR
            if not gone:
                self._reads.note(False, str(error))
        except Exception as error:
            self._fail(task, error)
        self._on_read(task)

    def write(self, task: Task, page: memoryview) -> None:
        """Copy a block in, and write it to its slot."""
        try:
            if not task.is_dead:
                self._write(task, page)
        except OSError as error:
            task.failure = "full" if error.errno in _FULL else ERROR
            if error.errno == errno.EROFS:
                self._writes.open_now(str(error))
            else:
                self._writes.note(False, str(error))
        except Exception as error:
            self._fail(task, error)
        self._on_written(task)

    def _read(self, task: Task, page: memoryview) -> None:
        started = time.monotonic()
        self._slots.read(task.slot, page)
        self._note(self._reads, started)
        fault = self._form.fault(page, task.key, task.generation, task.slot)
        if fault:
            task.failure = fault
            return
        with task.lock:
            if not task.is_dead and task.buffer is not None:
                self._check(task.buffer)
                self._form.take(page, task.buffer)
                task.buffer = None

    def _write(self, task: Task, page: memoryview) -> None:
        with task.lock:
            if task.is_dead or task.buffer is None:
                return
            self._check(task.buffer)
            self._form.put(page, task.buffer)
            task.buffer = None
        self._form.seal(page, task.key, task.generation, task.slot)
        started = time.monotonic()
        self._slots.write(task.slot, page)
        self._note(self._writes, started)

    def _note(self, breaker: Breaker, started: float) -> None:
        took_s = time.monotonic() - started
        breaker.note(took_s < self._slow_s, f"a transfer took {took_s:.1f} s")

    def _check(self, buffer: memoryview) -> None:
        if buffer.nbytes != self._form.payload_bytes:
            raise ValueError(
                f"a buffer has {buffer.nbytes} bytes, a block "
                f"{self._form.payload_bytes}"
            )

    def _fail(self, task: Task, error: Exception) -> None:
        task.failure = "fault"
        if not self._has_failed:
            self._has_failed = True
            _LOG.error("hotset: the SSD tier failed: %r", error, exc_info=error)
