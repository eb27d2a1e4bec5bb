"""Mooncake's JSON lines: one request a line, ids of 512-token blocks.

Fields: `timestamp` (ms), `input_length` and `output_length` (tokens),
`hash_ids` (ceil(input_length / 512) ids, each standing for its whole prefix;
empty or absent: nothing is known about reuse), and optionally `session_id`
(integer or string) and `block_size` (which must be 512). Others are ignored.
"""

import json
from array import array
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from hotset.traces.as_written import as_written
from hotset.traces.errors import TraceError, shorten, show
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.intern import Codes, densify, intern_ids
from hotset.traces.model import Provenance, Trace
from hotset.traces.rows import BadRows

NAME = "mooncake"
BLOCK_TOKENS = 512
MAX_TOKENS = 2**31 - 1
MAX_TIMESTAMP_S = 2.0**53

_MS_PER_S = 1000.0
_MAX_NUMBER = 2.0**63
_TIMESTAMPS = "a number of milliseconds, 0 or more, below 2**63"
_MAX_INT64 = 2**63 - 1
_SESSION_LIMIT = 256
# Above this the clock was probably in seconds; a warning, not a verdict.
_BUSIEST_REQUESTS_PER_S = 1000.0
_FEW_REQUESTS = 100

_FIELDS = (b'"timestamp"', b'"input_length"', b'"output_length"', b'"hash_ids"')


class _Wrong(Exception):
    """Something wrong: field, what was found, what is allowed."""

    def __init__(self, field: str, got: str, allowed: str) -> None:
        super().__init__(field, got, allowed)
        self.field, self.got, self.allowed = field, got, allowed

    def found(self, raw: bytes) -> str:
        """Return what was found, for the message about a row."""
        return self.got


class _WrongValue(_Wrong):
    """A wrong value of a field, or of an item of the list in that field."""

    def __init__(
        self, field: str, value: Any, allowed: str, at: int | None = None
    ) -> None:
        name = field if at is None else f"{field}[{at}]"
        super().__init__(name, show(value), allowed)
        self._place = field, at

    def found(self, raw: bytes) -> str:
        """Return the value as it stands in the file."""
        text = as_written(raw, *self._place)
        return self.got if text is None else shorten(text)


