"""The decorator of every native kernel, and its cache on disk.

Numba's own cache watches only the file of the function it stores, so a cached
caller would keep running the old code of a callee that was edited. Here each
compiled signature is one file, named by a digest of all sources that its code can come
from, so processes that compile at once cannot mix up entries. Where no folder can be
written, kernels compile without a cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import logging
import os
import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import caching, compiler, config

from hotset.policies.sources import digest_of

F = TypeVar("F", bound=Callable[..., Any])

_LOG = logging.getLogger(__name__)
_KEPT_ENTRIES = 10_000
_DIGEST_BYTES = 32
_KERNEL_FILES: dict[type, set[str]] = {}


# Kernels allocate nothing, so numba's reference counting is off in them: its atomic
# operations on every slice cost a third of the replay loop's time.
OPTIONS: Any = {"_nrt": False}
INLINED: Any = {**OPTIONS, "forceinline": True}


def kernel(function: F) -> F:
    """Compile a function natively on first call, with hotset's cache on disk.

    The function must not allocate arrays: scratch is passed in. With
    ``NUMBA_DISABLE_JIT=1`` the function stays plain Python.
    """
    return _compiled(function, OPTIONS)


def inlined(function: F) -> F:
    """Compile a function as `kernel` does, and into whatever calls it.

    A call passes every array of a state; where what is called is small, that costs more
    than the rest.
    """
    return _compiled(function, INLINED)


def _compiled(function: F, options: Any) -> F:
    compiled = numba.njit(nogil=True, **options)(function)
    if hasattr(compiled, "_cache"):
        folder = cache_folder()
        if folder is not None:
            compiled._cache = KernelCache(function, folder)
    return compiled


@functools.cache
def body_for_overload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel's Python body in the form that `overload` wants: no types.

    Numba compares signatures literally, annotations included.
    """
    body = getattr(function, "py_func", function)
    return FunctionType(
        body.__code__, body.__globals__, body.__name__, None, body.__closure__
    )


def is_cached(function: Callable[..., Any]) -> bool:
    """Return whether some form of a kernel is in the cache on disk."""
    cache = getattr(function, "_cache", None)
    return isinstance(cache, KernelCache) and cache.holds_something()


class KernelCache(caching._Cache):  # type: ignore[misc]
    """One file for each compiled signature of one kernel.

    Parameters
    ----------
    function : callable
        The Python function whose compiled forms are kept.
    folder : Path
        Where they are kept; must be writable.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._impl = caching.CompileResultCacheImpl
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._file = inspect.getfile(function)
        self._line = function.__code__.co_firstlineno
        self._folder = folder
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder of the cache."""
        return str(self._folder)

    def holds_something(self) -> bool:
        """Return whether some form of the kernel is stored."""
        return any(self._folder.glob(f"{self._name}-*.nbc"))

    def enable(self) -> None:
        """Use the cache."""
        self._enabled = True

    def disable(self) -> None:
        """Neither read nor write the cache."""
        self._enabled = False

    def flush(self) -> None:
        """Forget every stored form of this kernel."""
        for path in self._folder.glob(f"{self._name}-*.nbc"):
            path.unlink(missing_ok=True)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored form of a signature, or None."""
        if not self._enabled:
            return None
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        # Machine code from a damaged file would run and do anything.
        if hashlib.sha256(content).digest() != digest:
            return None
        stored = pickle.loads(content)
        return compiler.CompileResult._rebuild(target_context, *stored)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled form of a signature; an unwritable disk is no error."""
        if not self._enabled or data.library.has_dynamic_globals:
            return
        path = self._path(sig, data.codegen)
        content = caching.dumps(data._reduce())
        content = hashlib.sha256(content).digest() + content
        try:
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as out:
                out.write(content)
            os.replace(out.name, path)
            _drop_unused(self._folder)
        except OSError as error:
            _LOG.warning("compiled kernel %s is not cached: %s", self._name, error)

    def _path(self, sig: Any, codegen: Any) -> Path:
        # The first number is raised when older entries must not be read.
        text = f"2 {numba.__version__} {sys.version_info[:2]} {codegen.magic_tuple()} "
        text += f"{digest_of(frozenset({self._file}))} {self._line} " + " ".join(
            _type_name(t) for t in sig
        )
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._folder / f"{self._name}-{digest}.nbc"


def _type_name(numba_type: Any) -> str:
    """Name a type, and the sources of its kernels where it is a state.

    Callers are compiled with the kernels of the states that they are given, which may
    come from elsewhere than the caller; a state may hold another one.
    """
    if isinstance(numba_type, types.BaseNamedTuple):
        made = numba_type.instance_class
        fields = " ".join(_type_name(field) for field in numba_type.types)
        name = f"{made.__module__}.{made.__qualname__}"
        return f"{name}:{_sources_of(made)}:{numba_type}:{fields}"
    return str(numba_type)


@functools.cache
def _sources_of(state_type: type) -> str:
    """Return a digest of the sources of a state and of its kernels.

    A class that was typed into an interpreter has no file to watch: its digest is new
    in every process.
    """
    try:
        files = {inspect.getfile(state_type)} | _KERNEL_FILES.get(state_type, set())
    except (OSError, TypeError):
        return uuid.uuid4().hex
    if not all(map(os.path.isfile, files)):
        return uuid.uuid4().hex
    return digest_of(frozenset(files))


def note_kernels(state_type: type, kernels: Iterable[Callable[..., Any]]) -> None:
    """Note which functions callers reach through the type of a state."""
    _KERNEL_FILES[state_type] = {
        getattr(kernel, "py_func", kernel).__code__.co_filename for kernel in kernels
    }


@functools.cache
def cache_folder() -> Path | None:
    """Return the writable folder for kernels, or None.

    ``NUMBA_CACHE_DIR`` and ``XDG_CACHE_HOME`` are honoured.
    """
    for base in _cache_bases():
        folder = base / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    _log_no_cache()
    return None


@functools.cache
def _log_no_cache() -> None:
    _LOG.warning("no folder for compiled kernels can be written: compiling each time")


def _cache_bases() -> list[Path]:
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR) / "hotset"]
    bases = []
    if os.environ.get("XDG_CACHE_HOME"):
        bases.append(Path(os.environ["XDG_CACHE_HOME"]) / "hotset")
    with contextlib.suppress(RuntimeError):  # where no home folder is known
        bases.append(Path.home() / ".cache" / "hotset")
    return bases


@functools.cache
def _drop_unused(folder: Path) -> None:
    """Keep the entries used last, once a process: edits must not fill the disk."""
    try:
        entries = [(path.stat().st_mtime, path) for path in folder.glob("*.nbc")]
        for _, path in sorted(entries)[:-_KEPT_ENTRIES]:
            path.unlink(missing_ok=True)
    except OSError as error:
        _LOG.debug("old compiled kernels are kept: %s", error)
