"""Values of a JSON row as they stand in the file, for error messages.

A parsed value does not say how it was written: 1e30 and a one with thirty
zeros are the same float.
"""

import json
import re
from collections.abc import Iterator
from itertools import islice

# Numbers stay text: the standard parser refuses integers of many digits.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_BETWEEN = re.compile(r"[ \t\r\n,:]*")


def as_written(raw: bytes, field: str, at: int | None = None) -> str | None:
    """Text of one value of a row.

    Parameters
    ----------
    raw : bytes
        The row, a JSON object in UTF-8.
    field : str
        Key of the value.
    at : int or None
        Position in the list that is the field's value; None means all of it.

    Returns
    -------
    str or None
        As in the file; None if it cannot be found.
    """
    try:
        text = raw.decode("utf-8")
        for key, begin, end in _members(text, text.index("{")):
            if key != field:
                continue
            if at is not None:
                _, begin, end = next(islice(_members(text, begin), at, None))
            return text[begin:end]
    except (ValueError, LookupError, StopIteration, RecursionError):
        return None
    return None


def _members(text: str, start: int) -> Iterator[tuple[str | None, int, int]]:
    """Key (of an object's members), begin and end of each value."""
    keyed = text[start] == "{"
    place = _next(text, start + 1)
    while text[place] not in "]}":
        key = None
        if keyed:
            key, place = _DECODER.raw_decode(text, place)
            place = _next(text, place)
        begin = place
        _, place = _DECODER.raw_decode(text, begin)
        yield key, begin, place
        place = _next(text, place)


def _next(text: str, place: int) -> int:
    """Where the next value, or the end of the list or object, is."""
    between = _BETWEEN.match(text, place)
    return place if between is None else between.end()
