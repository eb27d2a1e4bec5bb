"""What a simulation measured: a row for each request, and a summary of the rows.

Times are seconds from the first arrival. Tokens of a prompt come from the GPU's cache,
from a tier, or are computed; a prompt that is cached to its end computes its last token
once more. ITL is (end - first token) / (output tokens - 1), NaN below two tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hotset.policies.arrays import Float64Array, Int64Array
from hotset.policies.errors import PolicyError
from hotset.sim.engine import EngineSpec
from hotset.sim.job import Job

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_NUM_PARTS = 40  # of the time

DEFINITIONS = {
    "window": "every number is of the requests from measured_from_request on, or of "
    "what the machine did from the arrival of the first of them to the end; what "
    "stands (capacity, resident, pinned, pending) is that of the end",
    "token_hit_ratio": "hit tokens / input tokens, those of partial last blocks "
    "included",
    "ceiling": "the token hit ratio of a cache that holds everything and needs no time",
    "duration_s": "seconds from the first arrival to the end of the last request or "
    "transfer",
    "busy_share": "seconds in which a step computed / duration_s",
    "mean_present": "requests between their arrival and their end, on average over "
    "duration_s",
    "output": "tokens generated, at least one a request, as in vLLM: a request that "
    "has none in the trace gets its first token",
    "ttft_s": "first token - arrival",
    "queue_s": "taken up by the engine - arrival",
    "itl_s": "(end - first token) / (output tokens - 1); none below two tokens",
    "e2e_s": "end - arrival",
    "offered_load": "the highest of offered_load_by, that of the bottleneck; above 1 "
    "the queue grows as long as requests come. None where users wait for their answers",
    "offered_load_by": "seconds of each resource that the requests took / seconds in "
    "which they come (their number times the mean gap), over the window, or over its "
    "second half where that is higher and the whole is not above 1: compute (decoding "
    "in full batches; whole steps where others waited for a turn), gpu_blocks (share "
    "of blocks held, all of them while the next request found too few, over time), "
    "links (moving bytes; the SSD's two directions together)",
    "goodput": "requests that keep to all the objectives given, per second",
    "saved_prefill_s": "seconds that computing the hit tokens would have taken",
    "hit": "prompt tokens that were cached when the request was taken up: by the GPU, "
    "the CPU tier, or the SSD that it had them read from; the three add up",
    "computed": "prompt tokens that were not cached; with the hit ones they add up to "
    "the input",
    "prefilled": "prompt tokens that the engine computed: again after a preemption, "
    "and the last one of a prompt that is cached to its end",
    "cpu": "chunks of the CPU tier, counted by the names that a server's metrics have",
    "reuse_age_s": "seconds since the last use of the oldest chunk that a load needed",
    "dropped_unused": "chunks evicted from the CPU tier that no request had loaded",
    "ssd": "chunks of the SSD tier: written to it, read from it for requests, evicted",
    "writes_per_day_bytes": "bytes written to the SSD / duration_s * 86,400: what a "
    "day of such traffic would write, were the SSD always as full as in this run",
    "over_time": "prompt tokens by where they came from, of the requests that came in "
    "each part of the time",
    "break_even_tokens": "fewest tokens at a prompt's head whose load from a tier "
    "beats computing them, on idle links; None where none does",
}

_TIMES = ("arrival_s", "admitted_s", "first_token_s", "end_s", "load_s")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "gpu_tokens",
    "cpu_tokens",
    "ssd_tokens",
    "computed_tokens",
    "prefilled_tokens",
    "preemptions",
)


class Records:
    """Columns over the requests of a trace.

    Parameters
    ----------
    num_requests : int
        R.
    """

    def __init__(self, num_requests: int) -> None:
        self.num_requests = num_requests
        self.times: dict[str, Float64Array] = {
            name: np.full(num_requests, np.nan) for name in _TIMES
        }
        self.counts: dict[str, Int64Array] = {
            name: np.zeros(num_requests, np.int64) for name in _COUNTS
        }

    def add(self, job: Job, now_s: float) -> None:
        """Enter a request at its end."""
        times, counts, i = self.times, self.counts, job.index
        times["arrival_s"][i] = job.arrival_s
        times["admitted_s"][i] = job.admitted_s
        times["first_token_s"][i] = job.first_token_s
        times["end_s"][i] = now_s
        times["load_s"][i] = job.load_s
        counts["input_tokens"][i] = job.input_tokens
        counts["output_tokens"][i] = job.output_tokens
        counts["gpu_tokens"][i] = job.gpu_tokens
        counts["cpu_tokens"][i] = job.hit_tokens - job.gpu_tokens - job.ssd_tokens
        counts["ssd_tokens"][i] = job.ssd_tokens
        counts["computed_tokens"][i] = job.input_tokens - job.hit_tokens
        counts["prefilled_tokens"][i] = job.num_computed
        counts["preemptions"][i] = job.num_preemptions

    @property
    def hit_tokens(self) -> Int64Array:
        """Tokens that were cached, in any tier, int64[R]."""
        counts = self.counts
        found = counts["gpu_tokens"] + counts["cpu_tokens"] + counts["ssd_tokens"]
        return np.asarray(found)

    def columns(self) -> dict[str, Any]:
        """Return every column by its name, derived ones included."""
        times, counts = self.times, self.counts
        spans = self.spans()
        return {
            "request": np.arange(self.num_requests),
            "arrival_s": times["arrival_s"],
            "queue_s": spans["queue_s"],
            "load_s": times["load_s"],
            "ttft_s": spans["ttft_s"],
            "itl_s": spans["itl_s"],
            "end_s": times["end_s"],
            **counts,
        }

    def spans(self) -> dict[str, Float64Array]:
        """Return the times that requests are judged by, float64[R] each."""
        times = self.times
        arrival = times["arrival_s"]
        steps = self.counts["output_tokens"] - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            itl = np.where(
                steps > 0, (times["end_s"] - times["first_token_s"]) / steps, np.nan
            )
        return {
            "ttft_s": times["first_token_s"] - arrival,
            "queue_s": times["admitted_s"] - arrival,
            "itl_s": itl,
            "e2e_s": times["end_s"] - arrival,
        }


def quantiles(values: Float64Array) -> dict[str, float] | None:
    """Return mean, quantiles and maximum of what is not NaN; None where nothing is."""
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return None
    found = np.quantile(values, QUANTILES)
    summary = {f"p{100 * q:g}": float(v) for q, v in zip(QUANTILES, found, strict=True)}
    return {"mean": float(values.mean()), **summary, "max": float(values.max())}


def over_time(records: Records, first: int) -> dict[str, Any]:
    """Return prompt tokens by tier, over parts of the time in which requests come.

    ``first`` is the first measured request.
    """
    arrival = records.times["arrival_s"][first:]
    start = float(arrival.min()) if len(arrival) else 0.0
    last = float(arrival.max()) if len(arrival) else 0.0
    edges = np.linspace(start, max(last, start + 1e-9), _NUM_PARTS + 1)
    part = np.clip(np.searchsorted(edges, arrival, "right") - 1, 0, _NUM_PARTS - 1)
    found: dict[str, Any] = {"edges_s": edges.tolist()}
    for tier in ("gpu", "cpu", "ssd", "computed"):
        sums = np.zeros(_NUM_PARTS, np.int64)
        np.add.at(sums, part, records.counts[f"{tier}_tokens"][first:])
        found[f"{tier}_tokens"] = sums.tolist()
    return found


def goodput(
    records: Records, first: int, ttft_s: float | None, itl_s: float | None
) -> dict[str, Any]:
    """Return how many requests keep to the objectives, from ``first`` on."""
    spans, times = records.spans(), records.times
    good = np.ones(records.num_requests, np.bool_)
    if ttft_s is not None:
        good &= spans["ttft_s"] <= ttft_s
    if itl_s is not None:
        good &= ~(spans["itl_s"] > itl_s)
    good = good[first:]
    ends, arrivals = times["end_s"][first:], times["arrival_s"][first:]
    span_s = float(ends.max() - arrivals.min()) if len(ends) else 0.0
    return {
        "slo_ttft_s": ttft_s,
        "slo_itl_s": itl_s,
        "share": float(good.mean()) if len(good) else 0.0,
        "requests_per_s": float(good.sum()) / span_s if span_s > 0 else None,
    }


def prefill_each_s(
    records: Records, spec: EngineSpec
) -> tuple[Float64Array, Float64Array]:
    """Return by request what computing it would cost, and what its hits saved of it."""
    counts, cost = records.counts, spec.cost
    n = counts["input_tokens"].astype(np.float64)
    hits = records.hit_tokens
    left = n - np.minimum(hits, n - 1)
    behind = n - left
    whole = cost.token_s * n + cost.pair_s * n * n / 2
    rest = cost.token_s * left + cost.pair_s * (left * left / 2 + left * behind)
    return whole, whole - rest


def saved_prefill_s(records: Records, spec: EngineSpec, first: int) -> float:
    """Return what computing the hit tokens would have cost, from ``first`` on."""
    _, saved = prefill_each_s(records, spec)
    return float(saved[first:].sum())


def ttft_objective_s(summary: dict[str, Any], which: str = "p95") -> float:
    """Return a TTFT of a summary for a search to minimise.

    Raises
    ------
    PolicyError
        At an offered load above 1, where TTFT says how long the trace is.
    """
    load = summary["offered_load"]
    if load is not None and load > 1:
        raise PolicyError(
            f"an offered load of {load:.2f} ({summary['bottleneck']}): above 1 the "
            "queue grows as long as requests come, so TTFT is no objective; slow the "
            "arrivals down or take a larger machine"
        )
    return float(summary["ttft_s"][which])
