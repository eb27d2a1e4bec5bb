"""What a disk may hold after the power failed at any moment of a recorded run.

`Recorder` takes down every write, truncation, creation, removal and sync of a run, the
slot files' and SQLite's, with when each began and ended. `Disk` replays a prefix of
that. What was synced is there: what had ended before a sync of the same file began and
ended. Of everything else, each sector of each write, each change of a size, each name
in a folder, is there or not, whatever the order in which it was done.
"""

import contextlib
import os
import threading
from dataclasses import dataclass, field

from support.sqlite_recorder import NAME, RecordingVfs

from hotset.adapter.ssd.files import OsFiles

SECTOR = 512


@dataclass(eq=False)
class Step:
    """One thing that was done; ``end`` is the number of steps begun when it ended."""

    kind: str
    path: str = ""
    offset: int = 0
    data: bytes = b""
    numbers: tuple = ()
    end: int | None = None
    begin: int = 0


@dataclass
class Recorder:
    """The steps of a run, in the order of their beginnings."""

    steps: list = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    new_journals: set = field(default_factory=set)

    @contextlib.contextmanager
    def around(self, step):
        with self.lock:
            step.begin = len(self.steps)
            self.steps.append(step)
        yield
        with self.lock:
            step.end = len(self.steps)

    def mark(self, kind, numbers):
        with self.around(Step(kind, numbers=tuple(numbers))):
            pass

    def write(self, path, offset, data):
        return self.around(Step("write", path, offset, bytes(data)))

    def truncate(self, path, size):
        return self.around(Step("truncate", path, size))

    @contextlib.contextmanager
    def sync(self, path):
        with self.around(Step("sync", path)):
            yield
        if path in self.new_journals:
            # SQLite syncs the folder with the first sync of a new journal.
            self.new_journals.discard(path)
            self.sync_folder(os.path.dirname(path))

    def sync_folder(self, path):
        with self.around(Step("sync folder", path)):
            pass

    def created(self, path, folder_is_synced):
        with self.around(Step("create", path)):
            pass
        if folder_is_synced:
            self.new_journals.add(path)

    def removed(self, path, is_synced):
        with self.around(Step("remove", path)):
            pass
        if is_synced:
            self.sync_folder(os.path.dirname(path))


class RecordingFiles(OsFiles):
    """The operating system, all of it taken down."""

    def __init__(self):
        self.log = Recorder()
        self.vfs = RecordingVfs(self.log)

    def open(self, folder, name, create=False, direct=False):
        path = os.path.join(_path_of(folder), name)
        is_new = not os.path.exists(path)
        fd = super().open(folder, name, create, direct)
        if is_new and create:
            self.log.created(path, False)
        return fd

    def allocate(self, fd, size):
        with self.log.truncate(_path_of(fd), size):
            super().allocate(fd, size)

    def truncate(self, fd, size):
        with self.log.truncate(_path_of(fd), size):
            super().truncate(fd, size)

    def write(self, fd, page, offset):
        with self.log.write(_path_of(fd), offset, page):
            return super().write(fd, page, offset)

    def sync_data(self, fd):
        with self.log.sync(_path_of(fd)):
            super().sync_data(fd)

    def sync(self, fd):
        path = _path_of(fd)
        if os.path.isdir(path):
            with self.log.around(Step("sync folder", path)):
                super().sync(fd)
        else:
            with self.log.sync(path):
                super().sync(fd)

    def unlink(self, folder, name):
        super().unlink(folder, name)
        self.log.removed(os.path.join(_path_of(folder), name), False)

    def rename(self, folder, old, new):
        path = _path_of(folder)
        data = os.path.join(path, new).encode()
        with self.log.around(Step("rename", os.path.join(path, old), data=data)):
            super().rename(folder, old, new)

    def index_uri(self, path):
        return super().index_uri(path) + f"&vfs={NAME.decode()}"


def _path_of(fd):
    return os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")


class _File:
    """A file's durable bytes, and what was done since."""

    def __init__(self):
        self.durable = bytearray()
        self.since = []


class Disk:
    """The disk after the steps so far."""

    def __init__(self, root):
        self.root = str(root)
        self.now = {}  # names as the running process sees them
        self.durable = {}  # names that a power loss leaves for sure
        self.since = []  # (step, name, file or None) not yet synced
        self.done = set()

    def apply(self, step):
        """Take the next step."""
        kind, path = step.kind, step.path
        if kind in ("write", "truncate"):
            self.now[path].since.append(step)
        elif kind == "create":
            self.now[path] = _File()
            self.since.append((step, {path: self.now[path]}))
        elif kind == "remove":
            self.now.pop(path, None)
            self.since.append((step, {path: None}))
        elif kind == "rename":
            target = step.data.decode()
            self.now[target] = self.now.pop(path)
            self.since.append((step, {path: None, target: self.now[target]}))
        elif kind == "done":
            self.done.update(step.numbers)
        elif kind == "gone":
            self.done.difference_update(step.numbers)

    def synced(self, step):
        """Take the end of a sync."""
        if step.kind == "sync folder":
            kept = []
            for change, names in self.since:
                here = os.path.dirname(change.path) == step.path
                if here and _ended(change, step):
                    self._rename(self.durable, names)
                else:
                    kept.append((change, names))
            self.since = kept
        elif step.path in self.now:
            file = self.now[step.path]
            covered = [one for one in file.since if _ended(one, step)]
            for one in covered:
                _do(file.durable, one)
            file.since = [one for one in file.since if one not in covered]

    def _rename(self, into, names):
        for name, file in names.items():
            if file is None:
                into.pop(name, None)
            else:
                into[name] = file

    def lay_out(self, target, chance):
        """Write one state that a power loss may leave to a folder."""
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        names = dict(self.durable)
        for _, changed in self.since:
            if chance.random() < share:
                self._rename(names, changed)
        for name, file in names.items():
            content = bytearray(file.durable)
            for step in file.since:
                _do_in_part(content, step, chance, share)
            path = os.path.join(target, os.path.relpath(name, self.root))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(content)


def _ended(step, sync):
    return step.end is not None and step.end <= sync.begin


def _do(content, step):
    if step.kind == "truncate":
        size = step.offset
        del content[size:]
        content.extend(bytes(size - len(content)))
        return
    end = step.offset + len(step.data)
    content.extend(bytes(max(0, end - len(content))))
    content[step.offset : end] = step.data


def _do_in_part(content, step, chance, share):
    if step.kind == "truncate":
        if chance.random() < share:
            _do(content, step)
        return
    if chance.random() < 0.5:  # whole or not at all
        if chance.random() < share:
            _do(content, step)
        return
    for at in range(0, len(step.data), SECTOR):
        if chance.random() < share:
            part = step.data[at : at + SECTOR]
            _do(content, Step("write", offset=step.offset + at, data=part))


def moments(steps):
    """Yield what happens, in order: a step's beginning, or the end of a sync."""
    ends = {}
    for step in steps:
        if step.kind.startswith("sync") and step.end is not None:
            ends.setdefault(step.end, []).append(step)
    for number, step in enumerate(steps):
        for sync in ends.get(number, ()):
            yield "synced", sync
        yield "step", step
