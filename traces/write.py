"""Writing traces to files, in the form that the file's name asks for."""

import gzip
import os
from collections.abc import Callable
from typing import IO, Any, cast

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from hotset.traces import mooncake
from hotset.traces.errors import TraceError
from hotset.traces.files import atomic_write, check_writable
from hotset.traces.model import Trace
from hotset.traces.parquet import write_parquet

_MS_PER_S = 1000.0
_GZIP_LEVEL = 9
_ZSTD_LEVEL = 10

_Writer = Callable[[Trace, IO[Any]], None]


def write_trace(trace: Trace, path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Write a trace file, whole or not at all.

    Parameters
    ----------
    trace : Trace
        What to write.
    path : str or path-like
        Ends in .parquet (everything is kept), .jsonl, .jsonl.gz or .jsonl.zst
        (Mooncake's fields).

    Returns
    -------
    tuple of str
        Columns of the trace that the form cannot hold.

    Raises
    ------
    TraceError
        If the ending is another, the file cannot be written, or the form
        cannot hold the trace.
    """
    writer = writer_for(path)
    lost: tuple[str, ...] = ()
    if writer is not write_parquet:
        check_mooncake(trace, os.fspath(path))
        lost = tuple(
            name
            for name in ("source_type", "priority", "tenant", "ttl_s", "end_session")
            if getattr(trace, name) is not None
        )
    with atomic_write(path, "wb") as file:
        writer(trace, file)
    return lost


def writer_for(path: str | os.PathLike[str]) -> _Writer:
    """Check a destination's name and folder, before any work.

    Parameters
    ----------
    path : str or path-like
        The destination.

    Returns
    -------
    callable
        Writes a trace to an open binary file.

    Raises
    ------
    TraceError
        If the ending is unknown, or as `check_writable`.
    """
    name = os.fspath(path)
    for suffix, writer in _WRITERS.items():
        if name.lower().endswith(suffix):
            check_writable(name)
            return writer
    raise TraceError(f"{name}: unknown ending, allowed: {', '.join(_WRITERS)}")


def check_mooncake(trace: Trace, path: str) -> None:
    """Check that Mooncake's form can hold the requests of a trace.

    Parameters
    ----------
    trace : Trace
        The trace.
    path : str
        The destination, for the message.

    Raises
    ------
    TraceError
        If the block size or a number of ids is another than the form's, or no
        request has ids, or a time is negative.
    """
    if trace.block_tokens != mooncake.BLOCK_TOKENS:
        raise TraceError(
            f"{path}: Mooncake's form has blocks of {mooncake.BLOCK_TOKENS} tokens, "
            f"the trace has {trace.block_tokens}; write .parquet instead"
        )
    sizes = np.diff(trace.request_offsets)
    wrong = (sizes != 0) & (sizes != -(-trace.input_tokens // trace.block_tokens))
    if wrong.any():
        raise TraceError(
            f"{path}: Mooncake's form needs an id for the partial last block too, "
            f"request {int(wrong.argmax())} has none; write .parquet instead"
        )
    first_s, last_s = float(trace.arrival_s[0]), float(trace.arrival_s[-1])
    if not trace.num_accesses or first_s < 0 or last_s >= mooncake.MAX_TIMESTAMP_S:
        raise TraceError(
            f"{path}: Mooncake's form needs ids, and times of 0 or more; write "
            ".parquet instead"
        )
    longest = max(int(trace.input_tokens.max()), int(trace.output_tokens.max()))
    if longest > mooncake.MAX_TOKENS:
        raise TraceError(
            f"{path}: Mooncake's form has lengths of at most {mooncake.MAX_TOKENS} "
            f"tokens, the trace has {longest}; write .parquet instead"
        )


def write_mooncake(trace: Trace, file: IO[bytes]) -> None:
    """Write a trace as Mooncake's JSON lines.

    Reading it back gives an equal trace if its times are whole milliseconds
    (others may move by one unit in the last place), its sessions are numbered
    in order of first appearance, and it has no columns beyond Mooncake's. Ids and
    sessions are those of the source, where they mean something elsewhere.

    Parameters
    ----------
    trace : Trace
        What to write.
    file : IO[bytes]
        Where to.

    Raises
    ------
    TraceError
        As `check_mooncake`.
    """
    check_mooncake(trace, getattr(file, "name", "output"))
    offsets = trace.request_offsets.tolist()
    ids = trace.named_blocks()
    rows = zip(
        _timestamps_ms(trace.arrival_s),
        trace.input_tokens.tolist(),
        trace.output_tokens.tolist(),
        trace.named_sessions().tolist(),
        strict=True,
    )
    for index, (timestamp, input_tokens, output_tokens, session) in enumerate(rows):
        row: dict[str, Any] = {
            "timestamp": timestamp,
            "input_length": input_tokens,
            "output_length": output_tokens,
            "hash_ids": ids[offsets[index] : offsets[index + 1]].tolist(),
        }
        if session >= 0:
            row["session_id"] = session
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def _timestamps_ms(arrival_s: NDArray[np.float64]) -> list[int | float]:
    """Milliseconds that read back as the same seconds, whole where they can be."""
    near = arrival_s * _MS_PER_S
    exact = near.copy()
    candidates = (np.nextafter(near, np.inf), np.nextafter(near, 0.0), np.rint(near))
    for candidate in candidates:
        same = candidate / _MS_PER_S == arrival_s
        exact[same] = candidate[same]
    return [int(ms) if ms.is_integer() else ms for ms in exact.tolist()]


def _write_gzip(trace: Trace, file: IO[bytes]) -> None:
    # No name and no time in the header: equal traces give equal bytes.
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
        write_mooncake(trace, cast(IO[bytes], packed))


def _write_zstd(trace: Trace, file: IO[bytes]) -> None:
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    with compressor.stream_writer(file, closefd=False) as packed:
        write_mooncake(trace, packed)


_WRITERS: dict[str, _Writer] = {
    ".parquet": write_parquet,
    ".jsonl": write_mooncake,
    ".jsonl.gz": _write_gzip,
    ".jsonl.zst": _write_zstd,
}
