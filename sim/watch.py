"""Recordings that come into a folder, one at a time, as they are finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hotset.policies.errors import PolicyError

_Look = dict[Path, tuple[int, int]]


def fresh_recordings(
    folder: Path, every_s: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Path]:
    """Yield the newest file that changed since the last one was yielded, for ever.

    A file counts once it has not changed between two looks, so that a recording that
    is being written is waited for. Hidden files, folders and the recorder's keys do
    not count.

    Parameters
    ----------
    folder : Path
        Where recordings appear.
    every_s : float
        Seconds between two looks.
    sleep : callable
        Waits.

    Raises
    ------
    PolicyError
        If the folder cannot be read.
    """
    used: _Look = {}
    before: _Look = {}
    while True:
        now = _look(folder)
        ready = [
            path
            for path, seen in now.items()
            if before.get(path) == seen and used.get(path) != seen
        ]
        before = now
        if ready:
            newest = max(ready, key=lambda path: (now[path][1], path.name))
            # Older ones are superseded by it.
            used |= {path: now[path] for path in ready}
            yield newest
        else:
            sleep(every_s)


def _look(folder: Path) -> _Look:
    """Return size and time of change of each file."""
    found = {}
    try:
        for path in folder.iterdir():
            is_other = path.name.startswith(".") or path.suffix == ".key"
            if not is_other and path.is_file():
                status = path.stat()
                found[path] = status.st_size, status.st_mtime_ns
    except OSError as error:
        raise PolicyError(f"--watch {folder}: {error.strerror}") from None
    return found
