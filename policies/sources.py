"""Which source files a compiled kernel depends on, and a digest of them.

A module of hotset depends on itself and on the modules of hotset that it imports,
directly or through others. Imports are read from the text, so nothing is loaded. For a
file of another package all sources beside it count, with what they import of hotset.

What a process runs is what it imported. Of a file that was changed after the process
started, the text on disk may be another one: the digest is then this process's own.
"""

from __future__ import annotations

import functools
import hashlib
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+hotset\.([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
    r"|import[ \t]+hotset\.([\w.]+))",
    re.MULTILINE,
)
_POLICIES = Path(__file__).parent.resolve()
# File systems may stamp changes with a clock that is some milliseconds late.
_STARTED_NS = time.time_ns() - 10_000_000
_OWN = uuid.uuid4().bytes


@functools.cache
def digest_of(files: frozenset[str]) -> str:
    """Return a digest of source files and of what they depend on."""
    state = hashlib.sha256()
    for name, content in sorted(_all_sources(files)):
        state.update(name.encode() + b"\0" + content + b"\0")
    return state.hexdigest()


def _all_sources(files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a closure under imports."""
    todo = [path for name in files for path in _start(Path(name).resolve())]
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        content, imported = _read(path)
        yield f"{path.parent.name}/{path.name}", content
        todo += imported


def _start(path: Path) -> list[Path]:
    if path.parent.parent == _POLICIES.parent:
        return [path]
    return sorted(path.parent.glob("*.py"))


@functools.cache
def _read(path: Path) -> tuple[bytes, tuple[Path, ...]]:
    """Return a file's content and the files of hotset that it imports.

    The content of a file that was changed under this process is marked as its own.
    """
    content = path.read_bytes()
    # The time of the inode's change: unlike that of the content it cannot be set back.
    if path.stat().st_ctime_ns > _STARTED_NS:
        content += _OWN
    return content, tuple(_imported(content.decode(errors="replace")))


def _imported(text: str) -> Iterator[Path]:
    for match in _IMPORT.finditer(text):
        package, names, plain = match.groups()
        module = package or plain
        yield from _files(module)
        for name in re.findall(r"\w+", names or ""):
            yield from _files(f"{module}.{name}")


def _files(module: str) -> Iterator[Path]:
    """Yield the file of a module or package of hotset, if it is one."""
    place = _POLICIES.parent.joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            yield path
