"""Traces made from traces: parts, and other rates."""

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.intern import IdArray, densify, first_places
from hotset.traces.model import OPTIONAL, Provenance, Trace

_WINDOW = re.compile(r"(\d{1,12}(?:\.\d{1,9})?):(\d{1,12}(?:\.\d{1,9})?)?")


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
        trace, arrival_s=arrival_s, provenance=stepped(trace, step)
    )


def stepped(trace: Trace, step: str) -> Provenance:
    """Provenance of a trace with a step more.

    Parameters
    ----------
    trace : Trace
        The trace.
    step : str
        What was done to it.

    Returns
    -------
    Provenance
        Else the same.
    """
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
    kept_sessions = session[known]
    session[known] = densify(kept_sessions)[0]
    kept = trace.block_ids[np.repeat(keep, sizes)]
    if trace.num_accesses and not kept.size:
        raise TraceError(f"{trace.provenance.path}: {what}: none has block ids")
    ids = densify(kept)[0]
    step = f"{what}: {left} of {trace.num_requests}"
    columns = {
        each: getattr(trace, each)[keep]
        for each in OPTIONAL
        if getattr(trace, each) is not None
    }
    return dataclasses.replace(
        trace,
        request_offsets=offsets,
        block_ids=ids,
        arrival_s=trace.arrival_s[keep],
        input_tokens=trace.input_tokens[keep],
        output_tokens=trace.output_tokens[keep],
        session=session,
        block_names=_kept_names(trace.block_names, kept, ids),
        session_names=_kept_names(trace.session_names, kept_sessions, session[known]),
        provenance=stepped(trace, step),
        **columns,
    )


def _kept_names(
    names: NDArray[np.int64] | None, old: IdArray, new: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Names by new numbers, which count from 0 in order of first appearance."""
    return None if names is None else names[old[first_places(new)]]
