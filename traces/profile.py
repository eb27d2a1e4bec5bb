"""The shape of a trace: reuse, working set, arrivals, sessions, lengths."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.model import Accesses, Trace
from hotset.traces.reuse import previous_use, reuse_distances

DEFAULT_CONTEXT_TOKENS = 131_072
NUM_BINS = 60

_PERCENT = (1, 5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 95, 99)
_QUANTILES = {f"p{percent}": percent / 100 for percent in _PERCENT}


def profile(trace: Trace, accesses: Accesses, max_context: int) -> dict[str, Any]:
    """Describe what the pictures of a trace show.

    Parameters
    ----------
    trace : Trace
        The trace.
    accesses : Accesses
        Its block references under a tail rule.
    max_context : int
        Tokens, prompt and answer, above which a request counts as long.

    Returns
    -------
    dict
        JSON values: `reuse`, `over_time`, `timestamps`, `over_context`, `turns`.
    """
    sizes = np.diff(accesses.offsets)
    request = np.repeat(np.arange(sizes.size), sizes)
    previous = previous_use(accesses.ids)
    return {
        "reuse": _reuse(trace, accesses, request, previous),
        "over_time": _over_time(trace, request, previous),
        "timestamps": _timestamps(trace.arrival_s),
        "over_context": _over_context(trace, max_context),
        "turns_per_session": _turns(trace),
    }


def _reuse(
    trace: Trace,
    accesses: Accesses,
    request: NDArray[np.int64],
    previous: NDArray[np.int64],
) -> dict[str, Any]:
    """Quantiles of reuse times and distances."""
    again = np.flatnonzero(previous >= 0)
    times_s = (
        trace.arrival_s[request[again]] - trace.arrival_s[request[previous[again]]]
    )
    distances = reuse_distances(accesses)
    return {
        "accesses_used_before": again.size,
        "time_s": _quantiles(times_s),
        "distance_blocks": _quantiles(distances.blocks),
        "distance_sample_one_in": distances.one_in,
    }


def _quantiles(values: NDArray[Any]) -> dict[str, float] | None:
    """Quantiles that are values themselves; None without values."""
    if values.size == 0:
        return None
    at = np.quantile(values, list(_QUANTILES.values()), method="lower")
    return dict(zip(_QUANTILES, at.tolist(), strict=True))


def _over_time(
    trace: Trace, request: NDArray[np.int64], previous: NDArray[np.int64]
) -> dict[str, Any] | None:
    """Count in equal parts of the span; None where all arrive at once."""
    arrival_s = trace.arrival_s
    first_s, last_s = float(arrival_s[0]), float(arrival_s[-1])
    if last_s <= first_s:
        return None
    width_s = (last_s - first_s) / NUM_BINS
    place = ((arrival_s - first_s) / width_s).astype(np.int64)
    bin_of = np.minimum(place, NUM_BINS - 1)
    access_bin = bin_of[request]
    is_new = previous < 0
    # A block is new in a part of the span where its use before was in another.
    is_new_here = is_new | (access_bin != access_bin[previous])

    def count(places: NDArray[np.int64]) -> list[float]:
        return np.bincount(places, minlength=NUM_BINS).tolist()

    return {
        "width_s": width_s,
        "start_s": (np.arange(NUM_BINS) * width_s).tolist(),
        "requests": count(bin_of),
        "accesses": count(access_bin),
        "distinct_blocks": count(access_bin[is_new_here]),
        "new_blocks": count(access_bin[is_new]),
    }


def _timestamps(arrival_s: NDArray[np.float64]) -> dict[str, float | None]:
    """How fine the clock is."""
    changes = np.flatnonzero(np.diff(arrival_s) > 0) + 1
    steps_s = np.diff(arrival_s[np.concatenate([[0], changes])])
    sizes = np.diff(np.concatenate([[0], changes, [arrival_s.size]]))
    return {
        "distinct": changes.size + 1,
        "smallest_step_s": float(steps_s.min()) if steps_s.size else None,
        "median_step_s": float(np.median(steps_s)) if steps_s.size else None,
        "most_requests_at_once": int(sizes.max()),
    }


def _over_context(trace: Trace, max_context: int) -> dict[str, float]:
    """Count requests that are longer than a model's context."""
    long = np.count_nonzero(trace.input_tokens + trace.output_tokens > max_context)
    return {
        "max_context_tokens": max_context,
        "requests": int(long),
        "request_ratio": int(long) / trace.num_requests,
    }


def _turns(trace: Trace) -> dict[str, float] | None:
    """Describe requests per session; None without sessions."""
    known = trace.session[trace.session >= 0]
    if not known.size:
        return None
    turns = np.bincount(known)
    turns = turns[turns > 0]
    quantiles = _quantiles(turns)
    assert quantiles is not None
    return {"mean": float(turns.mean()), **quantiles, "max": int(turns.max())}