class _Columns:
    """Rows read so far, as growing columns."""

    def __init__(self) -> None:
        self.timestamp_ms = array("d")
        self.input_tokens = array("q")
        self.output_tokens = array("q")
        self.session = array("q")
        self.sizes = array("q")
        self.ids = array("q")
        self._session_codes = Codes()
        self._id_codes = Codes()

    def add(self, row: Mapping[str, Any]) -> None:
        """Check a row and append it; raises `_Wrong` and changes no column."""
        timestamp_ms = _number(row, "timestamp", _TIMESTAMPS)
        input_tokens = _count(row, "input_length", 1)
        output_tokens = _count(row, "output_length", 0)
        if row.get("block_size", BLOCK_TOKENS) != BLOCK_TOKENS:
            raise _WrongValue("block_size", row["block_size"], f"{BLOCK_TOKENS}")
        session = self._session(row.get("session_id"))
        ids = self._ids(row.get("hash_ids"))
        if len(ids) not in (0, -(-input_tokens // BLOCK_TOKENS)):
            _wrong_number(len(ids), input_tokens)
        self.timestamp_ms.append(timestamp_ms)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        self.session.append(session)
        self.sizes.append(len(ids))
        self.ids.extend(ids)

    def _session(self, value: Any) -> int:
        if value is None:
            return -1
        if type(value) is int or (type(value) is str and len(value) <= _SESSION_LIMIT):
            return self._session_codes.code(value)
        allowed = f"an integer, or a string of at most {_SESSION_LIMIT} characters"
        raise _WrongValue("session_id", value, allowed)

    def _ids(self, value: Any) -> "array[int]":
        """Ids as int64 codes: small integers as they are, all else below 0."""
        if value is None:
            return array("q")
        if type(value) is not list:
            raise _WrongValue("hash_ids", value, "a list of ids")
        if not set(map(type, value)) <= {int, str}:
            at = next(i for i, x in enumerate(value) if type(x) not in (int, str))
            _wrong_id(at, value[at])
        try:
            ids = array("q", value)
            if not ids or min(ids) >= 0:
                return ids
        except (TypeError, OverflowError):
            pass
        for at, item in enumerate(value):
            if type(item) is int and item < 0:
                _wrong_id(at, item)
        return array("q", map(self._code, value))

    def _code(self, item: int | str) -> int:
        if type(item) is int and item <= _MAX_INT64:
            return item
        return -1 - self._id_codes.code(item)


def _number(row: Mapping[str, Any], field: str, allowed: str) -> float:
    """Finite number >= 0 of a row."""
    if field not in row:
        raise _Wrong(field, "nothing", allowed)
    value = row[field]
    if type(value) not in (int, float) or not 0 <= value < _MAX_NUMBER:
        raise _WrongValue(field, value, allowed)
    return float(value)


def _count(row: Mapping[str, Any], field: str, least: int) -> int:
    """Whole number of tokens of a row; 655.0 counts as 655."""
    value = _number(row, field, f"a whole number of tokens, {least}..{MAX_TOKENS}")
    if not value.is_integer() or not least <= value <= MAX_TOKENS:
        allowed = f"a whole number of tokens, {least}..{MAX_TOKENS}"
        raise _WrongValue(field, row[field], allowed)
    return int(value)


def _wrong_id(at: int, value: Any) -> NoReturn:
    raise _WrongValue("hash_ids", value, "integers of 0 or more, or strings", at)


def _wrong_number(num_ids: int, input_tokens: int) -> NoReturn:
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
    raise _Wrong(
        "hash_ids",
        f"{num_ids} ids for {input_tokens} tokens",
        f"{allowed}; {hint}",
    )


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON object from its pairs; a key twice is an error."""
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Wrong(show(twice)[1:-1], "the key twice", "each key once in an object")
    return row


def _parse(raw: bytes) -> Mapping[str, Any]:
    """Row of a line: the fast parser where it is exact, the standard one else.

    The fast parser turns integers beyond 64 bits into floats, keeps the last
    of equal keys without a word, and does not say where NaN or Infinity is.
    """
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _parse_exactly(raw)
    if type(row) is not dict:
        raise _Wrong(
            "row", shorten(raw.decode("ascii", "backslashreplace")), "a JSON object"
        )
    ids = row.get("hash_ids")
    has_float = type(ids) is list and float in set(map(type, ids))
    if has_float or type(row.get("session_id")) is float:
        return _parse_exactly(raw)
    if raw.count(b":") != len(row):
        # Nested objects, colons in strings, or a key twice.
        return _parse_exactly(raw)
    return row


def _parse_exactly(raw: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique_object)
    except UnicodeDecodeError as error:
        got = f"invalid UTF-8 at byte {error.start}"
        raise _Wrong("row", got, "a JSON object in UTF-8") from None
    except RecursionError:
        raise _Wrong("row", "too deep a nesting", "a JSON object") from None
    except ValueError as error:
        raise _Wrong("row", f"no JSON ({error})", "a JSON object") from None
    if type(row) is not dict:
        raise _Wrong(
            "row", shorten(raw.decode("ascii", "backslashreplace")), "a JSON object"
        )
    return row


def read(source: Source, bad_rows: BadRows) -> Trace:
    """Read a Mooncake trace.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.

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
    columns = _Columns()
    rows_read = 0
    for line, raw in source.lines():
        rows_read += 1
        try:
            columns.add(_parse(raw))
        except _Wrong as wrong:
            bad_rows.add(line, raw, wrong.field, wrong.found(raw), wrong.allowed)
    bad_rows.finish(rows_read)
    if not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no row has hash_ids "
            "(lengths alone say nothing about cache hits)"
        )
    return _build(source, columns, rows_read, bad_rows.count)


def _build(source: Source, columns: _Columns, rows_read: int, rejected: int) -> Trace:
    """Sort, intern and describe the rows."""
    timestamp_ms = np.frombuffer(columns.timestamp_ms, np.float64)
    sizes = np.frombuffer(columns.sizes, np.int64)
    raw_ids = np.frombuffer(columns.ids, np.int64)
    warnings = []
    if num_backward := int(np.count_nonzero(np.diff(timestamp_ms) < 0)):
        warnings.append(
            f"rows earlier than the row before them: {num_backward}; "
            "sorted by time, then line"
        )
    order = np.argsort(timestamp_ms, kind="stable")
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes[order], out=offsets[1:])
    if num_backward:
        starts = (np.cumsum(sizes) - sizes)[order]
        shift = np.repeat(starts - offsets[:-1], sizes[order])
        raw_ids = raw_ids[np.arange(raw_ids.size, dtype=np.int64) + shift]
    interned = intern_ids(raw_ids, offsets, chained=True)
    if interned.num_unchained:
        warnings.append(
            f"ids behind more than one parent: {interned.num_unchained}; they do not "
            "stand for whole prefixes, so blocks are told apart by (parent, id)"
        )
    arrival_s = timestamp_ms[order] / _MS_PER_S
    span_s = float(arrival_s[-1] - arrival_s[0])
    busiest = arrival_s.size > _BUSIEST_REQUESTS_PER_S * span_s > 0
    if busiest and arrival_s.size >= _FEW_REQUESTS:
        warnings.append(
            f"{arrival_s.size} requests in {span_s:g} s: timestamps look like seconds, "
            "and were read as this format's milliseconds"
        )
    return Trace(
        block_tokens=BLOCK_TOKENS,
        request_offsets=offsets,
        block_ids=interned.ids,
        arrival_s=arrival_s,
        input_tokens=np.frombuffer(columns.input_tokens, np.int64)[order],
        output_tokens=np.frombuffer(columns.output_tokens, np.int64)[order],
        session=_in_order(np.frombuffer(columns.session, np.int64)[order]),
        provenance=Provenance(
            format=NAME,
            path=source.path,
            sha256=source.sha256(),
            rows_read=rows_read,
            rows_rejected=rejected,
            warnings=tuple(warnings),
        ),
        id_scope="global",
        chained=True,
    )


def _in_order(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sessions renumbered in order of first appearance; -1 stays."""
    known = session >= 0
    numbered = session.copy()
    numbered[known] = densify(session[known])[0]
    return numbered


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
