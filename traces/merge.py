"""Traces of one source as one trace, by what the source calls blocks and sessions."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.intern import densify, first_places
from hotset.traces.model import OPTIONAL, Provenance, Trace

_SAME = ("block_tokens", "chained", "id_scope")
_CODED = ("source_type", "tenant")
_NONE = {"priority": np.nan, "ttl_s": np.nan, "end_session": False}


def merge(traces: Sequence[Trace], sha256: str) -> Trace:
    """Join traces whose names mean the same.

    Parameters
    ----------
    traces : sequence of Trace
        At least one.
    sha256 : str
        Digest of all that they were read from.

    Returns
    -------
    Trace
        Sorted by (arrival, trace, place in it). Sessions without names are
        sessions of their own in each.

    Raises
    ------
    TraceError
        If ids of one mean nothing in another, or they differ in block size or
        in what their ids stand for.
    """
    first = traces[0]
    for trace in traces:
        _check(trace, first)
    order = np.argsort(_joined([trace.arrival_s for trace in traces]), kind="stable")
    sizes = _joined([np.diff(trace.request_offsets) for trace in traces])
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes[order], out=offsets[1:])
    starts = (np.cumsum(sizes) - sizes)[order]
    shift = np.repeat(starts - offsets[:-1], sizes[order])
    named = _joined([_names(trace)[trace.block_ids] for trace in traces])
    named = named[np.arange(named.size, dtype=np.int64) + shift]
    ids = densify(named)[0]
    session, session_names = _sessions(traces, order)
    columns: dict[str, Any] = {
        name: _joined([getattr(trace, name) for trace in traces])[order]
        for name in ("arrival_s", "input_tokens", "output_tokens")
    }
    for name in OPTIONAL:
        columns |= _optional(traces, name, order)
    return dataclasses.replace(
        first,
        request_offsets=offsets,
        block_ids=ids,
        block_names=named[first_places(ids)],
        session=session,
        session_names=session_names,
        provenance=_provenance(traces, sha256),
        **columns,
    )


def _check(trace: Trace, first: Trace) -> None:
    """Check that a trace's blocks can be told apart from another's."""
    path = trace.provenance.path
    if trace.id_scope == "local":
        raise TraceError(
            f"{path}: ids of local scope cannot be merged: equal ids of different "
            "files are different blocks"
        )
    if trace.block_names is None:
        raise TraceError(
            f"{path}: cannot be merged: its ids mean something in this file only; "
            "merge what it was made from"
        )
    for name in _SAME:
        got, allowed = getattr(trace, name), getattr(first, name)
        if got != allowed:
            raise TraceError(
                f"{path}: {name}: got {got}, allowed: {allowed}, as in "
                f"{first.provenance.path}"
            )


def _joined(columns: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(columns)


def _names(trace: Trace) -> NDArray[np.int64]:
    assert trace.block_names is not None  # see _check
    return trace.block_names


def _sessions(
    traces: Sequence[Trace], order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Sessions in the merged order, and their names if all have them."""
    num_before, parts = 0, []
    all_named = all(trace.session_names is not None for trace in traces)
    for trace in traces:
        part = trace.session.copy()
        known = part >= 0
        if all_named:
            part[known] = trace.session_names[part[known]]  # type: ignore[index]
        else:
            part[known] += num_before
            num_before += int(trace.session.max()) + 1
        parts.append(part)
    session = _joined(parts)[order]
    known = session >= 0
    values = session[known]
    session[known] = densify(values)[0]
    names = values[first_places(session[known])] if all_named else None
    return session, names


def _optional(
    traces: Sequence[Trace], name: str, order: NDArray[np.int64]
) -> dict[str, Any]:
    """Column that not all traces need to have, with its texts if it has any."""
    if all(getattr(trace, name) is None for trace in traces):
        return {}
    if name not in _CODED:
        parts = [
            np.full(trace.num_requests, _NONE[name])
            if getattr(trace, name) is None
            else getattr(trace, name)
            for trace in traces
        ]
        return {name: _joined(parts)[order]}
    texts: dict[str, int] = {}
    parts = []
    for trace in traces:
        column = getattr(trace, name)
        if column is None:
            parts.append(np.full(trace.num_requests, -1, np.int64))
            continue
        mine = [
            texts.setdefault(text, len(texts))
            for text in getattr(trace, f"{name}_names")
        ]
        # The last place is that of -1.
        parts.append(np.array([*mine, -1], np.int64)[column])
    return {name: _joined(parts)[order], f"{name}_names": tuple(texts)}


def _provenance(traces: Sequence[Trace], sha256: str) -> Provenance:
    """Where the parts came from, and what was done to each."""
    sources = [trace.provenance for trace in traces]
    steps = [
        f"part {at + 1}: {step}"
        for at, source in enumerate(sources)
        for step in source.steps
    ]
    warnings = dict.fromkeys(text for source in sources for text in source.warnings)
    return Provenance(
        format=sources[0].format,
        path=sources[0].path,
        sha256=sha256,
        rows_read=sum(source.rows_read for source in sources),
        rows_rejected=sum(source.rows_rejected for source in sources),
        steps=tuple(steps),
        warnings=tuple(warnings),
    )
