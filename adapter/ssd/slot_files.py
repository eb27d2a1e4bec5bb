"""Preallocated files of slots, numbered; a slot's number says which file and where.

A file is whole or absent: it is given all its blocks before any slot in it is used, and
removed as one. O_DIRECT is taken where the file system takes it; elsewhere one warning
is logged, and writes go through the page cache and are fdatasync'ed as well.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading

from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.slot import PAGE

_LOG = logging.getLogger(__name__)

_PREFIX, _SUFFIX = "slots-", ".bin"
_PARTS_IN_A_PAGE = 128  # ext4 has room for 340, and half of it where it split a page
_PARTS_FOR_NOTHING = 4
_PART = 20  # a whole file is in parts of 1 << 20 bytes, at the worst


def map_bytes(num_slots: int, slot_bytes: int) -> int:
    """Return what a file system may take besides, to say where a file's parts lie.

    What is preallocated and not written yet is another part than what is; so each slot
    can become one.
    """
    parts = num_slots + (num_slots * slot_bytes >> _PART)
    if parts <= _PARTS_FOR_NOTHING:
        return 0
    return PAGE * (1 + parts // _PARTS_IN_A_PAGE)


def file_name(number: int) -> str:
    """Return the name of a file of slots."""
    return f"{_PREFIX}{number:05d}{_SUFFIX}"


def file_number(name: str) -> int | None:
    """Return the number of a file of slots, None for any other file."""
    digits = name[len(_PREFIX) : -len(_SUFFIX)]
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        return None
    number = int(digits)
    return number if file_name(number) == name else None


class SlotFiles:
    """The slot files of one namespace.

    Parameters
    ----------
    files : OsFiles
        The operating system.
    folder : int
        The namespace's open folder.
    slot_bytes : int
        Bytes of a slot.
    slots_per_file : int
        Slots of a file.
    """

    def __init__(
        self, files: OsFiles, folder: int, slot_bytes: int, slots_per_file: int
    ) -> None:
        self.slot_bytes = slot_bytes
        self.slots_per_file = slots_per_file
        self.file_bytes = slot_bytes * slots_per_file
        self.claim_bytes = self.file_bytes + map_bytes(slots_per_file, slot_bytes)
        self.is_direct = True
        self._files = files
        self._folder = folder
        self._fd: dict[int, int] = {}
        self._retired: list[int] = []
        self._users: dict[int, int] = {}
        self._lock = threading.Lock()

    def numbers(self) -> list[int]:
        """Return the numbers of the files that are there."""
        return sorted(self._fd)

    def slots_of(self, number: int) -> range:
        """Return the slots of a file."""
        return range(number * self.slots_per_file, (number + 1) * self.slots_per_file)

    def holds(self, slot: int) -> bool:
        """Return whether a slot's file is there."""
        return slot // self.slots_per_file in self._fd

    def open_all(self, may_remove: bool = True) -> None:
        """Open the files that are there; those of another size are removed."""
        for name in sorted(os.listdir(self._folder)):
            number = file_number(name)
            if number is None:
                continue
            fd = None
            with contextlib.suppress(OSError):
                fd = self._open(name)
                if os.fstat(fd).st_size == self.file_bytes:
                    self._fd[number] = fd
                    continue
            if fd is not None:
                self._files.close(fd)
            if may_remove:
                with contextlib.suppress(OSError):
                    self._files.unlink(self._folder, name)

    def add(self, number: int) -> None:
        """Make a file with all its blocks; on failure nothing of it is left.

        Raises
        ------
        OSError
            ENOSPC where it does not fit.
        """
        name = file_name(number)
        fd = self._open(name, create=True)
        try:
            self._files.allocate(fd, self.file_bytes)
            self._files.sync(fd)
            self._files.sync(self._folder)
        except OSError:
            self._files.close(fd)
            with contextlib.suppress(OSError):
                self._files.unlink(self._folder, name)
            raise
        self._fd[number] = fd

    def remove(self, number: int) -> None:
        """Remove a file; transfers under way on it end as they may."""
        with self._lock:
            fd = self._fd.pop(number, None)
            if fd is None:
                return
            self._retired.append(fd)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(self._folder, file_name(number))
        self._close_retired()

    def lost(self) -> list[int]:
        """Return the files that somebody else has removed."""
        return [number for number, fd in self._fd.items() if not os.fstat(fd).st_nlink]

    def read(self, slot: int, page: memoryview) -> None:
        """Read a slot, or the part of it that fits."""
        fd, offset = self._use(slot)
        try:
            done = self._files.read(fd, page, offset)
        finally:
            self._leave(fd)
        if done != len(page):
            raise OSError(errno.EIO, f"{done} bytes of {len(page)} could be read")

    def write(self, slot: int, page: memoryview) -> None:
        """Write a slot."""
        fd, offset = self._use(slot)
        try:
            done = self._files.write(fd, page, offset)
        finally:
            self._leave(fd)
        if done != len(page):
            raise OSError(errno.ENOSPC, f"{done} bytes of {len(page)} were written")

    def sync(self, number: int) -> None:
        """Make what was written to a file durable."""
        fd, _ = self._use(number * self.slots_per_file)
        try:
            self._files.sync_data(fd)
        finally:
            self._leave(fd)

    def close(self) -> None:
        """Let all files go that nobody uses."""
        with self._lock:
            self._retired += self._fd.values()
            self._fd.clear()
        self._close_retired()

    def _use(self, slot: int) -> tuple[int, int]:
        number, place = divmod(slot, self.slots_per_file)
        with self._lock:
            fd = self._fd.get(number)
            if fd is None:
                raise OSError(errno.ENOENT, "its file is gone", file_name(number))
            self._users[fd] = self._users.get(fd, 0) + 1
        return fd, place * self.slot_bytes

    def _leave(self, fd: int) -> None:
        with self._lock:
            self._users[fd] -= 1
            if not self._users[fd]:
                del self._users[fd]
        if self._retired:
            self._close_retired()

    def _close_retired(self) -> None:
        with self._lock:
            idle = [fd for fd in self._retired if fd not in self._users]
            self._retired = [fd for fd in self._retired if fd in self._users]
        for fd in idle:
            self._files.close(fd)

    def _open(self, name: str, create: bool = False) -> int:
        if self.is_direct:
            try:
                return self._files.open(self._folder, name, create, direct=True)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            fd = self._files.open(self._folder, name, create)
            self.is_direct = False
            _LOG.warning(
                "hotset: the file system of the SSD tier refuses O_DIRECT: reads and "
                "writes go through the page cache"
            )
            return fd
        return self._files.open(self._folder, name, create)
