"""Reading a trace by way of the cache of columns."""

import hashlib
import os
from collections.abc import Callable

from hotset.traces.bundles import Folder, Joined
from hotset.traces.cache import cache_key, default_cache
from hotset.traces.files import STDIN, Source
from hotset.traces.formats import FormatSpec
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.sample import locate

LEAST_BYTES = 1 << 20
"""Size on disk below which parsing is as fast as the cache."""

_Read = Callable[[Source, ReadOptions], Trace]


def read_cached(
    spec: FormatSpec, source: Source, options: ReadOptions, read: _Read
) -> Trace:
    """Trace of a source, from the cache if it was read before.

    Parameters
    ----------
    spec : FormatSpec
        The format.
    source : Source
        The open source, from which nothing was taken.
    options : ReadOptions
        Options of the format.
    read : callable
        Reads it.

    Returns
    -------
    Trace
        Equal to what `read` returns, provenance included.
    """
    cache = default_cache()
    digest = None
    if cache is not None and not isinstance(source, Joined) and spec.name != "parquet":
        digest = _digest(source)
    if cache is None or digest is None:
        return read(source, options)
    key = cache_key(digest, spec.name, options)
    found = cache.load(key, source.path)
    if found is not None:
        return found
    trace = read(source, options)
    # A file that changed meanwhile is another than the one that was digested.
    if trace.provenance.sha256 == digest:
        cache.store(key, trace)
    return trace


def _digest(source: Source) -> str | None:
    """SHA-256 of a source of some size, without taking anything from it."""
    if isinstance(source, Folder):
        return source.sha256() if source.size_bytes() >= LEAST_BYTES else None
    path = locate(source.path)
    if source.path == STDIN or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < LEAST_BYTES:
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
