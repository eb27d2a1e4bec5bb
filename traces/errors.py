"""Errors about the user's input, worded for the person who has to fix it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

MAX_ROW_ERRORS = 20
"""Row errors that are collected before a strict read gives up."""

_MAX_GOT_CHARS = 80


class TraceError(ValueError):
    """Wrong input: the message is one clear line (what, where, got, allowed).

    Parameters
    ----------
    message : str
        The line; characters that do not print, as a file's name may hold
        them, are escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ArgumentError(TraceError):
    """Wrong value of one argument.

    Parameters
    ----------
    name : str
        The argument's name.
    got : object
        The value.
    allowed : str
        What is allowed there.
    """

    def __init__(self, name: str, got: object, allowed: str) -> None:
        self.name, self.got, self.allowed = name, got, allowed
        super().__init__(f"{name}: got {shorten(ascii(got))}, allowed: {allowed}")


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
        lines = [one_line(str(row)) for row in self.rows]
        ValueError.__init__(self, "\n".join([*lines, count]))


def one_line(text: object) -> str:
    r"""Text as one printable line.

    Parameters
    ----------
    text : object
        A message, or a file's name.

    Returns
    -------
    str
        Line ends, control characters and the like as escapes, such as "\n";
        all other characters as they are.
    """
    line = str(text)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def shorten(text: str) -> str:
    """Beginning of a text, printable.

    Parameters
    ----------
    text : str
        Of any length.

    Returns
    -------
    str
        At most about 80 characters.
    """
    line = one_line(text[: _MAX_GOT_CHARS + 1])
    if len(line) > _MAX_GOT_CHARS:
        line = line[:_MAX_GOT_CHARS] + "..."
    return line


def show(value: object) -> str:
    """Text of a wrong value for an error message, short and printable.

    Parameters
    ----------
    value : object
        Whatever was found.

    Returns
    -------
    str
        As JSON where it is a JSON value; at most about 80 characters, ASCII.
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        try:
            text = ascii(value)
        except (ValueError, RecursionError):
            # For example an integer of too many digits.
            text = f"a {type(value).__name__}"
    return shorten(text)
