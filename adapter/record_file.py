"""The file of a recording: whole rows, at most so many bytes, one process.

A row is appended in one write, and what a failed write left is taken back, so that a
file ends in a whole row unless the machine or the process died in between; such an end
is cut off when the file is opened again. Only files that are recordings are continued.
Of the processes that share a path the first one has it, the others get names with a
number: ``trace.jsonl``, ``trace.1.jsonl``, ...
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from pathlib import Path

from hotset.traces.record import HEAD

_MAX_PROCESSES = 64
_KEY_BYTES = 32
_STEP_BYTES = 1 << 16
MODE = 0o600


class RecordFile:
    """An open recording that this process alone appends to.

    Parameters
    ----------
    path : Path
        Where it is to be.
    max_bytes : int
        Its size at the most.

    Attributes
    ----------
    path : Path
        Where it is.
    is_full : bool
        Whether a row did not fit; nothing is taken from then on.

    Raises
    ------
    OSError
        If there is no such file to be had.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path, self._fd = _open_one(path)
        self.is_full = False
        self._max_bytes = max_bytes
        try:
            self._size = _whole_rows(self._fd, self.path)
        except OSError:
            os.close(self._fd)
            raise

    def append(self, rows: list[bytes]) -> int:
        """Append rows as far as they fit; return how many.

        Raises
        ------
        OSError
            If they could not be written; then none of them is in the file.
        """
        if self.is_full:
            return 0
        kept, size = 0, self._size
        while kept < len(rows) and size + len(rows[kept]) <= self._max_bytes:
            size += len(rows[kept])
            kept += 1
        if kept:
            self._write(b"".join(rows[:kept]))
        self._size = size
        self.is_full = kept < len(rows)  # what could not be written may still fit
        return kept

    def _write(self, data: bytes) -> None:
        try:
            if os.write(self._fd, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise

    def close(self) -> None:
        """Let the file go."""
        os.close(self._fd)


def read_secret(path: Path) -> bytes:
    """Return the key that ids of a path's recordings are made with.

    It lies beside them, in a file of mode 0600, and is made where there is none.

    Raises
    ------
    OSError
        If it cannot be read or made.
    """
    place = path.with_name(f"{path.name}.key")
    if not place.exists():
        if path.exists() and path.stat().st_size:
            raise OSError(
                errno.ENOENT, "the key of what is recorded there is gone", str(place)
            )
        made = place.with_name(f"{place.name}.{os.getpid()}")
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
        try:
            os.write(fd, secrets.token_bytes(_KEY_BYTES))
            os.fsync(fd)
            os.link(made, place)
        except FileExistsError:
            pass  # another process was first
        finally:
            os.close(fd)
            os.unlink(made)
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fchmod(fd, MODE)
        secret = os.read(fd, 2 * _KEY_BYTES)
    finally:
        os.close(fd)
    if len(secret) != _KEY_BYTES:
        raise OSError(errno.EINVAL, f"no key of {_KEY_BYTES} bytes", str(place))
    return secret


def _open_one(path: Path) -> tuple[Path, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    flags |= os.O_NOFOLLOW
    for number in range(_MAX_PROCESSES):
        place = path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path
        fd = os.open(place, flags, MODE)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "no regular file", str(place))
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fchmod(fd, MODE)
        except BlockingIOError:
            os.close(fd)
            continue
        except OSError:
            os.close(fd)
            raise
        return place, fd
    raise OSError(errno.EBUSY, f"{_MAX_PROCESSES} processes record", str(path))


def _whole_rows(fd: int, path: Path) -> int:
    """Cut off the rest of a row at a file's end; return the file's size."""
    size = os.fstat(fd).st_size
    if size == 0:
        return 0
    if os.pread(fd, len(HEAD), 0) != HEAD[:size]:
        raise OSError(errno.EEXIST, "there is a file that is no recording", str(path))
    end = size
    while end > 0:
        begin = max(0, end - _STEP_BYTES)
        found = os.pread(fd, end - begin, begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    if end < size:
        os.ftruncate(fd, end)
    return end
