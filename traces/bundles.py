"""Traces of several files: a folder, or a tar archive of them."""

import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import zstandard

from hotset.traces.errors import TraceError, shorten
from hotset.traces.files import STDIN, Source, open_source, sha256_of_names

ENDINGS = (".json", ".json.gz", ".json.zst", ".jsonl", ".jsonl.gz", ".jsonl.zst")
"""Endings of the names that belong to a trace of several files."""

_BLOCK_BYTES = 512
_TAR_MAGIC_AT = 257
_HEAD_BYTES = 1 << 16


class Folder(Source):
    """A folder of files, read as one trace.

    Parameters
    ----------
    path : str
        The folder as the user gave it.

    Attributes
    ----------
    left_out : list of str
        Names of files in it that are no part of the trace.

    Raises
    ------
    TraceError
        If it cannot be listed or holds no such files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.names, self.left_out = _listed(path)
        self._digests: dict[str, str] = {}
        with _opened(path, self.names[0]) as first:
            self.head = first.head

    def chunks(self) -> Iterator[bytes]:
        """Raise: a folder has no content of its own."""
        raise TraceError(f"{self.path}: a folder, allowed for this format: a file")

    def files(self) -> Iterator[tuple[str, Source]]:
        """Files of the trace, in order of their names.

        Yields
        ------
        tuple of (str, Source)
            The name relative to the folder, with "/" between its parts; and
            the open file, valid until the next is asked for.
        """
        for name in self.names:
            with _opened(self.path, name) as source:
                yield name, source
                self._digests[name] = source.sha256()

    def size_bytes(self) -> int:
        """Size of the files, compressed if they are.

        Returns
        -------
        int
            0 where it cannot be told.
        """
        try:
            paths = (os.path.join(self.path, name) for name in self.names)
            return sum(os.path.getsize(path) for path in paths)
        except OSError:
            return 0

    def sha256(self) -> str:
        """Digest of the folder: of the lines "DIGEST  NAME" of its files.

        The lines are those of the `sha256sum` program, sorted by the bytes of
        the names: raw bytes of the files count, times and places do not.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        for name in self.names:
            if name not in self._digests:
                with _opened(self.path, name) as source:
                    self._digests[name] = source.sha256()
        return sha256_of_names(self._digests)


def _listed(path: str) -> tuple[list[str], list[str]]:
    """Names of a folder's files that belong to a trace, and of the others."""
    names: list[str] = []
    others: list[str] = []

    def fail(error: OSError) -> None:
        raise TraceError(f"{path}: cannot list: {error.strerror}") from error

    for folder, folders, files in os.walk(path, onerror=fail):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for each in files:
            full = os.path.join(folder, each)
            name = os.path.relpath(full, path).replace(os.sep, "/")
            if not each.startswith("."):
                (names if belongs(each) else others).append(name)
    if not names:
        raise TraceError(
            f"{path}: a directory without files of a trace ({', '.join(ENDINGS)})"
        )
    return sorted(names, key=os.fsencode), sorted(others, key=os.fsencode)


def belongs(name: str | os.PathLike[str]) -> bool:
    """Whether a file of a folder or archive is one of a trace, from its name.

    Parameters
    ----------
    name : str or path-like
        The name.

    Returns
    -------
    bool
        Whether it ends in one of `ENDINGS`.
    """
    return os.fspath(name).lower().endswith(ENDINGS)


class _opened:
    """Context of one file of a folder; errors name it."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = os.path.join(folder, name)

    def __enter__(self) -> Source:
        try:
            self._file = open(self._path, "rb")
        except OSError as error:
            raise TraceError(f"{self._path}: cannot open: {error.strerror}") from error
        try:
            return Source(self._path, self._file)
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Joined(Source):
    """Several files of lines, read one after the other as one trace.

    Parameters
    ----------
    sources : list of Source
        The open files, whose ids mean the same.

    Attributes
    ----------
    sources : list of Source
        The files.
    paths : list of str
        Names of the files.
    on_file : callable or None
        Told the name of each file before its lines.
    """

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.path = sources[0].path
        self.paths = [source.path for source in sources]
        self.head = sources[0].head
        self.on_file: Callable[[str], None] | None = None

    def chunks(self) -> Iterator[bytes]:
        """Raise: only lines can be joined."""
        raise TraceError(f"{self.path}: this format cannot be merged: it has no lines")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines of all files, numbered within each."""
        for source in self.sources:
            if self.on_file is not None:
                self.on_file(source.path)
            yield from source.lines()

    def sha256(self) -> str:
        """Digest of the lines "DIGEST  NAME" of the files, as of a folder's."""
        digests = {
            f"{at}/{os.path.basename(source.path)}": source.sha256()
            for at, source in enumerate(self.sources)
        }
        return sha256_of_names(digests)


