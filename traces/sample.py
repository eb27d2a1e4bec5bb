"""The bundled sample trace, and the name that stands for it."""

import importlib.resources
import os
from pathlib import Path

SAMPLE = "sample"
"""Name that stands for the bundled trace where no file has it."""


def sample_path() -> Path:
    """Path of the bundled sample trace.

    Returns
    -------
    Path
        A file of the installed package.
    """
    return Path(
        str(importlib.resources.files("hotset.traces") / "data/sample.jsonl.gz")
    )


def locate(path: str | os.PathLike[str]) -> str:
    """Path of the file that an input's name stands for.

    Parameters
    ----------
    path : str or path-like
        A name as the user gave it.

    Returns
    -------
    str
        The bundled trace for "sample" where no file has that name (a folder
        does not count); any other name as it is.
    """
    name = os.fspath(path)
    if name == SAMPLE and not os.path.isfile(name):
        return str(sample_path())
    return name
