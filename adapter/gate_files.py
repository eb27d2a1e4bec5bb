"""Files of the fidelity gate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hotset.adapter import tuned_file
from hotset.adapter.gate_errors import GateError
from hotset.policies.errors import PolicyError


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    GateError
        If it cannot be read or is no JSON.
    """
    try:
        return tuned_file.read_json(str(path))
    except PolicyError as error:
        raise GateError(str(error)) from None


def check_place(path: Path) -> None:
    """Refuse what cannot become a file, before work goes into it.

    Raises
    ------
    GateError
        If it is there and no file, or its folder cannot be written.
    """
    # Not Path's own: they raise for a name that is too long.
    if os.path.exists(path) and not os.path.isfile(path):
        raise GateError(f"{path}: is no file")
    if not os.path.isdir(path.parent):
        raise GateError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GateError(f"{path}: the folder cannot be written")


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    GateError
        If it cannot be written.
    """
    check_place(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise GateError(f"{path}: {error.strerror}") from None
