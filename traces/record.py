"""Rows of recordings: what a server writes and `hotset replay` reads.

A recording is JSON lines, one request a line, the fields of Mooncake's traces and more:

| field | what it is |
|---|---|
| ``hotset_record`` | 1, the version of the format |
| ``timestamp`` | arrival, milliseconds since 1970 |
| ``input_length``, ``output_length`` | tokens |
| ``block_size`` | tokens of a block |
| ``hash_id_scope`` | ``"global"``: ids mean the same in all files of one key |
| ``hash_ids`` | ids of the prompt's full blocks, each standing for its whole prefix |
| ``output_hash_ids`` | ids of the full blocks behind them, as far as known |
| ``session_id``, ``tenant`` | the client's names, hashed; where tagged |
| ``type``, ``priority``, ``ttl_s``, ``end_session`` | the client's tags, where given |
| ``loaded_blocks``, ``stored_blocks`` | blocks that the CPU tier gave and took |

Only the standard library is used: a server writes rows where nothing else is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

MARK = "hotset_record"
VERSION = 1
HEAD = f'{{"{MARK}":'.encode()  # what every row begins with

_ID_BYTES = 8


class Naming:
    """Keyed hashes of what must not be readable in a file.

    Parameters
    ----------
    secret : bytes
        At most 64 bytes; names are comparable between files of the same secret.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def block(self, content: bytes) -> int:
        """Return a block's id, below 2**63."""
        return self._number(content, b"block") >> 1

    def name(self, text: str) -> str:
        """Return what stands for a client's name."""
        return f"{self._number(text.encode(), b'name'):016x}"

    def share(self, content: bytes) -> float:
        """Return a number in [0, 1) by which parts of the traffic are chosen."""
        return (self._number(content, b"share") >> 11) / 2.0**53

    def _number(self, content: bytes, use: bytes) -> int:
        digest = blake2b(
            content, digest_size=_ID_BYTES, key=self._secret, person=use
        ).digest()
        return int.from_bytes(digest, "big")


def row(
    timestamp_ms: float,
    input_tokens: int,
    output_tokens: int,
    block_tokens: int,
    ids: Iterable[int],
    more: Mapping[str, Any],
) -> bytes:
    """Return a request as a line with its end.

    Parameters
    ----------
    timestamp_ms : float
        Arrival.
    input_tokens, output_tokens : int
        Lengths.
    block_tokens : int
        Tokens of a block.
    ids : iterable of int
        Of full blocks, head first, those of the output behind those of the prompt.
    more : mapping
        Further fields.
    """
    known = list(ids)
    prompt = input_tokens // block_tokens
    fields: dict[str, Any] = {
        MARK: VERSION,
        "timestamp": round(timestamp_ms, 3),
        "input_length": input_tokens,
        "output_length": output_tokens,
        "block_size": block_tokens,
        "hash_id_scope": "global",
        "hash_ids": known[:prompt],
    }
    if known[prompt:]:
        fields["output_hash_ids"] = known[prompt:]
    text = json.dumps(fields | dict(more), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii") + b"\n"
