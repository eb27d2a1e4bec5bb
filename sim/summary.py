"""What a simulation came to, as JSON values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from hotset.policies.base import Params, PolicySpec
from hotset.sim import metrics
from hotset.sim.engine import Engine
from hotset.sim.load import bottleneck, offered_loads
from hotset.sim.ssd import DAY_S
from hotset.sim.tiers import TwoTiers
from hotset.sim.window import Counters, Window

if TYPE_CHECKING:
    from hotset.sim.simulate import Plan


def summary(
    policy: tuple[PolicySpec, Params],
    engine: Engine,
    records: metrics.Records,
    window: Window,
    plan: Plan,
    cpu_blocks: int,
) -> dict[str, Any]:
    """Return a run's summary, over its measuring window."""
    spec, tier, first = engine.spec, engine.tier, window.first
    found = window.counters()
    duration_s = found["time_s"]
    counts = {key: int(of[first:].sum()) for key, of in records.counts.items()}
    spans = {key: of[first:] for key, of in records.spans().items()}
    hits = counts["gpu_tokens"] + counts["cpu_tokens"] + counts["ssd_tokens"]
    loads = None  # of requests that wait for each other
    if plan.users is None:
        loads = offered_loads(records, spec, window)
    name = bottleneck(loads)
    kv_bytes, chunk = spec.kv_bytes_per_token, spec.limits.chunk_tokens
    return {
        "policy": policy[0].name,
        "label": policy[0].label(policy[1]),
        "params": dataclasses.asdict(policy[1]),
        "admission": {
            "name": plan.admission[0].name,
            **dataclasses.asdict(plan.admission[1]),
        },
        "cpu_blocks": cpu_blocks,
        "measured_from_request": first,
        "requests": records.num_requests - first,
        **{key: metrics.quantiles(of) for key, of in spans.items()},
        "duration_s": duration_s,
        "offered_load": None if loads is None or name is None else loads[name],
        "offered_load_by": loads,
        "bottleneck": name,
        "busy_share": found["busy_s"] / duration_s if duration_s > 0 else None,
        "mean_present": found["present_s"] / duration_s if duration_s > 0 else None,
        "steps": found["steps"],
        "goodput": metrics.goodput(records, first, plan.slo_ttft_s, plan.slo_itl_s),
        "saved_prefill_s": metrics.saved_prefill_s(records, spec, first),
        "tokens": {
            "input": counts["input_tokens"],
            "output": counts["output_tokens"],
            "gpu_hit": counts["gpu_tokens"],
            "cpu_hit": counts["cpu_tokens"],
            "ssd_hit": counts["ssd_tokens"],
            "hit": hits,
            "computed": counts["computed_tokens"],
            "prefilled": counts["prefilled_tokens"],
        },
        "token_hit_ratio": hits / max(counts["input_tokens"], 1),
        "preemptions": counts["preemptions"],
        "links": found["links"],
        "cpu": {
            **found["cpu"],
            **tier.gauges(),
            "reuse_age_s": metrics.quantiles(np.array(window.reuse_ages_s())),
            "load_bytes": found["loaded_tokens"] * kv_bytes,
            "store_bytes": found["cpu"]["stores"] * chunk * kv_bytes,
            "resident_blocks": tier.num_resident * (chunk // spec.limits.block_tokens),
            "policy_faults": found["policy_faults"],
        },
        "ssd": _ssd(engine, found),
        "break_even_tokens": {
            "cpu": spec.cost.break_even_tokens([spec.load_link], kv_bytes),
            "ssd": None
            if spec.ssd is None
            else spec.cost.break_even_tokens([spec.ssd.read, spec.load_link], kv_bytes),
        },
    }


def _ssd(engine: Engine, found: Counters) -> dict[str, Any] | None:
    tier = engine.tier
    if not isinstance(tier, TwoTiers):
        return None
    ssd, spec = tier.ssd, engine.spec
    counts = found["ssd"]
    written = counts["stores"] * ssd.chunk_bytes
    blocks = spec.limits.chunk_tokens // spec.limits.block_tokens
    days = found["time_s"] / DAY_S
    return {
        **ssd.config.as_json(),
        **counts,
        "capacity": ssd.driver.capacity,
        "resident": ssd.num_resident,
        "resident_blocks": ssd.num_resident * blocks,
        "read_bytes": counts["loaded"] * ssd.chunk_bytes,
        "write_bytes": written,
        "writes_per_day_bytes": written / days if days > 0 else None,
        "policy_faults": found["ssd_policy_faults"],
    }
