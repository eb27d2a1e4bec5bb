"""One cap and one floor for all that hotset has under a path.

Every namespace is a folder with a lock of its own, held while a process serves it. A
second lock, the path's, is held while anything grows: what is there is counted from the
disk, with all that indices and file systems may still add to it, so that neither cap
nor floor of free bytes depends on anybody's books. Namespaces that nobody serves are
removed to make room, the one used longest ago first. Files that are not hotset's are
never touched.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.files import OsFiles, is_same, locked, try_lock
from hotset.adapter.ssd.index import FILES as INDEX_FILES
from hotset.adapter.ssd.slot import PAGE
from hotset.adapter.ssd.slot_files import file_number, map_bytes

PATH_LOCK = "hotset.lock"
LOCK, ABOUT, PROBE = "lock", "about.json", "probe"
_FOLDER = re.compile(r"hotset-[0-9a-f]{32}")
_MAX_ABOUT_BYTES = 1 << 20
_MOST_FILE_BYTES = 1 << 48
_FIXED = (LOCK, ABOUT, PROBE)


def folder_name(digest: bytes) -> str:
    """Return the name of a namespace's folder."""
    return f"hotset-{digest.hex()[:32]}"


@dataclass(frozen=True)
class About:
    """What a namespace's folder says of itself, as JSON.

    Parameters
    ----------
    format : int
        Version of the form of all files.
    digest : str
        The whole digest, hexadecimal.
    payload_bytes, slot_bytes, slots_per_file : int
        Sizes.
    index_bytes : int
        What the index may take at the most.
    ephemeral : bool
        Whether the blocks are of no use to a later process.
    fields : dict
        The namespace's own fields.
    """

    format: int
    digest: str
    payload_bytes: int
    slot_bytes: int
    slots_per_file: int
    index_bytes: int
    ephemeral: bool
    fields: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return json.dumps(asdict(self), sort_keys=True, indent=1).encode() + b"\n"


def read_about(files: OsFiles, folder: int) -> About | None:
    """Return what a folder says of itself, None where that is nothing or not ours."""
    try:
        fd = files.open(folder, ABOUT)
    except OSError:
        return None
    try:
        text = os.pread(fd, _MAX_ABOUT_BYTES, 0)
    except OSError:
        return None
    finally:
        files.close(fd)
    try:
        about = About(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    sizes = (about.payload_bytes, about.slot_bytes, about.slots_per_file)
    fits = all(type(size) is int and 0 < size < 1 << 48 for size in sizes)
    fits = fits and about.slot_bytes * about.slots_per_file <= _MOST_FILE_BYTES
    fits = fits and type(about.index_bytes) is int and 0 <= about.index_bytes < 1 << 48
    fits = fits and isinstance(about.digest, str) and isinstance(about.fields, dict)
    return about if fits and type(about.format) is int else None


def write_about(files: OsFiles, folder: int, about: About) -> None:
    """Write what a folder says of itself, durably and whole."""
    text, made = about.to_bytes(), f"{ABOUT}.new"
    with contextlib.suppress(FileNotFoundError):
        files.unlink(folder, made)
    fd = files.open(folder, made, create=True)
    try:
        if files.write(fd, memoryview(text), 0) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), made)
        files.sync(fd)
    finally:
        files.close(fd)
    files.rename(folder, made, ABOUT)
    files.sync(folder)


def is_ours(name: str) -> bool:
    """Return whether a file of a namespace's folder is one that hotset makes."""
    return (
        name in _FIXED
        or name == f"{ABOUT}.new"
        or name in INDEX_FILES
        or file_number(name) is not None
    )


@dataclass(frozen=True)
class Folder:
    """A namespace's folder as it is on the disk.

    ``index_bytes`` are those of its index, ``slot_bytes`` those of its files of slots;
    ``reserved_bytes`` may still come without any file of slots.
    """

    name: str
    used_bytes: int
    index_bytes: int
    slot_bytes: int
    reserved_bytes: int
    used_s: float
    about: About | None


