"""The form of a slot: a header that says whose the bytes are, then the bytes.

The header has 512 bytes, the slot is a whole number of pages of 4096:

    0    checksum of all that follows, to the payload's end (8 bytes)
    8    magic (8), format version (2), kind of checksum (2), bytes of the key (2),
         2 zero bytes
    24   generation (8), slot number (8), payload length (8)
    48   namespace digest (32)
    80   key, then zeros up to 512

Numbers are little-endian. A slot counts only if every field is the one asked for.
"""

from __future__ import annotations

import struct

import numpy as np

from hotset.adapter.ssd.checksum import BEST, CHECKSUMS
from hotset.adapter.ssd.namespace import DIGEST_BYTES, FORMAT_VERSION

PAGE = 4096
HEADER_BYTES = 512
MAX_KEY_BYTES = 64
MAX_GENERATION = 1 << 47  # of what is read; this process may count on from there
_MAGIC = b"hotsetKV"
_CHECKSUM = struct.Struct("<Q")
_FIELDS = struct.Struct("<8sHHHHQQQ32s")
_KEY_AT = _CHECKSUM.size + _FIELDS.size

# Why a slot does not count.
TORN, FOREIGN, OTHER_KEY, STALE, CHECKSUM = (
    "torn",
    "foreign",
    "other_key",
    "stale",
    "checksum",
)


def slot_bytes(payload_bytes: int) -> int:
    """Return the bytes of a slot for payloads of a length."""
    return -(-(HEADER_BYTES + payload_bytes) // PAGE) * PAGE


class SlotForm:
    """Writes and checks slots of one namespace.

    Parameters
    ----------
    digest : bytes
        The namespace's, 32 bytes.
    payload_bytes : int
        Length of every payload.
    """

    def __init__(self, digest: bytes, payload_bytes: int) -> None:
        assert len(digest) == DIGEST_BYTES
        self.digest = digest
        self.payload_bytes = payload_bytes
        self.slot_bytes = slot_bytes(payload_bytes)
        self._end = HEADER_BYTES + payload_bytes

    def seal(self, page: memoryview, key: bytes, generation: int, slot: int) -> None:
        """Write the header of a slot whose payload is in place."""
        fields = _FIELDS.pack(
            _MAGIC,
            FORMAT_VERSION,
            BEST,
            len(key),
            0,
            generation,
            slot,
            self.payload_bytes,
            self.digest,
        )
        head = fields + key
        page[8:HEADER_BYTES] = head + bytes(HEADER_BYTES - 8 - len(head))
        checksum = CHECKSUMS[BEST](page[8 : self._end])
        page[:8] = _CHECKSUM.pack(checksum)

    def fault(self, page: memoryview, key: bytes, generation: int, slot: int) -> str:
        """Return why a slot is not what a row says that it is; empty if it is."""
        magic, version, kind, key_bytes, pad, number, at, length, digest = (
            _FIELDS.unpack_from(page, _CHECKSUM.size)
        )
        if magic != _MAGIC or version != FORMAT_VERSION or kind not in CHECKSUMS or pad:
            return TORN
        if digest != self.digest or length != self.payload_bytes:
            return FOREIGN
        if key_bytes != len(key) or page[_KEY_AT : _KEY_AT + key_bytes] != key:
            return OTHER_KEY
        if at != slot or generation != number:
            return STALE
        (checksum,) = _CHECKSUM.unpack_from(page, 0)
        if CHECKSUMS[kind](page[8 : self._end]) != checksum:
            return CHECKSUM
        return ""

    def claimed(self, head: memoryview) -> tuple[bytes, int, int] | None:
        """Return key, generation and slot that a header claims, if it is one of ours.

        Nothing of it is checked but the form: a load does that.
        """
        magic, version, kind, key_bytes, pad, number, at, length, digest = (
            _FIELDS.unpack_from(head, _CHECKSUM.size)
        )
        if magic != _MAGIC or version != FORMAT_VERSION or kind not in CHECKSUMS or pad:
            return None
        if digest != self.digest or length != self.payload_bytes:
            return None
        if not 0 < key_bytes <= MAX_KEY_BYTES or number >= MAX_GENERATION:
            return None
        return bytes(head[_KEY_AT : _KEY_AT + key_bytes]), number, at

    def put(self, page: memoryview, payload: memoryview) -> None:
        """Copy a payload into a slot; other threads run meanwhile."""
        _copy(page[HEADER_BYTES : self._end], payload)

    def take(self, page: memoryview, payload: memoryview) -> None:
        """Copy a slot's payload out; other threads run meanwhile."""
        _copy(payload, page[HEADER_BYTES : self._end])


def _copy(to: memoryview, source: memoryview) -> None:
    np.copyto(np.frombuffer(to, np.uint8), np.frombuffer(source, np.uint8))
