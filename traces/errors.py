"""Errors about the user's input, worded for the person who has to fix it."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_ROW_ERRORS = 20
"""Row errors that are collected before a strict read gives up."""

_MAX_GOT_CHARS = 80


class TraceError(ValueError):
    """Wrong input: the message is one clear line (what, where, got, allowed)."""


@dataclass(frozen=True)
class RowError:
    """One rejected row of a trace file.

    Attributes
    ----------
    file : str
        The path as the user gave it.
    line : int
        1-based line of the (decompressed) file.
    field : str
        The field that is wrong; "row" where the row as a whole is.
    got : str
        The value found, as text.
    allowed : str
        What is allowed there.
    """

    file: str
    line: int
    field: str
    got: str
    allowed: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.field}: got {self.got}, "
            f"allowed: {self.allowed}"
        )


class RowErrors(TraceError):
    """Rejected rows of one file: one line each, then a line that counts them.

    Parameters
    ----------
    rows : Sequence[RowError]
        The errors, in file order.
    stopped : bool
        Whether reading stopped at the last of them, so that more may follow.
    """

    def __init__(self, rows: Sequence[RowError], stopped: bool) -> None:
        self.rows = tuple(rows)
        self.stopped = stopped
        noun = "row" if len(self.rows) == 1 else "rows"
        count = f"{len(self.rows)} wrong {noun}"
        if stopped:
            count += "; reading stopped there"
        super().__init__("\n".join([*map(str, self.rows), count]))


def show(value: object) -> str:
    """Text of a wrong value for an error message, short and printable.

    Parameters
    ----------
    value : object
        Whatever was found.

    Returns
    -------
    str
        At most about 80 characters, ASCII.
    """
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"  # e.g. an integer of too many digits
    if len(text) > _MAX_GOT_CHARS:
        text = text[:_MAX_GOT_CHARS] + "..."
    return text
