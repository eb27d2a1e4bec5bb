"""Fetching public traces: resumed where it stopped, verified, whole or not at all."""

import hashlib
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from hotset.traces.catalogue import PublicTrace
from hotset.traces.errors import TraceError
from hotset.traces.files import check_writable
from hotset.traces.lfs import LFS_MAGIC, lfs_message

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_ATTEMPTS = 4
_PARTIAL = 206
_UNSATISFIABLE = 416

Progress = Callable[[int, int | None], None]


class _Interrupted(Exception):
    """The connection broke; what came so far is kept."""


def fetch(
    trace: PublicTrace,
    target: Path,
    address: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Fetch a public trace.

    What has come is kept in TARGET.part until all of it is there, so that
    another call goes on where this one stopped, if the file is still the same.

    Parameters
    ----------
    trace : PublicTrace
        What to fetch.
    target : Path
        Where to; replaced only by a whole and right file.
    address : str or None
        Another place of the same file; None means the catalogue's.
    progress : callable or None
        Told bytes so far and in all (None if not known), now and then.

    Returns
    -------
    str
        SHA-256 of the file.

    Raises
    ------
    TraceError
        If it cannot be fetched, is cut short, a Git LFS pointer, or not the file
        that the catalogue describes.
    """
    address = trace.address if address is None else address
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise TraceError(f"{address}: allowed: an http or https address")
    check_writable(target)
    part = Path(f"{target}.part")
    for attempt in range(_ATTEMPTS):
        try:
            _download(address, part, progress)
            break
        except _Interrupted as error:
            if attempt == _ATTEMPTS - 1:
                raise TraceError(
                    f"{address}: {error}; {_size(part)} bytes are kept in {part}, run "
                    "it again to go on"
                ) from None
    digest = _verified(trace, address, part)
    try:
        os.replace(part, target)
    except OSError as error:
        raise TraceError(f"{target}: cannot write: {error.strerror}") from error
    _validator_of(part).unlink(missing_ok=True)
    return digest


def _download(address: str, part: Path, progress: Progress | None) -> None:
    """Append to what has come what is missing."""
    have = _size(part)
    request = urllib.request.Request(address)
    validator = _read_validator(part)
    if have and validator:
        request.add_header("Range", f"bytes={have}-")
        # Of a file that changed, all of it is sent.
        request.add_header("If-Range", validator)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == _UNSATISFIABLE and have:
            return  # nothing is missing; whether it is right is checked next
        raise TraceError(f"{address}: the server says {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _Interrupted(f"cannot be reached ({reason})") from None
    with response:
        _save(response, part, have, progress)


def _save(
    response: HTTPResponse, part: Path, have: int, progress: Progress | None
) -> None:
    begin = have if response.status == _PARTIAL else 0
    if begin and not response.headers.get("Content-Range", "").startswith(
        f"bytes {begin}-"
    ):
        part.unlink(missing_ok=True)
        raise _Interrupted("the server sent another part than was asked for")
    length = response.headers.get("Content-Length")
    total = begin + int(length) if length and length.isdigit() else None
    try:
        with part.open("r+b" if begin else "wb") as file:
            _write_validator(part, response)
            file.seek(begin)
            file.truncate()
            done = begin
            while chunk := _received(response):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
    except OSError as error:
        raise TraceError(f"{part}: cannot write: {error.strerror}") from error
    if total is not None and done < total:
        raise _Interrupted(f"the connection ended after {done} of {total} bytes")


def _received(response: HTTPResponse) -> bytes:
    try:
        return response.read1(_CHUNK_BYTES)
    except (OSError, HTTPException) as error:
        raise _Interrupted(f"the connection broke ({error})") from None


def _verified(trace: PublicTrace, address: str, part: Path) -> str:
    """Digest of what has come; what is wrong is removed and raised."""
    with part.open("rb") as file:
        head = file.read(1024)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = _size(part)
    problem = None
    if head.startswith(LFS_MAGIC):
        problem = lfs_message(address, head)
    elif trace.size_bytes is not None and size != trace.size_bytes:
        problem = f"{address}: got {size} bytes, allowed: {trace.size_bytes}"
    elif trace.sha256 is not None and digest != trace.sha256:
        problem = f"{address}: got SHA-256 {digest}, allowed: {trace.sha256}"
    elif not size:
        problem = f"{address}: the file is empty"
    if problem is not None:
        for path in (part, _validator_of(part)):
            path.unlink(missing_ok=True)
        raise TraceError(problem)
    return digest


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _validator_of(part: Path) -> Path:
    """Where it stands which version of the file the part is of."""
    return Path(f"{part}.version")


def _read_validator(part: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        text = _validator_of(part).read_text(encoding="ascii").strip()
        return text if text.isprintable() and text else None
    return None


def _write_validator(part: Path, response: HTTPResponse) -> None:
    tag = response.headers.get("ETag", "")
    # A weak tag does not promise equal bytes.
    version = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    _validator_of(part).write_text(version, encoding="ascii", errors="ignore")
