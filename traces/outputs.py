"""Checks, before any work, that no output replaces an input or another output."""

import os
import stat
from collections.abc import Mapping

from hotset.traces.errors import TraceError
from hotset.traces.files import STDIN, check_writable, is_special

Named = Mapping[str, str | os.PathLike[str]]


def check_outputs(outputs: Named, inputs: Named) -> None:
    """Check that outputs can be written and are files of their own.

    Parameters
    ----------
    outputs, inputs : mapping of str to path
        Files by the option that names them, for messages. "-" as an input is
        standard input.

    Raises
    ------
    TraceError
        If an output cannot be written, or is the same file as an input or as
        another output, whatever the paths look like.
    """
    taken = {_identity(path): name for name, path in inputs.items()}
    for name, path in outputs.items():
        check_writable(path)
        if is_special(path):
            continue
        identity = _identity(path)
        if identity in taken:
            raise TraceError(
                f"{name} {os.fspath(path)}: the same file as {taken[identity]}"
            )
        taken[identity] = name


def _identity(path: str | os.PathLike[str]) -> object:
    """Return what tells a file from others: its inode, or where its name leads."""
    try:
        found = os.fstat(0) if os.fspath(path) == STDIN else os.stat(path)
    except OSError:
        return os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode):
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
