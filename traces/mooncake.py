"""Mooncake's JSON lines: one request a line, ids of 512-token blocks.

Fields: `timestamp` (ms), `input_length` and `output_length` (tokens),
`hash_ids` (ceil(input_length / 512) ids, each standing for its whole prefix;
empty or absent: nothing is known about reuse), and optionally `session_id`
(integer or string) and `block_size` (which must be 512). Others are ignored.

A later row of a session may have `delay` (ms) in place of `timestamp`: it comes
so long after the row before it of that session. How long the answer in between
took is not in the file, and counts as nothing.
"""

from typing import Any

import numpy as np

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.json_batch import (
    Row,
    counts,
    flat_rows,
    has_only,
    have_fitting,
    numbers,
    session_codes,
    session_names,
    small_ids,
)
from hotset.traces.json_ids import IdCodes, has_float, is_plain, take_ids
from hotset.traces.json_rows import MAX_TOKENS as MAX_TOKENS
from hotset.traces.json_rows import (
    SessionCodes,
    Wrong,
    WrongValue,
    are_keys_once,
    count,
    number,
    parse,
    read_rows,
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
        self.num_delayed = 0
        self._sessions = SessionCodes()
        self._ids = IdCodes()
        self.columns = Columns(self._ids.others, self._sessions.seen)
        self._last_ms: dict[int, float] = {}

    def add(self, raw: bytes) -> None:
        """Append a row; raises `Wrong` and changes no column."""
        row = parse(raw, is_exact)
        session = self._sessions.code(row, "session_id")
        if delayed := _is_delayed(row):
            timestamp_ms = self._after_last(row, session)
        else:
            timestamp_ms = number(row, "timestamp", _TIMESTAMPS)
        input_tokens = count(row, "input_length", 1)
        output_tokens = count(row, "output_length", 0)
        if row.get("block_size", BLOCK_TOKENS) != BLOCK_TOKENS:
            raise WrongValue("block_size", row["block_size"], f"{BLOCK_TOKENS}")
        ids = self._ids.codes(row, "hash_ids")
        if len(ids) not in (0, -(-input_tokens // BLOCK_TOKENS)):
            raise _wrong_number(len(ids), input_tokens)
        self.columns.add(timestamp_ms, input_tokens, output_tokens, session, ids)
        self.num_delayed += delayed
        if session >= 0:
            self._last_ms[session] = timestamp_ms

    def add_usual(self, raws: list[bytes]) -> bool:
        """Append rows at once where all are of the usual form; tells whether they are.

        Most rows are, and to check each value on its own takes several times as long.
        """
        if (rows := flat_rows(raws)) is None:
            return False
        tokens = counts(rows, "input_length", 1)
        output_tokens = counts(rows, "output_length", 0)
        ids, names = small_ids(rows, "hash_ids"), session_names(rows, "session_id")
        if tokens is None or output_tokens is None or ids is None or names is None:
            return False
        if not have_fitting(ids.sizes, tokens, BLOCK_TOKENS, partial=True):
            return False
        if not has_only(rows, "block_size", BLOCK_TOKENS):
            return False
        sessions = session_codes(names, self._sessions)
        if (times_ms := self._usual_times(rows, sessions)) is None:
            return False
        self.columns.extend(times_ms, tokens, output_tokens, sessions, ids)
        return True

    def _usual_times(self, rows: list[Row], sessions: list[int]) -> list[float] | None:
        """Take the times of rows; remembers each session's last."""
        times_ms = numbers(rows, "timestamp")
        if times_ms is not None:
            self._last_ms.update(zip(sessions, times_ms, strict=True))
            self._last_ms.pop(-1, None)
            return times_ms
        times_ms, last_ms, num_delayed = [], dict[int, float](), 0
        try:
            for row, session in zip(rows, sessions, strict=True):
                if delayed := _is_delayed(row):
                    before_ms = last_ms.get(session, self._last_ms.get(session))
                    if before_ms is None:
                        return None
                    time_ms = before_ms + number(row, "delay", _TIMESTAMPS)
                else:
                    time_ms = number(row, "timestamp", _TIMESTAMPS)
                times_ms.append(time_ms)
                num_delayed += delayed
                if session >= 0:
                    last_ms[session] = time_ms
        except Wrong:
            return None
        self._last_ms.update(last_ms)
        self.num_delayed += num_delayed
        return times_ms

    def _after_last(self, row: dict[str, Any], session: int) -> float:
        """Time of a row that only says how long after its session's last it is."""
        delay_ms = number(row, "delay", _TIMESTAMPS)
        if session not in self._last_ms:
            raise Wrong(
                "timestamp", "a delay alone", "a time on the first row of a session"
            )
        return self._last_ms[session] + delay_ms


def _is_delayed(row: Row) -> bool:
    """Whether a row tells how long after another it comes, in place of a time."""
    return row.get("timestamp") is None and row.get("delay") is not None


def is_exact(raw: bytes, row: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing in a row of a flat object.

    Parameters
    ----------
    raw : bytes
        The row.
    row : dict
        What the fast parser makes of it.

    Returns
    -------
    bool
        False where `hash_ids` or the session may have lost digits.
    """
    if not take_ids(row, "hash_ids", is_plain(raw)) or has_float(row.get("session_id")):
        return False
    return are_keys_once(raw, len(row))


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
        `no_sort`.

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
    read_rows(source.lines(), bad_rows, rows.add, rows.add_usual)
    columns = rows.columns
    if not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no row has hash_ids "
            "(lengths alone say nothing about cache hits)"
        )
    about = Described(
        NAME,
        BLOCK_TOKENS,
        units_per_s=_MS_PER_S,
        no_sort=bool(options.no_sort),
        options=(("no_sort", True),) if options.no_sort else (),
    )
    warnings = _clock_warnings(columns)
    if rows.num_delayed:
        warnings += (
            f"rows that have a delay and no time: {rows.num_delayed}; the time that "
            "the answers before them took is not in the file, and counts as nothing",
        )
        # Their sessions run side by side, so the order of rows means nothing.
        place = np.zeros(len(columns), np.int64)
        moved = (np.array(columns.arrival), place)
        return build(columns, about, source, bad_rows, warnings, moved)
    return build(columns, about, source, bad_rows, warnings)


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
    options=("no_sort",),
)
