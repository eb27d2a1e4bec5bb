"""Traces as columns on disk, so that the second read of a file parses nothing.

An entry is a folder of .npy files and a description. Its name is a digest of all
that the columns depend on: the bytes of the trace's file, the format and its
options, and the sources of this package. Columns are mapped into memory: processes
that read the same trace share one copy.

Entries are written whole or not at all; one that is damaged is read from the
trace's file again. The folder is HOTSET_TRACE_CACHE, or hotset/traces in the
user's cache folder; HOTSET_TRACE_CACHE=off turns it off. The entries unused for
the longest time go when all of them take more than 16 GiB.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.resources
import json
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.model import Provenance, Trace
from hotset.traces.options import ReadOptions

MAX_BYTES = 16 << 30

_DESCRIPTION = "trace.json"
_CHECKED_BYTES = 1 << 24
_MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError)


class TraceCache:
    """Entries in one folder.

    Parameters
    ----------
    folder : Path
        Made if it is missing.
    max_bytes : int
        Bound on all entries together.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def load(self, key: str, path: str) -> Trace | None:
        """Trace of an entry.

        Parameters
        ----------
        key : str
            From `cache_key`.
        path : str
            The trace as the user names it now.

        Returns
        -------
        Trace or None
            Its columns are mapped, not read; None if there is no such entry, or
            it is damaged.
        """
        entry = self._folder / key
        try:
            described = json.loads((entry / _DESCRIPTION).read_bytes())
            fields: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in described["fields"].items()
            }
            for name, crc in described["columns"].items():
                fields[name] = _mapped(entry / f"{name}.npy", crc)
            provenance = _provenance(described["provenance"], path)
            trace = Trace(provenance=provenance, **fields)
        except _MALFORMED:
            # A damaged entry would keep a whole one from taking its place.
            shutil.rmtree(entry, ignore_errors=True)
            return None
        with contextlib.suppress(OSError):
            os.utime(entry)
        return trace

    def store(self, key: str, trace: Trace) -> None:
        """Write an entry; where that fails, nothing is cached and nothing said.

        Parameters
        ----------
        key : str
            From `cache_key`.
        trace : Trace
            What was read.
        """
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
            try:
                size = _write(made, trace)
                if size <= self._max_bytes:
                    self._make_room(size)
                    with contextlib.suppress(OSError):  # another process was first
                        made.rename(self._folder / key)
            finally:
                shutil.rmtree(made, ignore_errors=True)

    def _make_room(self, size: int) -> None:
        """Remove entries unused for the longest time, until there is room."""
        entries = []
        for entry in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if not entry.name.startswith("."):
                    taken = sum(each.stat().st_size for each in entry.iterdir())
                    entries.append((entry.stat().st_mtime_ns, entry.name, taken))
        total = size + sum(taken for *_, taken in entries)
        for _, name, taken in sorted(entries):
            if total <= self._max_bytes:
                return
            shutil.rmtree(self._folder / name, ignore_errors=True)
            total -= taken


def cache_key(sha256: str, format: str, options: ReadOptions) -> str:
    """Name of an entry.

    Parameters
    ----------
    sha256 : str
        Digest of the trace's file.
    format : str
        Its format.
    options : ReadOptions
        As given; of a tokenizer its file's bytes count.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    parts: list[Any] = [sha256, format, _sources(), sorted(options.given())]
    if options.tokenizer is not None:
        with contextlib.suppress(OSError, ValueError):
            content = Path(options.tokenizer).read_bytes()
            parts.append(hashlib.sha256(content).hexdigest())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@functools.cache
def _sources() -> str:
    """Digest of this package's sources: another reader may read another trace."""
    total = hashlib.sha256()
    folder = importlib.resources.files("hotset.traces")
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".py"):
            total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()


def default_cache() -> TraceCache | None:
    """Cache that reading uses.

    Returns
    -------
    TraceCache or None
        None if it is off, or no home folder is known.
    """
    stated = os.environ.get("HOTSET_TRACE_CACHE")
    if stated:
        return None if stated == "off" else TraceCache(Path(stated))
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:
        return None
    return TraceCache(home / "hotset" / "traces")


def _write(folder: Path, trace: Trace) -> int:
    """Write the files of an entry; return their size in bytes."""
    columns: dict[str, int] = {}
    fields: dict[str, Any] = {}
    for each in dataclasses.fields(trace):
        value = getattr(trace, each.name)
        if isinstance(value, np.ndarray):
            np.save(folder / f"{each.name}.npy", value)
            columns[each.name] = _checksum(value)
        elif each.name != "provenance" and value is not None:
            fields[each.name] = value
    description = {
        "columns": columns,
        "fields": fields,
        "provenance": dataclasses.asdict(trace.provenance),
    }
    (folder / _DESCRIPTION).write_text(json.dumps(description))
    return sum(each.stat().st_size for each in folder.iterdir())


def _mapped(path: Path, crc: int) -> NDArray[Any]:
    """Column in a file, without a copy; raises `TraceError` if it is damaged."""
    column: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if _checksum(column) != crc:
        raise TraceError(f"{path}: damaged")
    return column


def _checksum(column: NDArray[Any]) -> int:
    """CRC-32 of a column's bytes, a part at a time."""
    crc = 0
    step = _CHECKED_BYTES // max(column.itemsize, 1)
    for begin in range(0, column.size, step):
        part = np.ascontiguousarray(column[begin : begin + step])
        crc = zlib.crc32(part.data.cast("B"), crc)
    return crc


def _provenance(described: dict[str, Any], path: str) -> Provenance:
    fields = dict(described)
    fields["path"] = path
    for name in ("steps", "warnings"):
        fields[name] = tuple(fields[name])
    fields["options"] = tuple((name, value) for name, value in fields["options"])
    return Provenance(**fields)
