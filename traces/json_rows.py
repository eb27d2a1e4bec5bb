"""JSON objects with the values of requests, checked."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from hotset.traces.as_written import as_written
from hotset.traces.errors import shorten, show
from hotset.traces.intern import Codes
from hotset.traces.rows import BadRows

MAX_TOKENS = 2**31 - 1

# What may stand between a key and its colon in a line.
_BLANKS = (b" ", b"\t", b"\r")

_MAX_NUMBER = 2.0**63
SESSION_LIMIT = 256


class Wrong(Exception):
    """Something wrong: field, what was found, what is allowed.

    Parameters
    ----------
    field, got, allowed : str
        See `RowError`.
    """

    def __init__(self, field: str, got: str, allowed: str) -> None:
        super().__init__(field, got, allowed)
        self.field, self.got, self.allowed = field, got, allowed

    def found(self, raw: bytes) -> str:
        """Tell what was found, for the message about a row.

        Parameters
        ----------
        raw : bytes
            The row.

        Returns
        -------
        str
            Short and printable.
        """
        return self.got


class WrongValue(Wrong):
    """A wrong value of a field, or of an item of the list in that field.

    Parameters
    ----------
    field : str
        Key of the value in its row.
    value : object
        The value, as parsed.
    allowed : str
        What is allowed there.
    at : int or None
        Position in the list that is the field's value; None means all of it.
    """

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


def number(row: Mapping[str, Any], field: str, allowed: str) -> float:
    """Finite number of a row, 0 or more and below 2**63.

    Parameters
    ----------
    row : mapping
        The row.
    field : str
        Key of the value.
    allowed : str
        What is allowed, for the message.

    Returns
    -------
    float
        The number.

    Raises
    ------
    Wrong
        If it is missing or something else; a bool is no number.
    """
    if field not in row:
        raise Wrong(field, "nothing", allowed)
    value = row[field]
    if type(value) not in (int, float) or not 0 <= value < _MAX_NUMBER:
        raise WrongValue(field, value, allowed)
    return float(value)


def count(row: Mapping[str, Any], field: str, least: int) -> int:
    """Whole number of tokens of a row; 655.0 counts as 655.

    Parameters
    ----------
    row : mapping
        The row.
    field : str
        Key of the value.
    least : int
        Smallest allowed value.

    Returns
    -------
    int
        At most 2**31 - 1.

    Raises
    ------
    Wrong
        If it is missing or something else.
    """
    value = row.get(field)
    if type(value) is int and least <= value <= MAX_TOKENS:
        return value
    allowed = f"a whole number of tokens, {least}..{MAX_TOKENS}"
    value = number(row, field, allowed)
    if not value.is_integer() or not least <= value <= MAX_TOKENS:
        raise WrongValue(field, row[field], allowed)
    return int(value)


class SessionCodes:
    """Sessions as codes 0, 1, 2, ... in order of first appearance.

    Attributes
    ----------
    seen : Codes
        All sessions, by code.
    """

    def __init__(self) -> None:
        self.seen = Codes()

    def code(self, row: Mapping[str, Any], field: str) -> int:
        """Code of a row's session.

        Parameters
        ----------
        row : mapping
            The row.
        field : str
            Key of the session.

        Returns
        -------
        int
            -1 where it is absent or null.

        Raises
        ------
        WrongValue
            If it is neither an integer nor a short string.
        """
        value = row.get(field)
        if value is None:
            return -1
        short = type(value) is str and len(value) <= SESSION_LIMIT
        if type(value) is int or short:
            return self.seen.code(value)
        allowed = f"an integer, or a string of at most {SESSION_LIMIT} characters"
        raise WrongValue(field, value, allowed)


MAX_TYPES = 256
_BATCH_BYTES = 1 << 16


def short_text(row: Mapping[str, Any], field: str, names: Codes) -> str | None:
    """Short text of a row that is one of few.

    Parameters
    ----------
    row : mapping
        The row.
    field : str
        Key of the text; absent or null means none.
    names : Codes
        Those that were seen.

    Returns
    -------
    str or None
        At most 256 characters.

    Raises
    ------
    WrongValue
        If it is no such text, or the 257th of its kind.
    """
    value = row.get(field)
    if value is None:
        return None
    if type(value) is not str or len(value) > SESSION_LIMIT:
        allowed = f"a string of at most {SESSION_LIMIT} characters"
        raise WrongValue(field, value, allowed)
    if len(names) >= MAX_TYPES and value not in names:
        raise WrongValue(field, value, f"at most {MAX_TYPES} different texts")
    return value


def read_rows(
    lines: Iterable[tuple[int, bytes]],
    bad_rows: BadRows,
    add: Callable[[bytes], object],
    add_usual: Callable[[list[bytes]], bool] | None = None,
) -> None:
    """Hand each line of a file to a function; wrong ones are rejected.

    Parameters
    ----------
    lines : Iterable of (int, bytes)
        Line number and line.
    bad_rows : BadRows
        What to do with wrong rows.
    add : callable
        Takes a line; raises `Wrong`.
    add_usual : callable or None
        Takes many lines at once if all are of a usual form, and tells whether
        they are; of others each goes to `add`.

    Raises
    ------
    TraceError
        As `BadRows.add` and `BadRows.finish`.
    """
    rows_read = 0
    for batch in _batches(lines) if add_usual else ([row] for row in lines):
        rows_read += len(batch)
        if add_usual is not None and add_usual([raw for _, raw in batch]):
            continue
        for line, raw in batch:
            try:
                add(raw)
            except Wrong as wrong:
                bad_rows.add(line, raw, wrong.field, wrong.found(raw), wrong.allowed)
    bad_rows.finish(rows_read)


def _batches(lines: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Lines in lists of a bounded size."""
    batch: list[tuple[int, bytes]] = []
    size = 0
    for row in lines:
        batch.append(row)
        size += len(row[1])
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def are_keys_once(text: bytes, num_keys: int) -> bool:
    """Whether flat objects have no key twice.

    Parameters
    ----------
    text : bytes
        Their text, a line each.
    num_keys : int
        Keys that the fast parser finds in them, the last of equal ones only.

    Returns
    -------
    bool
        False also for objects within them, and where strings look like keys.
    """
    if text.count(b":") == num_keys:
        return True
    # A quote with a colon behind it ends a key, or is in a string. No more of them
    # than keys were found: none was twice.
    if text.count(b'":') != num_keys:
        return False
    return not any(each in text and each + b":" in text for each in _BLANKS)


