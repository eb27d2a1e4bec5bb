"""Parquet, the exchange form: one row per request, everything in one file.

Its `block_ids` and `session` hold what the source calls blocks and sessions, if that
means something elsewhere, so that files can be joined.

Equal traces of equal provenance give equal bytes, as far as the Parquet
library's version is the same.
"""

import dataclasses
import io
import json
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError, show
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec
from hotset.traces.intern import densify, first_places
from hotset.traces.model import OPTIONAL, Provenance, Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

NAME = "parquet"

_MAGIC = b"PAR1"
_KEY = b"hotset.trace"
_VERSION = 2
_READABLE = (1, 2)
_ROWS_PER_GROUP = 1 << 16
_MAX_LIST_OFFSET = 2**31 - 1

# What damaged bytes, and values of another shape than expected, may raise.
_MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
)

_COLUMNS = ("arrival_s", "input_tokens", "output_tokens", "session")


def write_parquet(trace: Trace, file: IO[bytes]) -> None:
    """Write a trace in the exchange form.

    Parameters
    ----------
    trace : Trace
        What to write.
    file : IO[bytes]
        Where to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: pa.array(getattr(trace, name)) for name in _COLUMNS}
    columns["session"] = pa.array(trace.named_sessions())
    columns["block_ids"] = _lists(trace)
    for name in OPTIONAL:
        if (values := getattr(trace, name)) is not None:
            columns[name] = pa.array(values)
    metadata = json.dumps(_describe(trace), sort_keys=True).encode()
    table = pa.table(columns).replace_schema_metadata({_KEY: metadata})
    pq.write_table(
        table,
        file,
        row_group_size=_ROWS_PER_GROUP,
        compression="zstd",
        write_page_checksum=True,
    )


def _lists(trace: Trace) -> Any:
    """Ids per request as an Arrow list column."""
    import pyarrow as pa

    ids = pa.array(trace.named_blocks())
    if trace.num_accesses <= _MAX_LIST_OFFSET:
        offsets = pa.array(trace.request_offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, ids)
    return pa.LargeListArray.from_arrays(pa.array(trace.request_offsets), ids)


def _describe(trace: Trace) -> dict[str, Any]:
    """Metadata: all that the columns do not say, as JSON values."""
    return {
        "version": _VERSION,
        "requests": trace.num_requests,
        "block_tokens": trace.block_tokens,
        "id_scope": trace.id_scope,
        "chained": trace.chained,
        "block_names": trace.block_names is not None,
        "session_names": trace.session_names is not None,
        "source_type_names": list(trace.source_type_names),
        "tenant_names": list(trace.tenant_names),
        # The first source, with all that was done since: converting twice changes
        # nothing.
        "origin": dataclasses.asdict(_first_source(trace.provenance)),
    }


def _first_source(provenance: Provenance) -> Provenance:
    if provenance.origin is None:
        return provenance
    return dataclasses.replace(provenance.origin, steps=provenance.steps)


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a trace in the exchange form.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        Not used: a file of this form is right or wrong as a whole.
    options : ReadOptions
        Not used.

    Returns
    -------
    Trace
        Its provenance names this file, and the original source as `origin`.

    Raises
    ------
    TraceError
        If the file is corrupt or was not written by `write_parquet`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = b"".join(source.chunks())
    try:
        file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
        metadata = (file.schema_arrow.metadata or {}).get(_KEY)
    except (*_MALFORMED, OSError, pa.ArrowException) as error:
        raise _corrupt(source, error) from error
    if metadata is None:
        raise TraceError(
            f"{source.path}: a Parquet file, but not a trace written by hotset "
            f"(its schema has no {_KEY.decode()} entry)"
        )
    try:
        described = json.loads(metadata)
        _check_sizes(source, file.metadata, described)
        table = _read_table(source, file)
        return _build(source, table, described)
    except TraceError:
        raise
    except (*_MALFORMED, pa.ArrowException) as error:
        raise TraceError(
            f"{source.path}: not a trace of the exchange form: {show(error)}"
        ) from error


def _corrupt(source: Source, reason: object) -> TraceError:
    text = show(str(reason).partition("\n")[0])
    return TraceError(f"{source.path}: the Parquet file is corrupt: {text}")


def _check_sizes(source: Source, metadata: Any, described: dict[str, Any]) -> None:
    """Check numbers of rows before memory is taken for them.

    A damaged number is not noticed by the library, which takes memory for it.
    """
    if described["version"] not in _READABLE:
        raise TraceError(
            f"{source.path}: exchange form of version {described['version']}, "
            f"allowed: {', '.join(map(str, _READABLE))}"
        )
    # Of columns nothing is asked: where they are damaged, the library aborts.
    num_rows = [
        metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)
    ]
    if min(num_rows, default=0) < 0 or sum(num_rows) != metadata.num_rows:
        raise _corrupt(source, "numbers of rows differ")
    # The first version does not say how many were written.
    if metadata.num_rows != described.get("requests", metadata.num_rows):
        raise _corrupt(source, "not as many rows as were written")


def _read_table(source: Source, file: Any) -> Any:
    """Rows of a file whose sizes are right."""
    import pyarrow as pa

    try:
        return file.read()
    except (*_MALFORMED, OSError, pa.ArrowException) as error:
        raise _corrupt(source, error) from error


def _build(source: Source, table: Any, described: dict[str, Any]) -> Trace:
    """Trace of a table and its description."""
    columns = {
        name: table[name].combine_chunks().to_numpy(zero_copy_only=False)
        for name in (*_COLUMNS, *OPTIONAL)
        if name in _COLUMNS or name in table.column_names
    }
    lists = table["block_ids"].combine_chunks()
    if lists.null_count:
        raise TraceError(f"{source.path}: block_ids: got nulls, allowed: lists")
    sizes = lists.value_lengths().to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    origin = _provenance(described["origin"])
    ids = lists.flatten().to_numpy(zero_copy_only=False)
    block_names = session_names = None
    if described.get("block_names"):
        ids, block_names = _numbered(ids)
    if described.get("session_names"):
        session = columns["session"].copy()
        known = session >= 0
        session[known], session_names = _numbered(session[known])
        columns["session"] = session
    return Trace(
        block_tokens=described["block_tokens"],
        request_offsets=offsets,
        block_ids=ids,
        block_names=block_names,
        session_names=session_names,
        provenance=dataclasses.replace(
            origin,
            format=NAME,
            path=source.path,
            sha256=source.sha256(),
            origin=origin,
            options=(),
        ),
        id_scope=described["id_scope"],
        chained=described["chained"],
        source_type_names=tuple(described["source_type_names"]),
        tenant_names=tuple(described["tenant_names"]),
        **columns,
    )


def _numbered(names: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of named things in order of first appearance, and their names."""
    if names.dtype.kind not in "iu":
        raise TypeError(f"names: got {names.dtype}, allowed: integers")
    numbers = densify(names)[0]
    return numbers, names[first_places(numbers)].astype(np.int64)


def _provenance(described: dict[str, Any]) -> Provenance:
    """Provenance from its JSON form."""
    fields = dict(described)
    for name in ("steps", "warnings"):
        fields[name] = tuple(fields[name])
    options = fields.get("options", ())
    fields["options"] = tuple((name, value) for name, value in options)
    return Provenance(**fields)


def detect(head: bytes) -> bool:
    """Whether a file is a Parquet file.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether they begin with Parquet's magic number.
    """
    return head.startswith(_MAGIC)


SPEC = FormatSpec(
    name=NAME,
    description="hotset's exchange form (Parquet), written by 'hotset trace convert'",
    detect=detect,
    read=read,
)