@contextmanager
def open_input(path: str) -> Iterator[Source]:
    """Open a trace for reading.

    Parameters
    ----------
    path : str
        A file or a folder, or "-" for standard input.

    Yields
    ------
    Source
        A `Folder` for a folder; valid until the context ends.

    Raises
    ------
    TraceError
        As `open_source`, or if a folder holds no trace.
    """
    if path != STDIN and os.path.isdir(path):
        yield Folder(path)
        return
    with open_source(path) as source:
        yield source


def is_bundle(source: Source) -> bool:
    """Whether a source is a folder or a tar archive.

    Parameters
    ----------
    source : Source
        The source.

    Returns
    -------
    bool
        Told by content.
    """
    return isinstance(source, Folder) or _is_tar(source.head)


def _is_tar(head: bytes) -> bool:
    return head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar"


def head_of_first(source: Source) -> bytes:
    """Beginning of a source's content, or of its first file's.

    Parameters
    ----------
    source : Source
        A file, a folder or an archive.

    Returns
    -------
    bytes
        Decompressed; less than 64 KiB where the archive's beginning holds less.
    """
    if not _is_tar(source.head):
        return source.head
    try:
        with tarfile.open(fileobj=io.BytesIO(source.head), mode="r|") as archive:
            for entry in archive:
                if entry.isfile() and belongs(entry.name):
                    content = source.head[entry.offset_data :][: entry.size]
                    return _decompressed_head(content)
    except (tarfile.TarError, ValueError, EOFError):
        pass
    return b""


def _decompressed_head(content: bytes) -> bytes:
    """As much as can be read of content that may be compressed and cut."""
    try:
        if content.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=31).decompress(content, _HEAD_BYTES)
        if content.startswith(b"\x28\xb5\x2f\xfd"):
            reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content))
            return reader.read(_HEAD_BYTES)
    except (zlib.error, zstandard.ZstdError):
        return b""
    return content


def files_of(source: Source) -> Iterator[tuple[str, Source]]:
    """Files of a source: of a folder or a tar archive, or itself.

    Parameters
    ----------
    source : Source
        The source.

    Yields
    ------
    tuple of (str, Source)
        Name and open file; a folder's in order of names, an archive's as they
        stand there. Valid until the next is asked for.

    Raises
    ------
    TraceError
        If the archive is cut short or corrupt, or has a name twice or no files.
    """
    if isinstance(source, Folder):
        yield from source.files()
    elif _is_tar(source.head):
        yield from _entries(source)
    else:
        yield source.path, source


class _Stream:
    """Decompressed bytes of a source as a file that is read once.

    Attributes
    ----------
    read_bytes, content_bytes : int
        Bytes read; bytes up to the last that is not zero.
    """

    def __init__(self, source: Source) -> None:
        self._chunks = source.chunks()
        self._rest = b""
        self.read_bytes = self.content_bytes = 0

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, none only at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = chunk
        taken, self._rest = self._rest[:size], self._rest[size:]
        if content := len(taken.rstrip(b"\0")):
            self.content_bytes = self.read_bytes + content
        self.read_bytes += len(taken)
        return taken


def _entries(source: Source) -> Iterator[tuple[str, Source]]:
    """Files of a tar archive, in its order."""
    stream = _Stream(source)
    seen: set[str] = set()
    try:
        with tarfile.open(fileobj=_full_reads(stream), mode="r|") as archive:
            for entry in archive:
                if not entry.isfile() or not belongs(entry.name):
                    continue
                if entry.name in seen:
                    raise TraceError(
                        f"{source.path}: the archive has {shorten(entry.name)} twice"
                    )
                seen.add(entry.name)
                file = archive.extractfile(entry)
                assert file is not None  # it is a regular file
                yield entry.name, Source(f"{source.path}/{entry.name}", file)
                # So that memory does not grow with the archive.
                archive.members.clear()  # type: ignore[attr-defined]
            end = archive.offset
    except (tarfile.TarError, ValueError, EOFError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{source.path}: the archive is corrupt: {error}") from error
    while stream.read(1 << 16):
        pass
    # A block of zeros ends an archive, and only zeros follow; the library also
    # takes a damaged header, or the end of the file, for the end.
    if stream.content_bytes > end or stream.read_bytes < end + _BLOCK_BYTES:
        raise TraceError(f"{source.path}: the archive is cut short or corrupt")
    if not seen:
        raise TraceError(
            f"{source.path}: an archive without files of a trace ({', '.join(ENDINGS)})"
        )


def _full_reads(stream: _Stream) -> IO[bytes]:
    """File object that gives as much as asked for, except at the end."""
    return io.BufferedReader(_Raw(stream), 1 << 16)


class _Raw(io.RawIOBase):
    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]
        taken = self._stream.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)
