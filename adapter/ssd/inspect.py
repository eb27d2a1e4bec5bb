"""What lies under a path of the SSD tier, without serving it."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.files import OsFiles, try_lock
from hotset.adapter.ssd.index import NAME, TABLES, Row, has_form, tables_of
from hotset.adapter.ssd.quota import LOCK, Folder, Quota
from hotset.adapter.ssd.slot import SlotForm
from hotset.adapter.ssd.slot_files import SlotFiles

_AGES = (("1 min", 60.0), ("1 h", 3600.0), ("1 day", 86400.0), ("1 week", 604800.0))
_USES = (1, 2, 4, 8, 16)


@dataclass
class Seen:
    """One namespace.

    Parameters
    ----------
    folder : Folder
        It on the disk.
    is_served : bool
        Whether a process serves it now; then its index is not read.
    fault : str
        What keeps its index from being read; empty if nothing.
    rows : list of Row
        What is stored.
    num_slots : int
        Slots of its files.
    """

    folder: Folder
    is_served: bool
    fault: str = ""
    rows: list[Row] = field(default_factory=list)
    num_slots: int = 0

    def ages(self, wall_s: float) -> dict[str, int]:
        """Return how many blocks were used last in which time before ``wall_s``."""
        found: Counter[str] = Counter()
        for row in self.rows:
            ago_s = wall_s - row.used_s
            name = next((name for name, end_s in _AGES if ago_s < end_s), "older")
            found[name] += 1
        names = [name for name, _ in _AGES] + ["older"]
        return {name: found[name] for name in names}

    def uses(self) -> dict[str, int]:
        """Return how many blocks were used how often, their storing included."""
        edges = [*_USES, 1 << 62]
        found = {}
        for low, high in itertools.pairwise(edges):
            last = high - 1
            name = str(low) if low == last else f"{low}-{last}"
            name = name if high < 1 << 62 else f"{low} or more"
            found[name] = sum(low <= row.uses < high for row in self.rows)
        return found


@dataclass
class Checked:
    """A full pass over a namespace's blocks.

    ``faults`` counts by why a slot does not hold what the index says.
    """

    seen: Seen
    num_right: int = 0
    faults: Counter[str] = field(default_factory=Counter)


class Inspection:
    """A path, open for looking at.

    Parameters
    ----------
    path : str
        The folder.

    Raises
    ------
    AdapterError
        If there is none of ours.
    """

    def __init__(self, path: str) -> None:
        self._files = OsFiles()
        self.path = path
        if not os.path.isdir(path):
            raise AdapterError(f"{path}: there is no such folder")
        if not os.path.lexists(os.path.join(path, "hotset.lock")):
            raise AdapterError(f"{path}: no SSD tier of hotset was ever here")
        self.quota = Quota(self._files, path, 0, 0)

    def close(self) -> None:
        """Let the path go."""
        self.quota.close()

    def look(self) -> list[Seen]:
        """Return the namespaces there, by name."""
        with self.quota.held():
            return [self._seen(folder) for folder in self.quota.folders()]

    def verify(self) -> Iterator[Checked]:
        """Read every block that an index names and check all of it."""
        for folder in self.quota.folders():
            try:
                with self._locked(folder.name) as fd:
                    if fd is None:
                        checked = Checked(Seen(folder, is_served=True))
                    else:
                        checked = self._verify(folder, fd)
            except OSError as error:
                checked = Checked(Seen(folder, is_served=False, fault=str(error)))
            yield checked

    def clear(self) -> tuple[list[str], list[str]]:
        """Remove the namespaces that nobody serves; return those and the others.

        Files that are not hotset's stay where they are.
        """
        removed: list[str] = []
        kept: list[str] = []
        with self.quota.held():
            for folder in self.quota.folders():
                gone = self.quota.remove(folder.name) or not os.path.lexists(
                    os.path.join(self.path, folder.name)
                )
                (removed if gone else kept).append(folder.name)
        return removed, kept

    # Inside

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[int | None]:
        """Hold a namespace's lock; None where another process does."""
        folder = self._files.open_folder(os.path.join(self.path, name))
        try:
            lock = self._files.open(folder, LOCK, create=True)
            try:
                yield folder if try_lock(lock) else None
            finally:
                self._files.close(lock)
        finally:
            self._files.close(folder)

    def _seen(self, folder: Folder) -> Seen:
        try:
            return self._look(folder)
        except OSError as error:
            return Seen(folder, is_served=False, fault=str(error))

    def _look(self, folder: Folder) -> Seen:
        with self._locked(folder.name) as fd:
            if fd is None:
                return Seen(folder, is_served=True)
            seen = Seen(folder, is_served=False)
            slots, _ = self._slots(folder, fd)
            if slots is None:
                seen.fault = "about.json does not say what it is"
                return seen
            seen.num_slots = len(slots.numbers()) * slots.slots_per_file
            slots.close()
            self._read_rows(seen)
            return seen

    def _slots(
        self, folder: Folder, fd: int
    ) -> tuple[SlotFiles | None, SlotForm | None]:
        about = folder.about
        if about is None:
            return None, None
        try:
            form = SlotForm(bytes.fromhex(about.digest), about.payload_bytes)
        except (ValueError, AssertionError):
            return None, None
        if form.slot_bytes != about.slot_bytes:
            return None, None
        slots = SlotFiles(self._files, fd, form.slot_bytes, about.slots_per_file)
        slots.open_all(may_remove=False)
        return slots, form

    def _read_rows(self, seen: Seen) -> None:
        """Read an index as it is; a journal beside it is taken up by SQLite."""
        path = Path(self.path) / seen.folder.name / NAME
        if path.is_symlink() or not path.is_file():
            seen.fault = "it has no index"
            return
        try:
            database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
            try:
                database.execute("PRAGMA trusted_schema = OFF")
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
                if tables_of(database) != TABLES:
                    seen.fault = "its index has other tables"
                    return
                found = database.execute("SELECT * FROM slots").fetchall()
            finally:
                database.close()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            seen.fault = f"its index cannot be read: {error}"
            return
        seen.rows = [Row(*row) for row in found if has_form(row)]

    def _verify(self, folder: Folder, fd: int) -> Checked:
        seen = Seen(folder, is_served=False)
        checked = Checked(seen)
        slots, form = self._slots(folder, fd)
        if slots is None or form is None:
            seen.fault = "about.json does not say what it is"
            return checked
        self._read_rows(seen)
        try:
            with mmap.mmap(-1, form.slot_bytes) as memory, memoryview(memory) as page:
                for row in sorted(seen.rows):
                    try:
                        slots.read(row.slot, page)
                    except OSError:
                        checked.faults["unreadable"] += 1
                        continue
                    fault = form.fault(page, row.key, row.generation, row.slot)
                    if fault:
                        checked.faults[fault] += 1
                    else:
                        checked.num_right += 1
        finally:
            slots.close()
        return checked
