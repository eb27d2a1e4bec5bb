"""Files in and out: decompressed streams with a digest, atomic writes."""

import errno
import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

import zstandard

from hotset.traces.errors import TraceError, shorten
from hotset.traces.lfs import LFS_MAGIC, lfs_message

STDIN = "-"

_CHUNK_BYTES = 1 << 16
_HEAD_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 28
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_BYTES = 1 << 31
_TO_CLEAN = (b"", b"\r")
_BOM = b"\xef\xbb\xbf"
_KEPT_CHARS = 40
_STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr")
_OPEN = ("/dev/fd/", "/proc/self/fd/")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Source:
    """An input file being read: its decompressed bytes, and its digest.

    Compression (gzip, zstd, none) is told by content, not by name. Made by
    `open_source`.

    Attributes
    ----------
    path : str
        The path as the user gave it, "-" for standard input.
    head : bytes
        The first 64 KiB of the decompressed content, or all of it.
    """

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path = path
        self._digest = hashlib.sha256()
        self._raw = self._read_raw(file)
        first = next(self._raw, b"")
        while first and len(first) < len(LFS_MAGIC):
            more = next(self._raw, b"")
            if not more:
                break
            first += more
        if not first:
            raise TraceError(f"{path}: the file is empty")
        if first.startswith(LFS_MAGIC):
            raise TraceError(lfs_message(path, first))
        self._chunks = _decompress(path, _rejoin(first, self._raw))
        self.head = b""
        for chunk in self._chunks:
            self.head += chunk
            if len(self.head) >= _HEAD_BYTES:
                break
        if not self.head:
            raise TraceError(f"{path}: the file decompresses to nothing")

    def _read_raw(self, file: IO[bytes]) -> Iterator[bytes]:
        try:
            while chunk := file.read(_CHUNK_BYTES):
                self._digest.update(chunk)
                yield chunk
        except OSError as error:
            raise TraceError(f"{self.path}: cannot read: {error.strerror}") from error

    def chunks(self) -> Iterator[bytes]:
        """Decompressed content, once.

        Yields
        ------
        bytes
            Pieces of any size.

        Raises
        ------
        TraceError
            If the compressed stream is cut short or corrupt.
        """
        return _rejoin(self.head, self._chunks)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        r"""Lines that are not blank, once.

        Yields
        ------
        tuple of (int, bytes)
            1-based line number, and the line without its end (LF or CRLF)
            and without a byte-order mark.

        Raises
        ------
        TraceError
            As `chunks`; or if a line is longer than 256 MiB.
        """
        number = 0
        pending: list[bytes] = []
        pending_bytes = 0
        for chunk in self.chunks():
            first, *others = chunk.split(b"\n")
            pending.append(first)
            pending_bytes += len(first)
            if pending_bytes > _MAX_LINE_BYTES:
                raise TraceError(
                    f"{self.path}:{number + 1}: the line is longer than 256 MiB: "
                    "this is not a file of lines"
                )
            if not others:
                continue
            for line in (b"".join(pending), *others[:-1]):
                number += 1
                if number == 1 or line[-1:] in _TO_CLEAN or line.isspace():
                    line = _clean(line, number)
                    if not line:
                        continue
                yield number, line
            pending, pending_bytes = [others[-1]], len(others[-1])
        number += 1
        if cleaned := _clean(b"".join(pending), number):
            yield number, cleaned

    def sha256(self) -> str:
        """Digest of the file's raw bytes; reads what was not read yet.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        for _ in self._raw:
            pass
        return self._digest.hexdigest()


def sha256_of_names(digests: Mapping[str, str]) -> str:
    """Digest of several files: of the lines that `sha256sum` prints for them.

    Parameters
    ----------
    digests : mapping of str to str
        SHA-256 of each file's raw bytes, by name.

    Returns
    -------
    str
        64 hexadecimal digits; the order of the names is that of their bytes.
    """
    total = hashlib.sha256()
    for name in sorted(digests, key=os.fsencode):
        total.update(f"{digests[name]}  ".encode() + os.fsencode(name) + b"\n")
    return total.hexdigest()


@contextmanager
def open_source(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open an input for reading.

    Parameters
    ----------
    path : str or path-like
        A file, plain or compressed, or "-" for standard input.

    Yields
    ------
    Source
        Valid until the context ends.

    Raises
    ------
    TraceError
        If the file is missing, a directory, unreadable, empty, a Git LFS
        pointer, or its compressed stream is cut short or corrupt.
    """
    name = os.fspath(path)
    if name == STDIN:
        if sys.stdin is None:
            raise TraceError("-: standard input is closed")
        yield Source(name, sys.stdin.buffer)
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed by the context below
    except FileNotFoundError:
        raise TraceError(f"{name or repr(name)}: no such file") from None
    except IsADirectoryError:
        raise TraceError(f"{name}: a directory, allowed: a file or -") from None
    except PermissionError:
        raise TraceError(f"{name}: no permission to read it") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceError(f"{shorten(name)}: cannot open: {reason}") from error
    with file:
        yield Source(name, file)


