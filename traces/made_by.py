"""Which command makes a result, for the result itself to say.

Options that change no result are left out: where files go, where a search is kept (a
database's address may hold a password), and on what the work is done. So the same
question gives the same bytes whatever they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version

PROGRAM = "hotset"
# Each takes a value.
_CHANGES_NOTHING = frozenset(
    (
        "--csv",
        "--every",
        "--jobs",
        "--json",
        "--out",
        "--per-request",
        "--plot",
        "--ray",
        "--rejects",
        "--storage",
    )
)
_COMMAND: ContextVar[str | None] = ContextVar("hotset_command", default=None)


@contextmanager
def running(arguments: Sequence[str]) -> Iterator[None]:
    """Let results that are made inside name the command with these arguments."""
    token = _COMMAND.set(command_text(arguments))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def command_text(arguments: Sequence[str]) -> str:
    """Return a command as it is typed, without what changes no result."""
    kept = [PROGRAM]
    words = iter(arguments)
    for word in words:
        option, _, value = word.partition("=")
        if option not in _CHANGES_NOTHING:
            kept.append(word)
        elif not value and "=" not in word:
            next(words, None)
    return shlex.join(kept)


def made_by() -> dict[str, str | None]:
    """Return program version and command; None where no command is running."""
    return {PROGRAM: version(PROGRAM), "command": _COMMAND.get()}
