"""A recording in several files: one that grows, and finished ones, compressed.

Rows go to the path itself. When that file has its share of the bytes it is put aside,
compressed, under the next number (``trace-000001.jsonl.gz``), and a new one begins; the
oldest go as soon as there are too many. So the last traffic is kept, not the first, and
each file is a recording by itself.

Each file has a share of ``max_bytes``, and one share more is left free: while a file is
compressed it is there twice.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import shutil
from pathlib import Path

from hotset.adapter.record_file import MODE, RecordFile

_LOG = logging.getLogger(__name__)

_LEVEL = 6
_COPY_BYTES = 1 << 20


class RotatedFiles:
    """Recordings of one process, the newest ones.

    Parameters
    ----------
    path : Path
        Of the file that grows.
    max_bytes : int
        Of all files together, at the most.
    files : int
        How many there are at the most, the one that grows included; at least 2.

    Attributes
    ----------
    path : Path
        Of the file that grows.
    is_full : bool
        False: there is always a next file.

    Raises
    ------
    OSError
        If no such file is to be had.
    """

    is_full = False

    def __init__(self, path: Path, max_bytes: int, files: int) -> None:
        self._wanted = path
        self._share_bytes = max_bytes // (files + 1)
        self._num_finished = files - 1
        self._finished_bytes = max_bytes - 2 * self._share_bytes
        self._has_failed = False
        self._open()
        for torn in self._beside("\\.", "\\.gz\\.part"):
            torn.unlink(missing_ok=True)
        self._drop_oldest()

    def _open(self) -> None:
        self._file = RecordFile(self._wanted, self._share_bytes)
        self.path = self._file.path

    def append(self, rows: list[bytes]) -> int:
        """Append rows; return how many, all but those larger than a file may be.

        Raises
        ------
        OSError
            If they could not be written; those before are in the files.
        """
        rows = [row for row in rows if len(row) <= self._share_bytes]
        written = 0
        while written < len(rows):
            if self._file.is_full:
                self._rotate()
            written += self._file.append(rows[written:])
        return written

    def close(self) -> None:
        """Let the file that grows go; it stays as it is."""
        self._file.close()

    # Finished files

    def _rotate(self) -> None:
        number = 1 + max(map(_number_of, self._finished()), default=0)
        aside = self.path.with_name(f"{self.path.stem}-{number:06d}{self.path.suffix}")
        os.rename(self.path, aside)
        self._file.close()
        self._open()
        try:
            _compress(aside)
        except OSError as error:
            # The file is there as it was, only larger.
            if not self._has_failed:
                self._has_failed = True
                _LOG.warning("hotset: recorder, %s is not compressed: %s", aside, error)
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop finished files from the oldest on until they are few and small."""
        finished = self._finished()
        sizes = [path.stat().st_size for path in finished]
        for at, path in enumerate(finished):
            is_few = len(finished) - at <= self._num_finished
            if is_few and sum(sizes[at:]) <= self._finished_bytes:
                break
            path.unlink(missing_ok=True)

    def _finished(self) -> list[Path]:
        return sorted(self._beside("", "(\\.gz)?"), key=_number_of)

    def _beside(self, before: str, behind: str) -> list[Path]:
        """Return the numbered files of this recording with such ends of their names."""
        stem, suffix = re.escape(self.path.stem), re.escape(self.path.suffix)
        name = re.compile(f"{before}{stem}-[0-9]{{6,}}{suffix}{behind}")
        return [p for p in self.path.parent.iterdir() if name.fullmatch(p.name)]


def _number_of(path: Path) -> int:
    (number,) = re.findall(r"-([0-9]{6,})\.?", path.name)[-1:]
    return int(number)


def _compress(path: Path) -> None:
    """Replace a file by its compressed form, whole or not at all."""
    part = path.with_name(f".{path.name}.gz.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(part, flags, MODE)
        with (
            open(fd, "wb") as raw,
            # No time and no name in it: the same rows give the same bytes.
            gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as packed,
            path.open("rb") as rows,
        ):
            shutil.copyfileobj(rows, packed, _COPY_BYTES)
        os.rename(part, path.with_name(f"{path.name}.gz"))
    except OSError:
        part.unlink(missing_ok=True)
        raise
    path.unlink()
