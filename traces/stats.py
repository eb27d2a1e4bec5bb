"""What a trace holds: the ceiling of any cache, and a summary."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.model import TAILS, Accesses, Tail, Trace
from hotset.traces.profile import DEFAULT_CONTEXT_TOKENS, profile

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Ceiling:
    """Hits of an unbounded cache: no policy has more.

    Attributes
    ----------
    hit_blocks, hit_tokens : int
        Blocks and tokens served from the cache.
    input_tokens : int
        Prompt tokens of the requests counted.
    accesses : int
        Block references of the requests counted, under the tail rule.
    """

    hit_blocks: int
    hit_tokens: int
    input_tokens: int
    accesses: int

    @property
    def token_hit_ratio(self) -> float:
        """Hit tokens over all input tokens, in [0, 1]."""
        return self.hit_tokens / self.input_tokens

    @property
    def block_hit_ratio(self) -> float:
        """Hit blocks over accesses, in [0, 1]; 0 where there are none."""
        return self.hit_blocks / self.accesses if self.accesses else 0.0


def ceiling(trace: Trace, tail: Tail, first_request: int = 0) -> Ceiling:
    """Hits of an unbounded cache.

    A request hits the run of blocks at its head that earlier requests referred
    to; the run ends at the first block that none did.

    Parameters
    ----------
    trace : Trace
        The trace.
    tail : {"drop", "count"}
        Whether partial blocks are cached; their tokens count as input either way.
    first_request : int
        Index of the first request that is counted, in [0, R).

    Returns
    -------
    Ceiling
        Totals of the requests from `first_request` on.

    Raises
    ------
    TraceError
        If an argument is out of range.
    """
    accesses = trace.accesses(tail)
    return ceiling_of(accesses, trace.block_tokens, trace.input_tokens, first_request)


def ceiling_of(
    accesses: Accesses,
    block_tokens: int,
    input_tokens: NDArray[np.int64],
    first_request: int = 0,
) -> Ceiling:
    """Hits of an unbounded cache of blocks of any size.

    Parameters
    ----------
    accesses : Accesses
        Block references.
    block_tokens : int
        Tokens of a block.
    input_tokens : int64[R]
        Prompt tokens.
    first_request : int
        Index of the first request that is counted, in [0, R).

    Returns
    -------
    Ceiling
        Totals of the requests from `first_request` on.

    Raises
    ------
    TraceError
        If the first request is out of range.
    """
    if not 0 <= first_request < input_tokens.size:
        raise TraceError(
            f"first_request: got {first_request}, allowed: 0..{input_tokens.size - 1}"
        )
    runs = hit_runs(accesses)[first_request:]
    input_tokens = input_tokens[first_request:]
    hit_tokens = np.minimum(runs * block_tokens, input_tokens)
    return Ceiling(
        hit_blocks=int(runs.sum()),
        hit_tokens=int(hit_tokens.sum()),
        input_tokens=int(input_tokens.sum()),
        accesses=accesses.ids.size - int(accesses.offsets[first_request]),
    )


def hit_runs(accesses: Accesses) -> NDArray[np.int64]:
    """Blocks at the head of each request that earlier requests referred to.

    Parameters
    ----------
    accesses : Accesses
        Block references.

    Returns
    -------
    int64[R]
        Length of each run.
    """
    offsets, ids, num_distinct = accesses
    sizes = np.diff(offsets)
    request = np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)
    is_first = np.ones(ids.size, np.bool_)
    # Numbered by first appearance: a block is new where the maximum grows.
    is_first[1:] = np.diff(np.maximum.accumulate(ids)) > 0
    first_request = np.empty(num_distinct, np.int64)
    first_request[ids[is_first]] = request[is_first]
    misses = np.flatnonzero(first_request[ids] == request)
    ends = np.append(misses, ids.size)[np.searchsorted(misses, offsets[:-1])]
    runs: NDArray[np.int64] = np.minimum(ends, offsets[1:]) - offsets[:-1]
    return runs


def summarise(
    trace: Trace,
    tails: tuple[Tail, ...] = TAILS,
    max_context: int = DEFAULT_CONTEXT_TOKENS,
) -> dict[str, Any]:
    """Figures to look at before replaying a trace.

    Parameters
    ----------
    trace : Trace
        The trace.
    tails : tuple of {"drop", "count"}
        Tail rules to show; reuse and working set are under the first.
    max_context : int
        Tokens, prompt and answer, above which a request counts as too long.

    Returns
    -------
    dict
        JSON values: identity, sizes, lengths, times, `tails` with accesses,
        distinct blocks and ceiling for each tail rule, `profile`, definitions,
        warnings. Ceilings are None without block ids.
    """
    provenance = trace.provenance
    known = trace.session >= 0
    first = trace.block_ids[trace.request_offsets[:-1][_has_blocks(trace)]]
    commonest = int(np.bincount(first).max()) if first.size else 0
    origin = provenance.origin
    return {
        "trace": {
            "path": provenance.path,
            "format": provenance.format,
            "options": dict(provenance.options),
            "sha256": provenance.sha256,
            "origin": None
            if origin is None
            else {
                "path": origin.path,
                "format": origin.format,
                "sha256": origin.sha256,
            },
            "rows_read": provenance.rows_read,
            "rejected": provenance.rows_rejected,
            "requests": trace.num_requests,
            "block_tokens": trace.block_tokens,
            "id_scope": trace.id_scope,
            "chained": trace.chained,
        },
        "tails": {tail: _tail_summary(trace, tail) for tail in tails},
        "requests_without_blocks": int(np.count_nonzero(~_has_blocks(trace))),
        "commonest_first_block_ratio": commonest / trace.num_requests,
        "profile": profile(trace, trace.accesses(tails[0]), max_context),
        "span_s": float(trace.arrival_s[-1] - trace.arrival_s[0]),
        "distinct_timestamps": int(np.count_nonzero(np.diff(trace.arrival_s))) + 1,
        "input_tokens": _quantiles(trace.input_tokens),
        "output_tokens": _quantiles(trace.output_tokens),
        "blocks_per_request": _quantiles(np.diff(trace.request_offsets)),
        "sessions": np.unique(trace.session[known]).size,
        "requests_without_session": int(np.count_nonzero(~known)),
        "steps": list(provenance.steps),
        "warnings": list(provenance.warnings),
        "definitions": {
            "ceiling": "hits of an unbounded cache: the run of blocks at a "
            "request's head that earlier requests referred to",
            "token_hit_ratio": "hit tokens / all input tokens",
            "block_hit_ratio": "hit blocks / accesses under the tail rule",
            "reuse_time": "seconds from a block's use before to this one",
            "reuse_distance": "distinct blocks used in between",
            "over_context": "requests with more input and output tokens than that",
            "commonest_first_block_ratio": "requests that begin with the commonest "
            "first block / requests",
        },
    }


def _has_blocks(trace: Trace) -> NDArray[np.bool_]:
    """Whether a request has ids at all, bool[R]."""
    has: NDArray[np.bool_] = np.diff(trace.request_offsets) > 0
    return has


def _tail_summary(trace: Trace, tail: Tail) -> dict[str, Any]:
    accesses = trace.accesses(tail)
    most = ceiling(trace, tail)
    return {
        "accesses": accesses.ids.size,
        "distinct_blocks": accesses.num_distinct,
        "ceiling": None
        if trace.num_accesses == 0
        else {
            "token_hit_ratio": most.token_hit_ratio,
            "block_hit_ratio": most.block_hit_ratio,
            "hit_tokens": most.hit_tokens,
            "hit_blocks": most.hit_blocks,
            "input_tokens": most.input_tokens,
        },
    }


def _quantiles(values: NDArray[np.int64]) -> dict[str, float]:
    """Total, mean and quantiles (of the values themselves, not between them)."""
    at = np.quantile(values, _QUANTILES, method="lower")
    names = ("min", "p25", "p50", "p75", "p90", "p99", "max")
    quantiles = {name: int(value) for name, value in zip(names, at, strict=True)}
    return {"total": int(values.sum()), "mean": float(values.mean()), **quantiles}
