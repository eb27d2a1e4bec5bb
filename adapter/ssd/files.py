"""What the SSD tier asks of the operating system, and no more.

Tests put something else in its place: a full, failing, slow or read-only disk, or a
recorder of writes and syncs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MODE = 0o600
_FOLDER_MODE = 0o700
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_DIRECT = getattr(os, "O_DIRECT", 0)
_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class OsFiles:
    """The real thing."""

    def make_folder(self, path: str) -> None:
        """Make a folder for its owner alone, unless it is there."""
        try:
            os.mkdir(path, _FOLDER_MODE)
        except FileExistsError:
            return
        parent = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.sync(parent)
        finally:
            os.close(parent)

    def open_folder(self, path: str) -> int:
        """Open a folder that is no symbolic link."""
        return os.open(
            path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        )

    def open(
        self, folder: int, name: str, create: bool = False, direct: bool = False
    ) -> int:
        """Open a regular file with one name for reading and writing.

        Raises
        ------
        OSError
            For what is none, and where ``direct`` is refused.
        """
        flags = os.O_RDWR | _SAFE | (os.O_CREAT if create else 0)
        fd = os.open(name, flags | (_DIRECT if direct else 0), MODE, dir_fd=folder)
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(fd)
            raise OSError(errno.EINVAL, "no regular file of its own", name)
        return fd

    def close(self, fd: int) -> None:
        """Close a file or folder."""
        os.close(fd)

    def allocate(self, fd: int, size: int) -> None:
        """Give a file its blocks, or fail with ENOSPC."""
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in _NO_FALLOCATE:
                raise
            os.ftruncate(fd, size)

    def read(self, fd: int, page: memoryview, offset: int) -> int:
        """Read into a buffer; return how many bytes."""
        return os.preadv(fd, [page], offset)

    def write(self, fd: int, page: memoryview, offset: int) -> int:
        """Write a buffer; return how many bytes."""
        return os.pwrite(fd, page, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(fd, size)

    def sync_data(self, fd: int) -> None:
        """Wait until what was written to a file is durable."""
        os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        """Wait until a file's size, or a folder's names, are durable as well."""
        os.fsync(fd)

    def unlink(self, folder: int, name: str) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=folder)

    def rename(self, folder: int, old: str, new: str) -> None:
        """Give a file another name of the same folder, in place of what has it."""
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def free_bytes(self, folder: int) -> int:
        """Return the free bytes of a folder's file system."""
        found = os.fstatvfs(folder)
        return found.f_bavail * found.f_frsize

    def index_uri(self, path: Path) -> str:
        """Return the URI under which SQLite opens a file."""
        return f"{path.absolute().as_uri()}?mode=rw"


def try_lock(fd: int) -> bool:
    """Lock a file for this process alone, unless another one has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold a file's lock; waits for another process's."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def is_same(fd: int, path: str) -> bool:
    """Return whether a path still leads to an open folder."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    here = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
