"""What must hold of a trace: checks of its columns, a part of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.intern import IdArray

if TYPE_CHECKING:
    from hotset.traces.model import Trace

OPTIONAL = ("source_type", "priority", "tenant", "ttl_s", "end_session")
"""Columns, one value a request, that a trace may not have."""

# Bounds the memory that checks take.
_CHECKED_AT_ONCE = 1 << 20


def check(trace: Trace) -> None:
    """Check a trace.

    Parameters
    ----------
    trace : Trace
        Its columns have the right types.

    Raises
    ------
    TraceError
        If anything that `Trace` promises does not hold.
    """
    _check_shape(trace)
    _check_blocks(trace)
    _check_repeats(trace)
    _check_values(trace)
    _check_tags(trace)
    _check_names(trace)


def _check_shape(trace: Trace) -> None:
    """Check that all columns describe the same requests and accesses."""
    num_requests = trace.arrival_s.size
    if num_requests == 0:
        raise _error(trace, "requests: got none, allowed: at least one")
    if isinstance(trace.block_tokens, bool) or trace.block_tokens < 1:
        raise _error(
            trace, f"block_tokens: got {trace.block_tokens}, allowed: 1 or more"
        )
    if trace.id_scope not in ("global", "local"):
        raise _error(trace, f"id_scope: got {trace.id_scope!r}, allowed: global, local")
    for name in ("input_tokens", "output_tokens", "session", *OPTIONAL):
        column = getattr(trace, name)
        if column is not None and column.size != num_requests:
            raise _error(
                trace,
                f"{name}: got {column.size} values, allowed: {num_requests} "
                "(one per request)",
            )
    offsets = trace.request_offsets
    if offsets.size != num_requests + 1:
        raise _error(
            trace,
            f"request_offsets: got {offsets.size} values, allowed: {num_requests + 1}",
        )
    bounds = (int(offsets[0]), int(offsets[-1]))
    if bounds != (0, trace.block_ids.size) or np.any(np.diff(offsets) < 0):
        raise _error(
            trace,
            f"request_offsets: got {bounds[0]}..{bounds[1]}, allowed: "
            f"non-decreasing from 0 to {trace.block_ids.size}",
        )


def _check_blocks(trace: Trace) -> None:
    """Check the interning of the ids and their number per request."""
    most_seen = -1
    for begin in range(0, trace.block_ids.size, _CHECKED_AT_ONCE):
        ids = trace.block_ids[begin : begin + _CHECKED_AT_ONCE]
        before = np.empty_like(ids)
        before[0] = most_seen
        before[1:] = ids[:-1]
        before = np.maximum.accumulate(np.maximum(before, most_seen))
        wrong = (ids < 0) | (ids - 1 > before)
        if wrong.any():
            at = int(wrong.argmax())
            raise _error(
                trace,
                f"block_ids[{begin + at}]: got {ids[at]}, allowed: 0..U-1 numbered in "
                "order of first appearance",
            )
        most_seen = max(int(before[-1]), int(ids[-1]))
    most = -(-trace.input_tokens // trace.block_tokens)
    _reject(
        trace,
        np.diff(trace.request_offsets) > most,
        "block_ids",
        np.diff(trace.request_offsets),
        f"at most ceil(input_tokens / {trace.block_tokens}) ids",
    )


def _check_repeats(trace: Trace) -> None:
    """Check that no request has a block twice: content lies behind itself nowhere.

    Blocks that lie at one depth wherever they are, as those of prompts do, are
    twice in no request; only where some do not is each request looked at.
    """
    depth_of = np.zeros(trace.num_blocks, np.int32)
    for ids, depths in _parts(trace):
        depth_of[ids] = depths
    if all(np.array_equal(depth_of[ids], depths) for ids, depths in _parts(trace)):
        return
    sizes = np.diff(trace.request_offsets)
    request = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((trace.block_ids, request))
    ids, of = trace.block_ids[order], request[order]
    twice = (ids[1:] == ids[:-1]) & (of[1:] == of[:-1])
    if twice.any():
        at = int(order[1:][twice].min())
        raise _error(
            trace,
            f"request {request[at]}: block_ids: got block {trace.block_ids[at]} twice, "
            "allowed: each block once in a request (equal ids behind different "
            "parents are different blocks)",
        )


def _parts(trace: Trace) -> Iterator[tuple[IdArray, NDArray[np.int64]]]:
    """Yield ids and their depths, of whole requests, about so many at a time."""
    offsets = trace.request_offsets
    wanted = np.arange(0, trace.block_ids.size, _CHECKED_AT_ONCE)
    bounds = np.unique(np.searchsorted(offsets, wanted, "right") - 1)
    for low, high in pairwise([*bounds.tolist(), offsets.size - 1]):
        ids = trace.block_ids[offsets[low] : offsets[high]]
        begins = offsets[low:high] - offsets[low]
        sizes = np.diff(offsets[low : high + 1])
        yield ids, np.arange(ids.size) - np.repeat(begins, sizes)


def _check_values(trace: Trace) -> None:
    """Check arrivals, lengths and sessions."""
    arrival_s = trace.arrival_s
    finite = ~np.isfinite(arrival_s)
    _reject(trace, finite, "arrival_s", arrival_s, "finite seconds")
    backward = np.zeros(arrival_s.size, np.bool_)
    backward[1:] = np.diff(arrival_s) < 0
    _reject(trace, backward, "arrival_s", arrival_s, "non-decreasing seconds")
    for name, least in (("input_tokens", 1), ("output_tokens", 0), ("session", -1)):
        column = getattr(trace, name)
        _reject(trace, column < least, name, column, f"{least} or more")


def _check_tags(trace: Trace) -> None:
    """Check the optional columns and their names."""
    for name in ("source_type", "tenant"):
        codes, names = getattr(trace, name), getattr(trace, f"{name}_names")
        if codes is None:
            if names:
                raise _error(trace, f"{name}_names: got names without a {name} column")
            continue
        if len(set(names)) != len(names):
            raise _error(
                trace, f"{name}_names: got a name twice, allowed: distinct names"
            )
        wrong = (codes < -1) | (codes >= len(names))
        _reject(trace, wrong, name, codes, f"-1 or a code below {len(names)}")
    if trace.priority is not None:
        wrong = np.isinf(trace.priority)
        _reject(trace, wrong, "priority", trace.priority, "a finite number or NaN")
    if trace.ttl_s is not None:
        wrong = np.isinf(trace.ttl_s) | (trace.ttl_s <= 0)
        _reject(trace, wrong, "ttl_s", trace.ttl_s, "seconds above 0, or NaN")


def _check_names(trace: Trace) -> None:
    """Check what the source calls blocks and sessions."""
    num_sessions = int(trace.session.max()) + 1
    for field, size in (
        ("block_names", trace.num_blocks),
        ("session_names", num_sessions),
    ):
        names = getattr(trace, field)
        if names is None:
            continue
        if names.size != size:
            raise _error(trace, f"{field}: got {names.size} names, allowed: {size}")
        if names.size and int(names.min()) < 0:
            raise _error(trace, f"{field}: got {names.min()}, allowed: 0 or more")


def _error(trace: Trace, text: str) -> TraceError:
    """Error that says which trace is wrong."""
    return TraceError(f"{trace.provenance.path}: {text}")


def _reject(
    trace: Trace,
    wrong: NDArray[np.bool_],
    field: str,
    values: NDArray[Any],
    allowed: str,
) -> None:
    """Raise for the first request whose value is marked wrong."""
    if wrong.any():
        at = int(wrong.argmax())
        text = f"request {at}: {field}: got {values[at]}, allowed: {allowed}"
        raise _error(trace, text)
