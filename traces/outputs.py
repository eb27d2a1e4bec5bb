"""Checks, before any work, that no output replaces an input or another output."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from hotset.traces.bundles import belongs
from hotset.traces.errors import TraceError
from hotset.traces.files import STDIN, check_writable, is_special
from hotset.traces.sample import locate

Named = Mapping[str, str | os.PathLike[str]]


def check_outputs(outputs: Named, inputs: Named) -> None:
    """Check that outputs can be written and are files of their own.

    Parameters
    ----------
    outputs, inputs : mapping of str to path
        Files by the option that names them, for messages. As an input, "-" is
        standard input and "sample" the bundled trace.

    Raises
    ------
    TraceError
        If an output cannot be written, would be one of the files of a folder
        that is an input, or is the same file as an input or as another output,
        whatever the paths look like.
    """
    taken = {_input_identity(path): name for name, path in inputs.items()}
    for name, path in outputs.items():
        check_writable(path)
        if is_special(path):
            continue
        identity = _identity(path)
        if identity in taken:
            raise TraceError(
                f"{name} {os.fspath(path)}: the same file as {taken[identity]}"
            )
        for folder, its_name in _folders(inputs):
            if belongs(path) and _is_in(path, folder):
                raise TraceError(
                    f"{name} {os.fspath(path)}: would be one of the files of {its_name}"
                )
        taken[identity] = name


def check_apart(trace: Named, merge: Sequence[str]) -> None:
    """Check that no file of a merged trace is there twice.

    Parameters
    ----------
    trace : mapping of str to path
        The first file, by what names it.
    merge : sequence of str
        The others.

    Raises
    ------
    TraceError
        If two are the same file, whatever the paths look like.
    """
    taken = {_input_identity(path): name for name, path in trace.items()}
    for path in merge:
        identity = _input_identity(path)
        if identity in taken:
            raise TraceError(f"--merge {path}: the same file as {taken[identity]}")
        taken[identity] = f"--merge {path}"


def _folders(inputs: Named) -> Iterator[tuple[str, str]]:
    """Yield inputs that are folders, with what names them."""
    for name, path in inputs.items():
        place = locate(path)
        if place != STDIN and "\0" not in place and os.path.isdir(place):
            yield os.path.realpath(place), name


def _is_in(path: str | os.PathLike[str], folder: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), folder]) == folder


def _input_identity(path: str | os.PathLike[str]) -> object:
    """Return what tells an input from other files, standard input included."""
    return _identity(0 if os.fspath(path) == STDIN else locate(path))


def _identity(file: str | os.PathLike[str] | int) -> object:
    """Return what tells a file from others: its inode, or where its name leads."""
    try:
        found = os.stat(file)
    except ValueError:  # no file can have this name
        return file
    except OSError:
        return file if isinstance(file, int) else os.path.realpath(file)
    if isinstance(file, int) or stat.S_ISREG(found.st_mode):
        return found.st_dev, found.st_ino
    return os.path.realpath(file)