def parse(
    raw: bytes, is_exact: Callable[[bytes, dict[str, Any]], bool]
) -> dict[str, Any]:
    """JSON object: by the fast parser where it is exact, the standard one else.

    The fast parser turns integers beyond 64 bits into floats, keeps the last
    of equal keys without a word, and does not say where NaN or Infinity is.

    Parameters
    ----------
    raw : bytes
        A row or a document.
    is_exact : callable
        Whether, given both, the fast parser's object holds no float where an
        id may be, and has no key twice.

    Returns
    -------
    dict
        The object.

    Raises
    ------
    Wrong
        If it is no JSON object in UTF-8, or has a key twice.
    """
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _parse_exactly(raw)
    if type(row) is not dict:
        raise _no_object(raw)
    return row if is_exact(raw, row) else _parse_exactly(raw)


def _parse_exactly(raw: bytes) -> dict[str, Any]:
    try:
        row = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique_object)
    except UnicodeDecodeError as error:
        got = f"invalid UTF-8 at byte {error.start}"
        raise Wrong("row", got, "a JSON object in UTF-8") from None
    except RecursionError:
        raise Wrong("row", "too deep a nesting", "a JSON object") from None
    except json.JSONDecodeError as error:
        if b"\r" in raw:
            got = "several lines, or a part of one, that end in CR alone"
            raise Wrong("row", got, "a JSON object and LF or CRLF") from None
        raise Wrong("row", f"no JSON ({error})", "a JSON object") from None
    except ValueError:
        most = sys.get_int_max_str_digits()
        got = f"an integer of more than {most} digits"
        raise Wrong("row", got, "shorter ones") from None
    if type(row) is not dict:
        raise _no_object(raw)
    return row


def _no_object(raw: bytes) -> Wrong:
    got = shorten(raw[:400].decode("ascii", "backslashreplace"))
    return Wrong("row", got, "a JSON object")


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON object from its pairs; a key twice is an error."""
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Wrong(show(twice)[1:-1], "the key twice", "each key once in an object")
    return row
