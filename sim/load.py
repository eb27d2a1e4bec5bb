"""Offered load: what requests need of each resource, over the time in which they come.

The load is that of the resource that is shortest; above 1 the queue grows as long as
requests come. What a resource is needed for is counted so that it can reach 1 where it
is what requests wait for: blocks too few for the next request count as taken, and so
does a decode step that holds fewer sequences than fit while others wait for a turn.
Where the whole window has no load above 1, its second half may: a queue that only the
later traffic makes grow. What had queued up before that half counts to it.
"""

from __future__ import annotations

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.sim.engine import EngineSpec
from hotset.sim.metrics import Records
from hotset.sim.window import Counters, Window

_SSD = ("ssd_read", "ssd_write")


def offered_loads(
    records: Records, spec: EngineSpec, window: Window
) -> dict[str, float] | None:
    """Return the load of each resource; None where all requests come at once."""
    whole, half = (loads_since(records, spec, *part) for part in window.halves())
    if whole is None or half is None or max(whole.values()) > 1:
        return whole
    return {name: max(load, half[name]) for name, load in whole.items()}


def loads_since(
    records: Records, spec: EngineSpec, first: int, counters: Counters
) -> dict[str, float] | None:
    """Return the load of each resource; None where all requests come at once.

    Parameters
    ----------
    records : Records
        The requests, all of them done.
    spec : EngineSpec
        The machine.
    first : int
        The first request that counts.
    counters : dict
        What the engine did from its arrival on, up to the end.
    """
    arrival = records.times["arrival_s"][first:]
    count = len(arrival)
    if count < 2 or arrival.max() <= arrival.min():
        return None
    # As many mean gaps as requests: there is one more behind the last one.
    span_s = float(arrival.max() - arrival.min()) * count / (count - 1)
    links = {name: of["busy_s"] for name, of in counters["links"].items()}
    needs_s = {
        "compute": _compute_s(records, spec, first, counters),
        "gpu_blocks": counters["pool_s"],
        **{name: busy_s for name, busy_s in links.items() if name not in _SSD},
    }
    if _SSD[0] in links:  # one device, whose directions take turns
        needs_s["ssd"] = sum(links[name] for name in _SSD)
    return {name: float(needed / span_s) for name, needed in needs_s.items()}


def bottleneck(loads: dict[str, float] | None) -> str | None:
    """Return the resource of the highest load, the first one of equals."""
    return None if loads is None else max(loads, key=lambda name: loads[name])


def _compute_s(
    records: Records, spec: EngineSpec, first: int, counters: Counters
) -> float:
    """Return the engine seconds that requests need, decoding in full batches.

    A batch is full with as many sequences as the pool holds, by the blocks that each
    held on average. Steps that had to go with fewer, while others waited for a token or
    a place in a step, count whole. What the requests did take is the most.
    """
    cost = spec.cost
    counts = {name: of[first:] for name, of in records.counts.items()}
    n = counts["prefilled_tokens"].astype(np.float64)
    hits = records.hit_tokens[first:]
    prefill_s: Float64Array = (
        cost.start_s + cost.token_s * n + cost.pair_s * (n * n / 2 + n * hits)
    )
    steps = counts["output_tokens"] - 1.0
    context = counts["input_tokens"] + counts["output_tokens"] / 2
    held = max(counters["held_blocks_s"], 1e-9)
    fit = (spec.gpu_blocks - 1) * counters["holders_s"] / held
    batch = max(min(spec.limits.max_sequences, fit), 1.0)
    a_step_s = cost.decode_s / batch + cost.sequence_s + cost.context_s * context
    short = counters["crowded_steps"] - counters["crowded_sequences"] / batch
    needed_s = float((prefill_s + steps * a_step_s).sum())
    return min(needed_s + cost.decode_s * max(short, 0), float(counters["busy_s"]))
