"""What happens before a namespace is served: checks, trimming, counting from the disk.

The index is checked, and rows whose slot is not what they say are dropped; after an
end that was not clean that takes a look at every slot's header. An index that is
damaged is made anew from the headers. Usage is counted from the disk, and brought under
cap and floor: namespaces that nobody serves go first, the one used longest ago before
the others, then files of this one, the one whose newest use is oldest first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.book import usable
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.files import OsFiles, try_lock
from hotset.adapter.ssd.headers import confirmed, headers
from hotset.adapter.ssd.index import (
    Bounds,
    Index,
    IndexDamaged,
    Row,
    remove_index,
)
from hotset.adapter.ssd.namespace import FORMAT_VERSION, Namespace
from hotset.adapter.ssd.quota import (
    ABOUT,
    LOCK,
    About,
    Quota,
    folder_name,
    is_ours,
    read_about,
    write_about,
)
from hotset.adapter.ssd.slot import PAGE, SlotForm
from hotset.adapter.ssd.slot_files import SlotFiles, map_bytes

_LOG = logging.getLogger(__name__)

CLEAN = "clean"
_FILES = 32  # about so many for the whole cap
_MOST_FILES = 256  # each is open all the time; a cap that grows much begins anew
_MOST_FILE_BYTES = 4 << 30


@dataclass
class Started:
    """A namespace that is locked, checked and ready.

    Parameters
    ----------
    quota : Quota
        Cap and floor.
    folder, lock : int
        The open folder and its lock.
    name : str
        The folder's name.
    about : About
        What the folder says of itself.
    form : SlotForm
        The form of its slots.
    slots : SlotFiles
        Its files.
    index : Index
        Its index.
    rows : list of Row
        What is stored, the one used longest ago first, tails before heads.
    max_files, max_blocks : int
        Files, and blocks in them, at the most.
    """

    quota: Quota
    folder: int
    lock: int
    name: str
    about: About
    form: SlotForm
    slots: SlotFiles
    index: Index
    rows: list[Row]
    max_files: int
    max_blocks: int

    def release(self, files: OsFiles, is_useless: bool) -> None:
        """Let everything go; blocks that are of no use to anybody are removed."""
        self.index.close()
        self.slots.close()
        files.close(self.lock)
        files.close(self.folder)
        try:
            if is_useless:
                with self.quota.held():
                    self.quota.remove(self.name)
        finally:
            self.quota.close()


def start(
    config: SsdConfig, namespace: Namespace, payload_bytes: int, files: OsFiles
) -> Started:
    """Lock and check a namespace.

    Raises
    ------
    AdapterError
        One line that says why it cannot be served.
    """
    namespace.check(config.ephemeral)
    quota = Quota(files, config.path, config.max_bytes, config.min_free_bytes)
    undo: list[Callable[[], None]] = []
    try:
        with quota.held():
            try:
                return _start(config, namespace, payload_bytes, files, quota, undo)
            except BaseException:
                _leave(quota, undo)
                raise
    except (OSError, sqlite3.Error, IndexDamaged) as error:
        quota.close()
        raise AdapterError(f"SSD tier: {config.path}: {error}") from error
    except AdapterError:
        quota.close()
        raise


def _leave(quota: Quota, undo: list[Callable[[], None]]) -> None:
    """Close what was opened, and remove a folder in which there is nothing yet."""
    for step in reversed(undo):
        with contextlib.suppress(OSError):
            step()
    for folder in quota.folders():
        if folder.about is None:
            quota.remove(folder.name)


def _start(
    config: SsdConfig,
    namespace: Namespace,
    payload_bytes: int,
    files: OsFiles,
    quota: Quota,
    undo: list[Callable[[], None]],
) -> Started:
    digest = namespace.digest(payload_bytes)
    name = folder_name(digest)
    path = Path(config.path) / name
    form = SlotForm(digest, payload_bytes)
    files.make_folder(str(path))
    folder = files.open_folder(str(path))
    undo.append(lambda: files.close(folder))
    lock = files.open(folder, LOCK, create=True)
    undo.append(lambda: files.close(lock))
    if not try_lock(lock):
        raise AdapterError(
            f"SSD tier: {path} is served by another process: give each its own path"
        )
    os.utime(LOCK, dir_fd=folder)
    bounds = Bounds.of(config.max_bytes // form.slot_bytes, config.max_bytes)
    fresh = _about(config, namespace, form, bounds.total_bytes)
    found = read_about(files, folder)
    about = fresh
    if found is not None and _goes_on(found, fresh, config.max_bytes):
        about = replace(fresh, slots_per_file=found.slots_per_file)
    else:
        _wipe(files, folder)
    slots, max_files = _open_slots(files, folder, form, about, quota, name, undo)
    if max_files < 1 and about.slots_per_file > fresh.slots_per_file:
        # Its files were made for a larger cap.
        slots.close()
        _LOG.warning("hotset: %s: the SSD tier begins anew, in smaller files", path)
        _wipe(files, folder)
        about = fresh
        slots, max_files = _open_slots(files, folder, form, about, quota, name, undo)
    if max_files < 1:
        raise AdapterError(
            f"SSD tier: {config.path}: no room for a file of {slots.file_bytes} bytes "
            f"under max_bytes={config.max_bytes} and "
            f"min_free_bytes={config.min_free_bytes}, with the other namespaces there"
        )
    if found != about:
        write_about(files, folder, about)
    index, rows = _open_index(files, path, folder, bounds, slots, form, config)
    undo.append(index.close)
    rows, stale = _settle(rows, slots)
    _trim(slots, rows, max_files)
    quota.make_room(name, 0)
    stale += [row for row in rows if not slots.holds(row.slot)]
    rows = [row for row in rows if slots.holds(row.slot)]
    max_blocks = usable(max_files * slots.slots_per_file)
    excess = max(0, len(rows) - max_blocks)
    stale, rows = stale + rows[:excess], rows[excess:]
    index.commit([(row.slot, row.generation) for row in stale], meta=[(CLEAN, 0.0)])
    return Started(
        quota,
        folder,
        lock,
        name,
        about,
        form,
        slots,
        index,
        rows,
        max_files,
        max_blocks,
    )


def _about(
    config: SsdConfig, namespace: Namespace, form: SlotForm, index: int
) -> About:
    for_slots = max(0, config.max_bytes - index)
    size = min(for_slots // _FILES, _MOST_FILE_BYTES)
    num_slots = max(1, size // form.slot_bytes)
    one = form.slot_bytes
    while num_slots > 1 and num_slots * one + map_bytes(num_slots, one) > size:
        num_slots -= 1
    return About(
        format=FORMAT_VERSION,
        digest=form.digest.hex(),
        payload_bytes=form.payload_bytes,
        slot_bytes=form.slot_bytes,
        slots_per_file=num_slots,
        index_bytes=index,
        ephemeral=config.ephemeral,
        fields=dict(namespace.fields),
    )


def _goes_on(found: About, wanted: About, max_bytes: int) -> bool:
    """Return whether what is there is of use to this process."""
    same = ("format", "digest", "payload_bytes", "slot_bytes")
    is_same = all(getattr(found, item) == getattr(wanted, item) for item in same)
    file_bytes = found.slots_per_file * found.slot_bytes
    if file_bytes > 4 * _MOST_FILE_BYTES:
        return False
    if found.slots_per_file < wanted.slots_per_file and (
        max_bytes // file_bytes > _MOST_FILES
    ):
        return False
    return is_same and not found.ephemeral and not wanted.ephemeral


def _open_slots(
    files: OsFiles,
    folder: int,
    form: SlotForm,
    about: About,
    quota: Quota,
    name: str,
    undo: list[Callable[[], None]],
) -> tuple[SlotFiles, int]:
    """Return the files that are there, and how many there may be."""
    slots = SlotFiles(files, folder, form.slot_bytes, about.slots_per_file)
    undo.append(slots.close)
    slots.open_all()
    return slots, _max_files(quota, name, slots, about)


def _wipe(files: OsFiles, folder: int) -> None:
    for item in os.listdir(folder):
        if is_ours(item) and item not in (LOCK, ABOUT):
            files.unlink(folder, item)


def _max_files(quota: Quota, name: str, slots: SlotFiles, about: About) -> int:
    """Return how many files cap and floor allow, idle namespaces removed."""
    # Folder and page for trials; what the folder says is there twice for a moment.
    told = -(-len(about.to_bytes()) // PAGE) * PAGE
    other, index = 2 * PAGE + 2 * told, about.index_bytes
    there = quota.folders()
    (own,) = [folder for folder in there if folder.name == name]
    own_files = own.slot_bytes
    # The same whether its small files and its index are there yet or not.
    own_other = max(own.used_bytes - own_files - own.index_bytes, other)
    own_other += max(index, own.index_bytes)
    others = quota.served_bytes(name)
    rest = [folder for folder in there if folder.name != name]
    to_come = own_other - (own.used_bytes - own_files)
    to_come += sum(folder.reserved_bytes for folder in rest)
    idle = sum(f.used_bytes + f.reserved_bytes for f in rest) - others
    cap_room = quota.max_bytes - others - own_other - quota.top_bytes()
    free_room = quota.free_bytes() + own_files + idle - to_come
    return max(0, min(cap_room, free_room) // slots.claim_bytes)


def _open_index(
    files: OsFiles,
    path: Path,
    folder: int,
    bounds: Bounds,
    slots: SlotFiles,
    form: SlotForm,
    config: SsdConfig,
) -> tuple[Index, list[Row]]:
    try:
        index = Index(files, path, folder, bounds)
    except IndexDamaged as error:
        _LOG.warning("hotset: %s: the index is made anew: %s", path, error)
        return _anew(files, path, folder, bounds, slots, form, config)
    try:
        if index.meta(CLEAN) is None and slots.numbers():
            raise IndexDamaged("no start has finished it")  # or somebody deleted it
        rows = list(index.rows())
        if len(rows) > bounds.num_rows:
            raise IndexDamaged(f"{len(rows)} rows of {bounds.num_rows} slots")
        if not index.meta(CLEAN):
            rows = confirmed(rows, slots, form, config.threads)
    except Exception as error:
        index.close()
        _LOG.warning("hotset: %s: the index is made anew: %r", path, error)
        return _anew(files, path, folder, bounds, slots, form, config)
    return index, rows


def _anew(
    files: OsFiles,
    path: Path,
    folder: int,
    bounds: Bounds,
    slots: SlotFiles,
    form: SlotForm,
    config: SsdConfig,
) -> tuple[Index, list[Row]]:
    """Make an index from the slots' headers."""
    remove_index(files, folder)
    index = Index(files, path, folder, bounds)
    every = (s for number in slots.numbers() for s in slots.slots_of(number))
    rows = [
        Row(slot, found[0], found[1], 0, found[1], 1, 0.0, 0.0)
        for slot, found in headers(every, slots, form, config.threads)
        if found is not None and found[2] == slot
    ]
    rows, _ = _settle(rows, slots)
    try:
        index.commit((), rows)
    except sqlite3.Error:
        index.close()
        raise
    return index, rows


def _settle(rows: list[Row], slots: SlotFiles) -> tuple[list[Row], list[Row]]:
    """Return the rows that count, least recent first, and those that do not.

    Of rows of one key the newest counts.
    """
    newest: dict[bytes, Row] = {}
    stale = []
    for row in rows:
        if not row.key or not slots.holds(row.slot):
            stale.append(row)
            continue
        other = newest.get(row.key)
        if other is None or other.generation < row.generation:
            newest[row.key] = row
            row = other or row
        if row is not newest[row.key]:
            stale.append(row)
    kept = sorted(newest.values(), key=lambda row: (row.used, -row.depth, row.slot))
    return kept, stale


def _trim(slots: SlotFiles, rows: list[Row], max_files: int) -> None:
    """Remove files above a number, the one whose newest use is oldest first."""
    last_use = dict.fromkeys(slots.numbers(), -1)
    for row in rows:
        number = row.slot // slots.slots_per_file
        last_use[number] = max(last_use[number], row.used)
    by_age = sorted(last_use, key=lambda number: (last_use[number], number))
    for number in by_age[: max(0, len(by_age) - max_files)]:
        slots.remove(number)
