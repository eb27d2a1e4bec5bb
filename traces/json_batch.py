"""Many JSON rows of the usual form at once: what takes too long one by one.

Every function here either finds that all rows of a batch are as usual, and does at
once what the checks of single rows would do, or says None and leaves the batch to
them. Nothing is refused here.
"""

import itertools
from array import array
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson

from hotset.traces.intern import Codes
from hotset.traces.json_rows import (
    MAX_TOKENS,
    MAX_TYPES,
    SESSION_LIMIT,
    SessionCodes,
    are_keys_once,
)

_MAX_NUMBER = 2.0**63
Row = dict[str, Any]


class Ids(NamedTuple):
    """Ids of many rows.

    Attributes
    ----------
    ids : array of int64
        Of all rows, one after the other.
    sizes : list of int
        How many each row has.
    """

    ids: "array[int]"
    sizes: list[int]


def flat_rows(raws: Sequence[bytes]) -> list[Row] | None:
    """Objects of lines, where each holds values and lists of values only.

    Parameters
    ----------
    raws : sequence of bytes
        The lines.

    Returns
    -------
    list of dict or None
        None where a line is no such object, or may have a key twice.
    """
    if not all(raw[:1] == b"{" and raw[-1:] == b"}" for raw in raws):
        return None
    text = b"[" + b",\n".join(raws) + b"]"
    # With the brace that begins each line there is no other: an object is a line.
    if text.count(b"{") != len(raws):
        return None
    try:
        rows: list[Row] = orjson.loads(text)
    except ValueError:
        return None
    if len(rows) != len(raws) or not are_keys_once(text, sum(map(len, rows))):
        return None
    return rows


def numbers(rows: Sequence[Row], field: str) -> list[float] | None:
    """Numbers of rows, 0 or more and below 2**63.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        Key of the value.

    Returns
    -------
    list of int or float, or None
        None where a row has something else.
    """
    try:
        values = list(map(itemgetter(field), rows))
    except KeyError:
        return None
    if not set(map(type, values)) <= {int, float}:
        return None
    return values if min(values) >= 0 and max(values) < _MAX_NUMBER else None


def counts(rows: Sequence[Row], field: str, least: int) -> list[int] | None:
    """Whole numbers of tokens of rows.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        Key of the value.
    least : int
        Smallest allowed value.

    Returns
    -------
    list of int or None
        None where a row has something else, 655.0 included.
    """
    try:
        values = list(map(itemgetter(field), rows))
    except KeyError:
        return None
    if set(map(type, values)) != {int}:
        return None
    return values if min(values) >= least and max(values) <= MAX_TOKENS else None


def small_ids(rows: Sequence[Row], field: str) -> Ids | None:
    """Ids of rows, where all are integers of 0 or more and below 2**63.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        Key of the list; absent or null means no ids.

    Returns
    -------
    Ids or None
        None where an id is something else.
    """
    lists: list[Any] = [row.get(field) for row in rows]
    if set(map(type, lists)) != {list}:
        lists = [[] if ids is None else ids for ids in lists]
        if set(map(type, lists)) != {list}:
            return None
    values = list(itertools.chain.from_iterable(lists))
    try:
        ids = array("q", values)
    except (TypeError, OverflowError):  # strings and floats, also for long integers
        return None
    least = int(np.frombuffer(ids, np.int64).min()) if values else 2
    # A bool counts as 0 or 1.
    if least < 0 or (least < 2 and set(map(type, values)) != {int}):
        return None
    return Ids(ids, list(map(len, lists)))


def texts(rows: Sequence[Row], field: str, known: Codes) -> list[str | None] | None:
    """Short texts of rows.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        Key of the text; absent or null means none.
    known : Codes
        Those that were seen.

    Returns
    -------
    list of str or None, or None
        None where a row has something else, or they become too many.
    """
    values = [row.get(field) for row in rows]
    if not set(map(type, values)) <= {str, type(None)}:
        return None
    distinct = set(values) - {None}
    if any(len(text) > SESSION_LIMIT for text in distinct if text is not None):
        return None
    is_few = len(known) + sum(text not in known for text in distinct) <= MAX_TYPES
    return values if is_few else None


def session_names(rows: Sequence[Row], field: str) -> list[int | str | None] | None:
    """Names of sessions or chats of rows.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        Key of the name; absent or null means none.

    Returns
    -------
    list of int, str or None, or None
        None where a row has something else.
    """
    values = [row.get(field) for row in rows]
    kinds = set(map(type, values))
    if not kinds <= {int, str, type(None)}:
        return None
    if str in kinds and any(
        type(value) is str and len(value) > SESSION_LIMIT for value in values
    ):
        return None
    return values


def session_codes(
    values: Sequence[int | str | None], sessions: SessionCodes
) -> list[int]:
    """Codes of sessions, -1 for none.

    Parameters
    ----------
    values : sequence of int, str or None
        From `session_names`.
    sessions : SessionCodes
        Those that were seen.

    Returns
    -------
    list of int
        As `SessionCodes.code` gives them.
    """
    if set(values) == {None}:
        return [-1] * len(values)
    code = sessions.seen.code
    return [-1 if value is None else code(value) for value in values]


def have_fitting(
    sizes: Sequence[int], tokens: Sequence[int], block_tokens: int, partial: bool | None
) -> bool:
    """Whether requests have as many ids as their lengths ask for, or none.

    Parameters
    ----------
    sizes, tokens : sequence of int
        Ids, and length, of each.
    block_tokens : int
        Tokens per block.
    partial : bool or None
        Whether a last block that is not full has an id; None allows both.

    Returns
    -------
    bool
        False where one has another number.
    """
    num_ids, length = np.array(sizes), np.array(tokens)
    fits = num_ids == 0
    if partial is not False:
        fits |= num_ids == -(-length // block_tokens)
    if partial is not True:
        fits |= num_ids == length // block_tokens
    return bool(fits.all())


def has_only(rows: Sequence[Row], field: str, value: int) -> bool:
    """Whether a field has one value wherever it is.

    Parameters
    ----------
    rows : sequence of dict
        From `flat_rows`.
    field : str
        The field.
    value : int
        The value.

    Returns
    -------
    bool
        False where a row has something else.
    """
    return all(row.get(field, value) == value for row in rows)
