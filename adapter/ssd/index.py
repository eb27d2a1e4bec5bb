"""The durable copy of the index: one row for each stored block, in SQLite.

A row is only a claim: whatever it says, a load compares key, namespace and generation
with the slot's own header. So an index that is damaged costs hits, never right bytes.

The database is in WAL mode and locked for this process alone, which also spares the
shared-memory file. All commits that put or free slots are durable when they return
(``synchronous=FULL``). Database and WAL have bounds that follow from the number of
slots and the cap, see `Bounds`.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.slot import MAX_GENERATION, MAX_KEY_BYTES

NAME = "index.db"
FILES = (NAME, f"{NAME}-journal", f"{NAME}-shm", f"{NAME}-wal")
_PAGE = 4096
_FRAME = _PAGE + 24
_ROW_BYTES = MAX_KEY_BYTES + 64
_FEWEST_PAGES, _MOST_PAGES = 16, 1024  # of the WAL before it is checkpointed
_WAL_SHARE = 256  # of the cap is one WAL, between these
_OTHER_PAGES = 8  # of a transaction: roots, free lists, meta
_MOST = 1 << 62
_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE slots (slot INTEGER PRIMARY KEY, key BLOB NOT NULL, "
    "generation INTEGER NOT NULL, depth INTEGER NOT NULL, used INTEGER NOT NULL, "
    "uses INTEGER NOT NULL, stored_s REAL NOT NULL, used_s REAL NOT NULL)",
)

TABLES = frozenset(_SCHEMA)
_DELETE = "DELETE FROM slots WHERE slot = ? AND generation = ?"
_INSERT = "INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_USE = (
    "UPDATE slots SET used = ?, used_s = ?, uses = uses + 1 "
    "WHERE slot = ? AND generation = ?"
)


Gone = tuple[int, int]  # slot, generation


class Row(NamedTuple):
    """One stored block.

    ``used`` is the number of its last use, ``uses`` how many there were; ``stored_s``
    and ``used_s`` are seconds since the epoch.
    """

    slot: int
    key: bytes
    generation: int
    depth: int
    used: int
    uses: int
    stored_s: float
    used_s: float


class IndexDamaged(Exception):
    """The database cannot be relied on and is to be made anew."""


class Bounds(NamedTuple):
    """What an index may take.

    Parameters
    ----------
    num_rows : int
        Rows at the most.
    database_pages, wal_pages : int
        Pages of the database at the most, and of the WAL before it is checkpointed.
    """

    num_rows: int
    database_pages: int
    wal_pages: int

    @classmethod
    def of(cls, num_slots: int, cap_bytes: int) -> Bounds:
        """Return the bounds for so many slots under a cap."""
        # Twice the rows: pages of a B-tree are at least half full.
        database = 2 * num_slots * _ROW_BYTES // _PAGE + _FEWEST_PAGES
        wal = min(max(cap_bytes // _WAL_SHARE // _PAGE, _FEWEST_PAGES), _MOST_PAGES)
        return cls(num_slots, database, wal)

    @property
    def rows_a_commit(self) -> int:
        """Rows that one transaction changes at the most."""
        return self.wal_pages // 2

    @property
    def wal_bytes(self) -> int:
        """Bytes of the WAL at the most."""
        # What a transaction changes comes on top of a WAL that is just not full.
        return (self.wal_pages + 3 * self.rows_a_commit + _OTHER_PAGES) * _FRAME

    @property
    def total_bytes(self) -> int:
        """Bytes of database and WAL at the most."""
        return self.database_pages * _PAGE + self.wal_bytes


class Index:
    """An open index; one thread at a time may call it.

    Parameters
    ----------
    files : OsFiles
        The operating system.
    folder : Path
        The namespace's folder.
    folder_fd : int
        The same, open.
    bounds : Bounds
        What it may take.

    Raises
    ------
    IndexDamaged
        If what is there cannot be read or is something else.
    OSError
        If there can be none.
    """

    def __init__(
        self, files: OsFiles, folder: Path, folder_fd: int, bounds: Bounds
    ) -> None:
        self.rows_a_commit = bounds.rows_a_commit
        self._max_wal_bytes = bounds.wal_bytes
        self._files = files
        self._folder_fd = folder_fd
        self._remove_strange_names()
        is_new = NAME not in os.listdir(folder_fd)
        if is_new:
            remove_index(files, folder_fd)  # a WAL of another database
            fd = files.open(folder_fd, NAME, create=True)
            files.close(fd)
            files.sync(folder_fd)
        try:
            self._db = sqlite3.connect(
                files.index_uri(folder / NAME),
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
                cached_statements=32,
            )
            self._open(bounds)
        except sqlite3.DatabaseError as error:
            self.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise OSError(errno.EBUSY, "another process uses the index") from error
            raise IndexDamaged(str(error)) from error
        except IndexDamaged:
            self.close()
            raise

    def rows(self) -> Iterator[Row]:
        """Yield the rows that have the form of one, in no order.

        Raises
        ------
        IndexDamaged
            If they cannot be read to the end.
        """
        try:
            for found in self._db.execute("SELECT * FROM slots"):
                if has_form(found):
                    yield Row(*found)
        except (sqlite3.DatabaseError, ValueError, OverflowError) as error:
            raise IndexDamaged(str(error)) from error

    def meta(self, name: str) -> float | None:
        """Return a number that was kept by name; None where there is no such."""
        try:
            found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,))
            row = found.fetchone()
        except (sqlite3.DatabaseError, ValueError, OverflowError):
            return None
        if row is None or not isinstance(row[0], (int, float)):
            return None
        return float(row[0]) if math.isfinite(row[0]) else None

    def commit(
        self,
        deletes: Sequence[tuple[int, int]] = (),
        inserts: Sequence[Row] = (),
        uses: Sequence[tuple[int, float, int, int]] = (),
        meta: Iterable[tuple[str, float]] = (),
    ) -> None:
        """Commit changes, durably where slots come or go.

        Parameters
        ----------
        deletes : sequence of (slot, generation)
            Rows that go; those that are not there do not matter.
        inserts : sequence of Row
            Rows that come.
        uses : sequence of (used, used_s, slot, generation)
            One more use of each.
        meta : iterable of (name, value)
            Numbers to keep.

        Raises
        ------
        sqlite3.Error
            If a part could not be committed; parts before it are.
        """
        step = self.rows_a_commit
        if len(deletes) + len(inserts) <= step:
            changes = [(_DELETE, deletes), (_INSERT, inserts)]
            if deletes or inserts:
                self._change(changes, meta)
                meta = ()
        else:
            for i in range(0, len(deletes), step):
                self._change([(_DELETE, deletes[i : i + step])])
            for i in range(0, len(inserts), step):
                self._change([(_INSERT, inserts[i : i + step])], meta)
                meta = ()
        if not uses and not meta:
            return
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            for i in range(0, max(1, len(uses)), step):
                self._change([(_USE, uses[i : i + step])], meta)
                meta = ()
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def clear(self) -> None:
        """Delete all rows durably."""
        self._change([("DELETE FROM slots WHERE slot >= ?", [(-_MOST,)])])

    def close(self) -> None:
        """Let the database go."""
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._db.close()

    # Inside

    def _change(
        self,
        changes: Sequence[tuple[str, Sequence[Sequence[object]]]],
        meta: Iterable[tuple[str, float]] = (),
    ) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in changes:
                self._db.executemany(statement, rows)
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise
        self._bound_wal()

    def _bound_wal(self) -> None:
        """Raise where the WAL has outgrown its bound since it cannot be emptied."""
        name = f"{NAME}-wal"
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(name, dir_fd=self._folder_fd).st_size
            if size > self._max_wal_bytes:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                size = os.stat(name, dir_fd=self._folder_fd).st_size
                if size > self._max_wal_bytes:
                    raise sqlite3.OperationalError(f"the WAL has {size} bytes")

    def _open(self, bounds: Bounds) -> None:
        execute = self._db.execute
        execute("PRAGMA trusted_schema = OFF")
        execute("PRAGMA cell_size_check = ON")
        execute("PRAGMA mmap_size = 0")
        execute("PRAGMA temp_store = MEMORY")
        execute("PRAGMA cache_spill = OFF")
        execute(f"PRAGMA page_size = {_PAGE}")
        execute("PRAGMA locking_mode = EXCLUSIVE")
        if execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise IndexDamaged("it has no WAL")
        execute("PRAGMA synchronous = FULL")
        execute(f"PRAGMA max_page_count = {bounds.database_pages}")
        execute(f"PRAGMA wal_autocheckpoint = {bounds.wal_pages}")
        execute(f"PRAGMA journal_size_limit = {bounds.wal_bytes}")
        made = tables_of(self._db)
        if not made:
            execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                execute(statement)
            execute("COMMIT")
        elif made != TABLES:
            raise IndexDamaged("its tables are not ours")
        if execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise IndexDamaged("it fails SQLite's check")
        execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _remove_strange_names(self) -> None:
        """Remove links where the database's files should be; they are not followed."""
        for name in os.listdir(self._folder_fd):
            if name in FILES:
                try:
                    fd = self._files.open(self._folder_fd, name)
                except OSError:
                    self._files.unlink(self._folder_fd, name)
                else:
                    self._files.close(fd)


def remove_index(files: OsFiles, folder_fd: int) -> None:
    """Remove a database with what belongs to it, the database first."""
    there = os.listdir(folder_fd)
    for name in FILES:
        if name in there:
            files.unlink(folder_fd, name)


def tables_of(database: sqlite3.Connection) -> frozenset[str]:
    """Return the statements that made a database's tables; `TABLES` are ours."""
    found = database.execute("SELECT sql FROM sqlite_schema")
    return frozenset(text for (text,) in found if text)


def has_form(found: Sequence[object]) -> bool:
    """Return whether what a database gave has the form of a `Row`."""
    if len(found) != len(Row._fields):
        return False
    slot, key, *numbers = found
    generation, depth, used, uses, stored_s, used_s = numbers
    whole = (slot, generation, depth, used, uses)
    return (
        all(type(number) is int and 0 <= number < _MOST for number in whole)
        and type(key) is bytes
        and 0 < len(key) <= MAX_KEY_BYTES
        and isinstance(depth, int)
        and isinstance(generation, int)
        and depth < 1 << 31
        and generation < MAX_GENERATION
        and all(
            isinstance(at, float) and abs(at) < float(_MOST)
            for at in (stored_s, used_s)
        )
    )
