"""Numbers of bytes as configurations write them: plain, or with a unit."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BYTES = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGT]?)(i?)B")


def read_bytes(value: Any) -> int | None:
    """Return a number of bytes, as it is or with a unit; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    matched = _BYTES.fullmatch(value) if isinstance(value, str) else None
    if matched is None or (matched[3] and not matched[2]):
        return None
    unit = (1024 if matched[3] else 1000) ** _UNITS[matched[2]]
    return int(Fraction(matched[1]) * unit)