def _clean(line: bytes, number: int) -> bytes:
    """Line without its mark and carriage return, empty if it is blank."""
    if number == 1:
        line = line.removeprefix(_BOM)
    line = line.removesuffix(b"\r")
    return line if line.strip() else b""


def _rejoin(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _decompress(path: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks)
    if first.startswith(_GZIP_MAGIC):
        kind, padding = "gzip", b"\0"

        def start() -> Any:
            return zlib.decompressobj(wbits=31)
    elif first.startswith(_ZSTD_MAGIC):
        kind, padding = "zstd", b""
        maker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        start = maker.decompressobj
    else:
        return _rejoin(first, chunks)
    return _members(path, kind, start, padding, _rejoin(first, chunks))


def _members(
    path: str,
    kind: str,
    start: Callable[[], Any],
    padding: bytes,
    chunks: Iterator[bytes],
) -> Iterator[bytes]:
    """Content of concatenated compressed members."""
    member = None
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                if member is None:
                    rest = rest.lstrip(padding) if padding else rest
                    if not rest:
                        break
                    member = start()
                if out := member.decompress(rest):
                    yield out
                if not member.eof:
                    break
                rest, member = member.unused_data, None
    except (zlib.error, zstandard.ZstdError) as error:
        raise TraceError(f"{path}: the {kind} stream is corrupt: {error}") from error
    if member is not None:
        raise TraceError(f"{path}: the {kind} stream is cut short")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check, before any work, that a result can be written.

    Parameters
    ----------
    path : str or path-like
        The destination.

    Raises
    ------
    TraceError
        If it is a directory, or its folder is missing or not writable.
    """
    name = os.fspath(path)
    target = Path(name)
    if not name or "\0" in name:
        raise TraceError(f"{shorten(ascii(name))}: not a file name")
    try:
        is_folder = target.is_dir()
    except OSError as error:  # a name that is too long
        raise TraceError(f"{shorten(name)}: cannot write: {error.strerror}") from None
    if is_folder:
        raise TraceError(f"{name}: a directory, allowed: a file to write")
    if not target.parent.is_dir():
        raise TraceError(f"{name}: the folder {target.parent} does not exist")
    if not is_special(target) and not os.access(target.parent, os.W_OK | os.X_OK):
        raise TraceError(f"{name}: no permission to write in {target.parent}")


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w"
) -> Iterator[IO[Any]]:
    """Write a file that appears whole or not at all.

    The content goes to a temporary file in the same folder, which takes the
    destination's name when the context ends and is removed on any exception.
    Devices and pipes are written directly.

    Parameters
    ----------
    path : str or path-like
        The destination.
    mode : {"w", "wb"}
        Text (UTF-8, LF) or bytes.

    Yields
    ------
    IO
        The open file.

    Raises
    ------
    TraceError
        As `check_writable`; or if the disk is full.
    """
    name = os.fspath(path)
    check_writable(name)
    target = os.path.realpath(name)
    temporary: str | None = None
    try:
        if is_special(Path(name)):
            file = _open(name, mode)
        else:
            descriptor, temporary = _new_file_beside(target)
            file = _open(descriptor, mode)
    except OSError as error:
        raise TraceError(f"{name}: cannot write: {error.strerror}") from error
    try:
        with file:
            yield file
            file.flush()
            if temporary is not None:
                os.fsync(file.fileno())
        if temporary is not None:
            os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            raise TraceError(f"{name}: cannot write: {error.strerror}") from error
        raise


def _open(file: str | int, mode: Literal["w", "wb"]) -> IO[Any]:
    if mode == "wb":
        return open(file, mode)
    return open(file, mode, encoding="utf-8", newline="\n")


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device or a pipe, which must not be replaced."""
    # What these lead to may be a file, which is written on, not replaced.
    if os.path.abspath(path) in _STREAMS or os.path.abspath(path).startswith(_OPEN):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _new_file_beside(target: str) -> tuple[int, str]:
    """Create an empty file of a free name, with the user's usual permissions."""
    folder, base = os.path.split(target)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    attempt = 0
    while True:
        # Cut, so that any name that fits the destination leaves room for the rest.
        unused = f".{base[:_KEPT_CHARS]}.{os.getpid()}.{attempt}.tmp"
        name = os.path.join(folder, unused)
        try:
            return os.open(name, flags, 0o666), name
        except FileExistsError:
            attempt += 1
