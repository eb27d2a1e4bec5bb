"""What two servers must have in common to share KV blocks, and a digest of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from hotset.adapter.errors import AdapterError

FORMAT_VERSION = 1
DIGEST_BYTES = 32
HASH_SEED = "hash_seed"
RANDOM = "random"


@dataclass(frozen=True)
class Namespace:
    """Blocks are found only in the namespace that they were stored in.

    Parameters
    ----------
    fields : mapping
        What decides the bytes of a block and its key: model, revision, dtype, block
        size, parallel layout, hash seed, ... A field ``hash_seed`` of ``"random"``
        says that keys differ from process to process.
    """

    fields: Mapping[str, str]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Namespace:
        """Return a namespace of these fields, all of them text."""
        return cls({str(name): str(fields[name]) for name in sorted(fields)})

    @property
    def is_random(self) -> bool:
        """Whether no other process can have the same keys."""
        return self.fields.get(HASH_SEED) == RANDOM

    def check(self, ephemeral: bool) -> None:
        """Raise AdapterError for a random hash seed where blocks shall survive."""
        if self.is_random and not ephemeral:
            raise AdapterError(
                "the hash seed of block keys is random, so that no later process could "
                "find what is stored: set PYTHONHASHSEED to a number, or "
                '"ephemeral": true for a tier that lasts as long as the process'
            )

    def digest(self, payload_bytes: int) -> bytes:
        """Return the digest of the fields, of a block's size and of the format."""
        text = json.dumps(
            [FORMAT_VERSION, payload_bytes, dict(self.fields)],
            sort_keys=True,
            ensure_ascii=True,
            separators=(",", ":"),
        )
        return hashlib.sha256(text.encode()).digest()
