"""Recordings of hotset's vLLM adapter, as `hotset.traces.record` writes them.

Rows come in the order in which requests ended; they are sorted by arrival. The last row
of a recording that was cut off, by a crash, is left out. Of the tags, the session and
the source type are read; ids of output blocks are not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.json_batch import (
    counts,
    flat_rows,
    numbers,
    session_codes,
    session_names,
    small_ids,
    texts,
)
from hotset.traces.json_ids import IdCodes, has_float, take_ids
from hotset.traces.json_rows import (
    SessionCodes,
    Wrong,
    WrongValue,
    count,
    number,
    parse,
    read_rows,
    short_text,
)
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.record import HEAD, MARK, VERSION
from hotset.traces.rows import BadRows

NAME = "recording"

_MS_PER_S = 1000.0
_TIMESTAMPS = "a number of milliseconds, 0 or more, below 2**63"


class _Rows:
    """Checks rows and appends them to columns."""

    def __init__(self) -> None:
        self.block_tokens = 0
        self._sessions = SessionCodes()
        self._ids = IdCodes()
        self.columns = Columns(self._ids.others, self._sessions.seen)

    def add(self, raw: bytes) -> None:
        """Append a row; raises `Wrong` and changes no column."""
        row = parse(raw, _is_exact)
        if row.get(MARK) != VERSION:
            raise WrongValue(MARK, row.get(MARK), f"{VERSION}")
        timestamp_ms = number(row, "timestamp", _TIMESTAMPS)
        input_tokens = count(row, "input_length", 1)
        output_tokens = count(row, "output_length", 0)
        block_tokens = count(row, "block_size", 1)
        if self.block_tokens not in (0, block_tokens):
            allowed = f"{self.block_tokens}, as in the rows before"
            raise WrongValue("block_size", block_tokens, allowed)
        session = self._sessions.code(row, "session_id")
        source_type = short_text(row, "type", self.columns.type_codes)
        ids = self._ids.codes(row, "hash_ids")
        _check_number(ids, input_tokens, block_tokens)
        self.block_tokens = block_tokens
        self.columns.add(
            timestamp_ms, input_tokens, output_tokens, session, ids, source_type
        )

    def add_usual(self, raws: list[bytes]) -> bool:
        """Append rows at once where all are as usual; tells whether they are."""
        if (rows := flat_rows(raws)) is None:
            return False
        marks, sizes = counts(rows, MARK, 1), counts(rows, "block_size", 1)
        times_ms = numbers(rows, "timestamp")
        tokens = counts(rows, "input_length", 1)
        outputs = counts(rows, "output_length", 0)
        ids, names = small_ids(rows, "hash_ids"), session_names(rows, "session_id")
        types = texts(rows, "type", self.columns.type_codes)
        if marks is None or sizes is None or times_ms is None or tokens is None:
            return False
        if outputs is None or ids is None or names is None or types is None:
            return False
        block_tokens = self.block_tokens or sizes[0]
        if set(marks) != {VERSION} or set(sizes) != {block_tokens}:
            return False
        if ids.sizes != [each // block_tokens for each in tokens]:
            return False
        self.block_tokens = block_tokens
        sessions = session_codes(names, self._sessions)
        given = types if set(types) != {None} else None
        self.columns.extend(times_ms, tokens, outputs, sessions, ids, given)
        return True


def _check_number(ids: array[int], input_tokens: int, block_tokens: int) -> None:
    full = input_tokens // block_tokens
    if len(ids) != full:
        raise Wrong(
            "hash_ids",
            f"{len(ids)} ids for {input_tokens} tokens",
            f"{full} ({block_tokens}-token blocks)",
        )


def _is_exact(raw: bytes, row: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing in a row."""
    # Tags may be true or false, but no id is: only a bool item could be lost.
    plain = b"-" not in raw and b"[true" not in raw and b"[false" not in raw
    plain = plain and b",true" not in raw and b",false" not in raw
    if not take_ids(row, "hash_ids", plain) or has_float(row.get("session_id")):
        return False
    return raw.count(b":") == len(row)


class _WholeRows:
    """Lines but the last one where it was cut off; rows are flat objects."""

    def __init__(self, lines: Iterable[tuple[int, bytes]]) -> None:
        self._lines = lines
        self.num_cut = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        before: tuple[int, bytes] | None = None
        for line in self._lines:
            if before is not None:
                yield before
            before = line
        if before is not None and before[1].rstrip().endswith(b"}"):
            yield before
        elif before is not None:
            self.num_cut = 1


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a recording.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        None is taken.

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
    rows, lines = _Rows(), _WholeRows(source.lines())
    read_rows(lines, bad_rows, rows.add, rows.add_usual)
    columns = rows.columns
    if not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no request has a full block "
            "(lengths alone say nothing about cache hits)"
        )
    warnings: tuple[str, ...] = ()
    if lines.num_cut:
        warnings = ("the last row is cut off, by a crash of its server; left out",)
    about = Described(NAME, rows.block_tokens, units_per_s=_MS_PER_S)
    # Rows stand in the order of ends: none is out of place.
    moved = (np.array(columns.arrival), np.zeros(len(columns), np.int64))
    return build(columns, about, source, bad_rows, warnings, moved)


def detect(head: bytes) -> bool:
    """Whether a file looks like this format.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether one of the first lines begins as every row does.
    """
    return any(line.startswith(HEAD) for line in head_lines(head))


SPEC = FormatSpec(
    name=NAME,
    description="recordings of hotset in vLLM: milliseconds, block size in each row",
    detect=detect,
    read=read,
)
