"""Traces that can be given away: every name is a hash under a key.

Hashes are the same wherever the key is, so that traces that are anonymised apart can
still be joined; without the key nobody can tell which block, session, tenant or
source is meant, nor whether it was one of a list.
"""

import dataclasses
import re
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.intern import all_differ
from hotset.traces.model import Trace
from hotset.traces.names import keyed
from hotset.traces.transform import stepped

_LEAST_KEY_BYTES = 16
_MAX_KEY_BYTES = 64
_STEP = (
    "ids of blocks and sessions and all names hashed under a key (BLAKE2b), first "
    "arrival at 0 s"
)
# What steps and warnings say of files: their names end a sentence.
_FILES = re.compile(r"(?<=ids mean the same): .*|, the first: .*", re.DOTALL)


def anonymise(trace: Trace, key_file: Path) -> Trace:
    """Hash the names in a trace under a key, and take away its date and source.

    Requests, lengths, gaps and what prompts share stay as they are, and so does
    every hit ratio.

    Parameters
    ----------
    trace : Trace
        The trace.
    key_file : Path
        At least 16 bytes that nobody else has, of which 64 count.

    Returns
    -------
    Trace
        It begins at 0 s. Ids that mean something in one file only are hashed
        together with that file's digest. Its provenance has no path, no options
        and no digest of the source, by which it could be told.

    Raises
    ------
    TraceError
        If the key cannot be read or is too short, or gives two blocks one hash.
    """
    key = _key(key_file)

    def hashed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            blake2b(
                name.encode("utf-8", "surrogatepass"), key=key, digest_size=8
            ).hexdigest()
            for name in names
        )

    provenance = stepped(trace, _STEP)
    return dataclasses.replace(
        trace,
        arrival_s=trace.arrival_s - trace.arrival_s[0],
        source_type_names=hashed(trace.source_type_names),
        tenant_names=hashed(trace.tenant_names),
        block_names=_hashed(trace, "block", trace.block_names, trace.num_blocks, key),
        session_names=_hashed(
            trace, "session", trace.session_names, int(trace.session.max()) + 1, key
        ),
        provenance=dataclasses.replace(
            provenance,
            path="anonymised",
            sha256="0" * 64,
            options=(),
            origin=None,
            steps=_without_files(provenance.steps),
            warnings=_without_files(provenance.warnings),
        ),
    )


def _hashed(
    trace: Trace, what: str, names: NDArray[np.int64] | None, count: int, key: bytes
) -> NDArray[np.int64]:
    """Hash what a trace calls its blocks or sessions, or else their numbers."""
    scope = ""
    if names is None:
        names = np.arange(count, dtype=np.int64)
        scope = (trace.provenance.origin or trace.provenance).sha256
    made = keyed(names, key, what, scope)
    if not all_differ(made):
        raise TraceError(
            f"{trace.provenance.path}: two {what}s have the same hash under this key; "
            "another key helps"
        )
    return made


def _without_files(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_FILES.sub("", text) for text in texts)


def _key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            key = file.read(_MAX_KEY_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArgumentError("anonymise", str(path), f"a file ({reason})") from None
    if len(key) < _LEAST_KEY_BYTES:
        allowed = f"a key of {_LEAST_KEY_BYTES} bytes or more"
        raise ArgumentError("anonymise", f"{len(key)} bytes", allowed)
    return key
