"""Ids of blocks in parsed JSON, of any width."""

from array import array
from collections.abc import Mapping
from typing import Any

from hotset.traces.intern import Codes
from hotset.traces.json_rows import WrongValue

_MAX_INT64 = 2**63 - 1


class IdCodes:
    """Block ids of any width, and strings, as int64 codes."""

    def __init__(self) -> None:
        self._codes = Codes()

    @property
    def others(self) -> Codes:
        """Ids that are no small integers: of code -1 - i the one at place i."""
        return self._codes

    def codes(self, row: Mapping[str, Any], field: str) -> "array[int]":
        """Ids of a row: small integers as they are, all else below 0.

        Parameters
        ----------
        row : mapping
            The row.
        field : str
            Key of the list; absent or null means no ids.

        Returns
        -------
        array of int64
            Equal codes mean equal ids; "1" and 1 are different ids.

        Raises
        ------
        WrongValue
            If it is no list, or an item is no id.
        """
        value = row.get(field)
        if type(value) is array:  # by `take_ids`
            return value
        if value is None:
            return array("q")
        if type(value) is not list:
            raise WrongValue(field, value, "a list of ids")
        if not set(map(type, value)) <= {int, str}:
            at = next(i for i, x in enumerate(value) if type(x) not in (int, str))
            raise _wrong_id(field, at, value[at])
        try:
            ids = array("q", value)
            if not ids or min(ids) >= 0:
                return ids
        except (TypeError, OverflowError):
            pass
        for at, item in enumerate(value):
            if type(item) is int and item < 0:
                raise _wrong_id(field, at, item)
        return array("q", map(self._code, value))

    def _code(self, item: int | str) -> int:
        if type(item) is int and item <= _MAX_INT64:
            return item
        return -1 - self._codes.code(item)


def _wrong_id(field: str, at: int, value: Any) -> WrongValue:
    return WrongValue(field, value, "integers of 0 or more, or strings", at)


def is_plain(raw: bytes) -> bool:
    """Whether a text has no negative number and no bool.

    Parameters
    ----------
    raw : bytes
        A row or a document.

    Returns
    -------
    bool
        False also where the signs stand in a string.
    """
    return not (b"-" in raw or b"true" in raw or b"false" in raw)


def take_ids(row: dict[str, Any], field: str, plain: bool) -> bool:
    """Make an array of a row's list of ids, where all are small integers.

    Parameters
    ----------
    row : dict
        What the fast parser makes of a row; changed in place.
    field : str
        Key of the list.
    plain : bool
        Whether the row's text is plain, so that no id is negative or a bool.

    Returns
    -------
    bool
        False where an id is a float, in which digits may be lost.
    """
    value = row.get(field)
    if plain and type(value) is list:
        try:
            row[field] = array("q", value)
            return True
        except (TypeError, OverflowError):
            pass
    return not has_float(value)


def has_float(value: Any) -> bool:
    """Whether a parsed value is a float, or a list with one in it.

    Parameters
    ----------
    value : object
        Ids, or a session: the fast parser turns integers beyond 64 bits into
        floats there.

    Returns
    -------
    bool
        Whether the exact parser has to look.
    """
    if type(value) is list:
        return float in set(map(type, value))
    return type(value) is float
