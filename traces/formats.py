"""What a trace format is: its name, how to tell it, how to read it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hotset.traces.files import Source
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

_HEAD_LINES = 20

OnBadRow = Literal["strict", "skip"]


@dataclass(frozen=True)
class FormatSpec:
    """One trace format.

    Attributes
    ----------
    name : str
        Registry name, lower case.
    description : str
        One line for listings.
    detect : callable
        Whether a file is of this format, from its first decompressed bytes
        (at most 64 KiB, a byte-order mark included).
    read : callable
        Reads a source; wrong rows go to the `BadRows`.
    options : tuple of str
        The fields of `ReadOptions` that it takes.
    bundles : bool
        Whether a folder, or a tar archive of files, may be a trace.
    """

    name: str
    description: str
    detect: Callable[[bytes], bool]
    read: Callable[[Source, BadRows, ReadOptions], Trace]
    options: tuple[str, ...] = ()
    bundles: bool = False


def head_lines(head: bytes) -> list[bytes]:
    """First lines of a file that are not blank.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    list of bytes
        At most 20, stripped; the last may be cut.
    """
    text = head.removeprefix(b"\xef\xbb\xbf")
    lines = [line.strip() for line in text.split(b"\n")]
    return [line for line in lines if line][:_HEAD_LINES]
