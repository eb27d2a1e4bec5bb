"""Mooncake's JSON lines: one request a line, ids of 512-token blocks.

Fields: `timestamp` (ms), `input_length` and `output_length` (tokens),
`hash_ids` (ceil(input_length / 512) ids, each standing for its whole prefix;
empty or absent: nothing is known about reuse), and optionally `session_id`
(integer or string) and `block_size` (which must be 512). Others are ignored.
"""

from typing import Any

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.json_rows import MAX_TOKENS as MAX_TOKENS
from hotset.traces.json_rows import (
    IdCodes,
    SessionCodes,
    Wrong,
    WrongValue,
    count,
    has_float,
    number,
    parse,
)
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

NAME = "mooncake"
BLOCK_TOKENS = 512
MAX_TIMESTAMP_S = 2.0**53

_MS_PER_S = 1000.0
_TIMESTAMPS = "a number of milliseconds, 0 or more, below 2**63"
# Above this the clock was probably in seconds; a warning, not a verdict.
_BUSIEST_REQUESTS_PER_S = 1000.0
_FEW_REQUESTS = 100

_FIELDS = (b'"timestamp"', b'"input_length"', b'"output_length"', b'"hash_ids"')


class _Rows:
    """Checks rows and appends them to columns."""

    def __init__(self) -> None:
        self.columns = Columns()
        self._sessions = SessionCodes()
        self._ids = IdCodes()

    def add(self, raw: bytes) -> None:
        """Append a row; raises `Wrong` and changes no column."""
        row = parse(raw, _is_exact)
        timestamp_ms = number(row, "timestamp", _TIMESTAMPS)
        input_tokens = count(row, "input_length", 1)
        output_tokens = count(row, "output_length", 0)
        if row.get("block_size", BLOCK_TOKENS) != BLOCK_TOKENS:
            raise WrongValue("block_size", row["block_size"], f"{BLOCK_TOKENS}")
        session = self._sessions.code(row, "session_id")
        ids = self._ids.codes(row, "hash_ids")
        if len(ids) not in (0, -(-input_tokens // BLOCK_TOKENS)):
            raise _wrong_number(len(ids), input_tokens)
        self.columns.add(timestamp_ms, input_tokens, output_tokens, session, ids)


def _is_exact(raw: bytes, row: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing in a row."""
    if has_float(row.get("hash_ids")) or has_float(row.get("session_id")):
        return False
    # Otherwise nested objects, colons in strings, or a key twice.
    return raw.count(b":") == len(row)


def _wrong_number(num_ids: int, input_tokens: int) -> Wrong:
    most = num_ids * BLOCK_TOKENS
    least = most - BLOCK_TOKENS + 1
    allowed = f"{-(-input_tokens // BLOCK_TOKENS)} (512-token blocks) or none"
    hint = f"{num_ids} ids need {least}..{most} tokens"
    smallest = -(-input_tokens // num_ids)
    if num_ids == 1:
        hint += f", or a block size of {smallest} or more"
    else:
        largest = -(-input_tokens // (num_ids - 1)) - 1
        if smallest <= largest:
            hint += f", or a block size of {smallest}..{largest}"
    return Wrong(
        "hash_ids",
        f"{num_ids} ids for {input_tokens} tokens",
        f"{allowed}; {hint}",
    )


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a Mooncake trace.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        Not used.

    Returns
    -------
    Trace
        Sorted by (timestamp, line).

    Raises
    ------
    RowErrors
        If rows are wrong and wrong rows are not skipped.
    TraceError
        If the file as a whole is of no use.
    """
    rows = _Rows()
    rows_read = 0
    for line, raw in source.lines():
        rows_read += 1
        try:
            rows.add(raw)
        except Wrong as wrong:
            bad_rows.add(line, raw, wrong.field, wrong.found(raw), wrong.allowed)
    bad_rows.finish(rows_read)
    columns = rows.columns
    if not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no row has hash_ids "
            "(lengths alone say nothing about cache hits)"
        )
    about = Described(NAME, BLOCK_TOKENS, units_per_s=_MS_PER_S)
    return build(columns, about, source, bad_rows, _clock_warnings(columns))


def _clock_warnings(columns: Columns) -> tuple[str, ...]:
    """Warn where the clock was probably in seconds."""
    num_requests = len(columns)
    span_s = (max(columns.arrival) - min(columns.arrival)) / _MS_PER_S
    busy = num_requests > _BUSIEST_REQUESTS_PER_S * span_s > 0
    if not busy or num_requests < _FEW_REQUESTS:
        return ()
    return (
        f"{num_requests} requests in {span_s:g} s: timestamps look like seconds, "
        "and were read as this format's milliseconds",
    )


def detect(head: bytes) -> bool:
    """Whether a file looks like this format.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether one of the first lines has two of this format's fields: the
        very first may be the wrong one.
    """
    return any(
        line.startswith(b"{") and sum(field in line for field in _FIELDS) >= 2
        for line in head_lines(head)
    )


SPEC = FormatSpec(
    name=NAME,
    description="Mooncake JSON lines: milliseconds, 512-token blocks, chained ids",
    detect=detect,
    read=read,
)