class Quota:
    """The cap and the floor of a path.

    Parameters
    ----------
    files : OsFiles
        The operating system.
    path : str
        The path, whose parent has to be there.
    max_bytes, min_free_bytes : int
        Cap and floor.

    Raises
    ------
    AdapterError
        If the path is no folder of ours to write to.
    """

    def __init__(
        self, files: OsFiles, path: str, max_bytes: int, min_free_bytes: int
    ) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.min_free_bytes = min_free_bytes
        self._files = files
        try:
            files.make_folder(path)
            self.folder = files.open_folder(path)
            self._lock = files.open(self.folder, PATH_LOCK, create=True)
        except OSError as error:
            raise AdapterError(
                f"SSD tier: {path}: {error.strerror}: a folder that can be written to, "
                "and is no symbolic link, is needed"
            ) from None

    def close(self) -> None:
        """Let the path go."""
        self._files.close(self._lock)
        self._files.close(self.folder)

    @property
    def is_there(self) -> bool:
        """Whether the path still leads to the folder that was opened."""
        return is_same(self.folder, self.path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the path's lock: nobody else grows meanwhile."""
        while True:
            with locked(self._lock):
                if not self._is_replaced():
                    yield
                    return
            self._renew_lock()

    def free_bytes(self) -> int:
        """Return the free bytes above the floor; negative below it."""
        return self._files.free_bytes(self.folder) - self.min_free_bytes

    def folders(self) -> list[Folder]:
        """Return the namespaces there, by name."""
        names = sorted(n for n in os.listdir(self.folder) if _FOLDER.fullmatch(n))
        found = (self._look(name) for name in names)
        return [folder for folder in found if folder is not None]

    def top_bytes(self) -> int:
        """Return what the path's own folder takes."""
        return os.fstat(self.folder).st_blocks * 512

    def room(self) -> int:
        """Return the bytes that may come by cap and floor, with the lock held.

        All reserves are kept free of both. Negative where there is too much already.
        """
        there = self.folders()
        used = sum(f.used_bytes + f.reserved_bytes for f in there) + self.top_bytes()
        reserved = sum(f.reserved_bytes for f in there)
        return min(self.max_bytes - used, self.free_bytes() - reserved)

    def make_room(self, own: str, needed: int) -> bool:
        """Remove unserved namespaces until so much may come; the lock is held."""
        while self.room() < needed:
            idle = [f for f in self.folders() if f.name != own]
            # Of no use to anybody, then the one used longest ago.
            idle.sort(
                key=lambda f: (not (f.about and f.about.ephemeral), f.used_s, f.name)
            )
            if not any(self.remove(folder.name) for folder in idle):
                return False
        return True

    def served_bytes(self, own: str) -> int:
        """Return what other processes' namespaces take, with the lock held."""
        return sum(
            folder.used_bytes + folder.reserved_bytes
            for folder in self.folders()
            if folder.name != own and not self._is_idle(folder.name)
        )

    def remove(self, name: str) -> bool:
        """Remove a namespace that nobody serves; return whether anything went.

        Files in it that are not hotset's stay, and the folder with them.
        """
        try:
            folder = self._files.open_folder(os.path.join(self.path, name))
        except OSError:
            return False
        try:
            lock = self._files.open(folder, LOCK, create=True)
        except OSError:
            self._files.close(folder)
            return False
        try:
            if not try_lock(lock):
                return False
            before = os.listdir(folder)
            # The lock goes last: without it the folder is another process's to take.
            for item in sorted(before, key=lambda item: (item == LOCK, item)):
                if is_ours(item):
                    with contextlib.suppress(OSError):
                        self._files.unlink(folder, item)
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=self.folder)
            return any(is_ours(item) and item != LOCK for item in before)
        finally:
            self._files.close(lock)
            self._files.close(folder)

    # Inside

    def _is_replaced(self) -> bool:
        """Whether the path has another lock by now, or none, and can have one."""
        mine = os.fstat(self._lock)
        try:
            there = os.stat(PATH_LOCK, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            # In a folder that is gone there is nobody to keep out.
            return os.fstat(self.folder).st_nlink > 0
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _renew_lock(self) -> None:
        fresh = self._files.open(self.folder, PATH_LOCK, create=True)
        self._files.close(self._lock)
        self._lock = fresh

    def _is_idle(self, name: str) -> bool:
        try:
            folder = self._files.open_folder(os.path.join(self.path, name))
        except OSError:
            return True
        try:
            lock = self._files.open(folder, LOCK)
        except OSError:
            return True
        finally:
            self._files.close(folder)
        try:
            return try_lock(lock)
        finally:
            self._files.close(lock)

    def _look(self, name: str) -> Folder | None:
        try:
            folder = self._files.open_folder(os.path.join(self.path, name))
        except OSError:
            return None
        try:
            about = read_about(self._files, folder)
            here = os.fstat(folder)
            sizes, used_s = {}, 0.0
            for item in os.listdir(folder):
                with contextlib.suppress(OSError):
                    found = os.stat(item, dir_fd=folder, follow_symlinks=False)
                    if not stat.S_ISREG(found.st_mode) or not is_ours(item):
                        continue
                    sizes[item] = max(found.st_size, found.st_blocks * 512)
                    if item == LOCK:
                        used_s = found.st_mtime
        except OSError:
            return None
        finally:
            self._files.close(folder)
        index = sum(sizes.get(item, 0) for item in INDEX_FILES)
        slots = [size for item, size in sizes.items() if file_number(item) is not None]
        to_come = 0
        if about is not None and not self._is_idle(name):
            whole = about.slot_bytes * about.slots_per_file
            whole += map_bytes(about.slots_per_file, about.slot_bytes)
            to_come = max(0, about.index_bytes - index)
            to_come += sum(max(0, whole - size) for size in slots)
            to_come += max(0, PAGE - sizes.get(PROBE, 0))
            to_come += sizes.get(ABOUT, 0)  # there twice while it is written anew
        used = here.st_blocks * 512 + sum(sizes.values())
        return Folder(name, used, index, sum(slots), to_come, used_s, about)
