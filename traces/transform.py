"""Traces made from traces: parts, other rates, without names."""

import dataclasses
import re
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.intern import densify
from hotset.traces.model import Provenance, Trace

_WINDOW = re.compile(r"(\d{1,12}(?:\.\d{1,9})?):(\d{1,12}(?:\.\d{1,9})?)?")
_LEAST_KEY_BYTES = 16
_MAX_KEY_BYTES = 64
_PER_REQUEST = ("source_type", "priority", "tenant", "ttl_s", "end_session")


def window(trace: Trace, text: str) -> Trace:
    """Keep the requests of a part of the time.

    Parameters
    ----------
    trace : Trace
        The trace.
    text : str
        "FROM:TO" or "FROM:", in seconds since the first request; TO is not in it.

    Returns
    -------
    Trace
        Their arrivals stay as they are.

    Raises
    ------
    TraceError
        If the text is malformed, or no request is in the window.
    """
    matched = _WINDOW.fullmatch(text)
    if matched is None:
        raise ArgumentError("window", text, "FROM:TO or FROM:, in seconds")
    since_s = trace.arrival_s - trace.arrival_s[0]
    keep = since_s >= float(matched[1])
    if matched[2] is not None:
        keep &= since_s < float(matched[2])
    return _select(trace, keep, "window", text, f"requests of the window {text} s")


def limit(trace: Trace, num_requests: int) -> Trace:
    """Keep the first requests of a trace.

    Parameters
    ----------
    trace : Trace
        The trace.
    num_requests : int
        How many, 1 or more.

    Returns
    -------
    Trace
        All requests, if there are no more than that.

    Raises
    ------
    ArgumentError
        If the number is below 1.
    """
    if num_requests < 1:
        raise ArgumentError("limit", num_requests, "1 or more")
    keep = np.arange(trace.num_requests) < num_requests
    return _select(
        trace, keep, "limit", num_requests, f"the first {num_requests} requests"
    )


def max_context(trace: Trace, tokens: int) -> Trace:
    """Keep the requests that a model of a context length can serve.

    Parameters
    ----------
    trace : Trace
        The trace.
    tokens : int
        Most input and output tokens of a request, 1 or more.

    Returns
    -------
    Trace
        Without the longer ones: a server refuses them, so they leave no blocks.
        The ceiling is another than the trace's.

    Raises
    ------
    TraceError
        If all requests are longer, or the number is below 1.
    """
    if tokens < 1:
        raise ArgumentError("max_context", tokens, "1 or more")
    keep = trace.input_tokens + trace.output_tokens <= tokens
    what = f"requests of at most {tokens} input and output tokens"
    return _select(trace, keep, "max_context", tokens, what)


def rate(trace: Trace, factor: float) -> Trace:
    """Arrivals at another rate.

    Parameters
    ----------
    trace : Trace
        The trace.
    factor : float
        2 has twice as many requests a second; above 0.

    Returns
    -------
    Trace
        Times since the first request are divided by the factor.

    Raises
    ------
    ArgumentError
        If the factor is not a finite number above 0, or too far from 1.
    """
    if not 1e-6 <= factor <= 1e6:
        raise ArgumentError("rate", factor, "1e-6..1e6")
    first_s = trace.arrival_s[0]
    arrival_s = first_s + (trace.arrival_s - first_s) / factor
    step = f"arrivals at {factor:g} times the rate"
    return dataclasses.replace(
        trace, arrival_s=arrival_s, provenance=_stepped(trace, step)
    )


def anonymise(trace: Trace, key_file: Path) -> Trace:
    """Trace without names: of files, tenants and sources, and without the date.

    Block ids and sessions are numbers in order of first appearance anyway.

    Parameters
    ----------
    trace : Trace
        The trace.
    key_file : Path
        At least 16 bytes that nobody else has: names become hashes under this
        key, equal ones for equal names in every trace.

    Returns
    -------
    Trace
        It begins at 0 s, and its provenance has no path and no digest of the
        source, by which it could be told.

    Raises
    ------
    ArgumentError
        If the key cannot be read or is too short.
    """
    key = _key(key_file)

    def hashed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            blake2b(
                name.encode("utf-8", "surrogatepass"), key=key, digest_size=8
            ).hexdigest()
            for name in names
        )

    provenance = dataclasses.replace(
        _stepped(trace, "names hashed under a key, first arrival at 0 s"),
        path="anonymised",
        sha256="0" * 64,
        options=(),
        origin=None,
    )
    return dataclasses.replace(
        trace,
        arrival_s=trace.arrival_s - trace.arrival_s[0],
        source_type_names=hashed(trace.source_type_names),
        tenant_names=hashed(trace.tenant_names),
        provenance=provenance,
    )


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


def _stepped(trace: Trace, step: str) -> Provenance:
    """Provenance with a step more."""
    steps = (*trace.provenance.steps, step)
    return dataclasses.replace(trace.provenance, steps=steps)


def _select(
    trace: Trace, keep: NDArray[np.bool_], name: str, value: object, what: str
) -> Trace:
    """Keep some requests of a trace, blocks and sessions numbered anew."""
    left = int(np.count_nonzero(keep))
    if left == 0:
        raise ArgumentError(name, value, "something that leaves a request")
    sizes = np.diff(trace.request_offsets)
    offsets = np.zeros(left + 1, np.int64)
    np.cumsum(sizes[keep], out=offsets[1:])
    session = trace.session[keep].copy()
    known = session >= 0
    session[known] = densify(session[known])[0]
    kept = trace.block_ids[np.repeat(keep, sizes)]
    if trace.num_accesses and not kept.size:
        raise TraceError(f"{trace.provenance.path}: {what}: none has block ids")
    step = f"{what}: {left} of {trace.num_requests}"
    columns = {
        each: getattr(trace, each)[keep]
        for each in _PER_REQUEST
        if getattr(trace, each) is not None
    }
    return dataclasses.replace(
        trace,
        request_offsets=offsets,
        block_ids=densify(kept)[0],
        arrival_s=trace.arrival_s[keep],
        input_tokens=trace.input_tokens[keep],
        output_tokens=trace.output_tokens[keep],
        session=session,
        provenance=_stepped(trace, step),
        **columns,
    )
