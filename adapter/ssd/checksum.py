"""Checksums of slots: XXH3 from a library where it is installed, else zlib's CRC-32.

The slot header says which of the two it was made with; both can be read wherever the
library is there. Both let other threads run meanwhile.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

CRC32, XXH3 = 1, 2
Checksum = Callable[[memoryview], int]


def _available() -> dict[int, Checksum]:
    found: dict[int, Checksum] = {CRC32: zlib.crc32}
    try:
        import xxhash
    except ImportError:
        return found
    found[XXH3] = xxhash.xxh3_64_intdigest
    return found


CHECKSUMS = _available()
BEST = max(CHECKSUMS)
