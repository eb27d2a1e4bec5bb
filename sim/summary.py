"""What a simulation came to, as JSON values."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hotset.policies.base import Params
from hotset.sim import metrics
from hotset.sim.engine import Engine
from hotset.sim.ssd import DAY_S
from hotset.sim.tiers import TwoTiers
from hotset.sim.transfers import Link

if TYPE_CHECKING:
    from hotset.sim.simulate import Plan


def summary(
    label: str,
    name: str,
    params: Params,
    engine: Engine,
    records: metrics.Records,
    plan: Plan,
    cpu_blocks: int,
) -> dict[str, Any]:
    """Return a run's summary."""
    spec, tier = engine.spec, engine.tier
    first = math.floor(plan.warmup * records.num_requests)
    counts = {key: int(of[first:].sum()) for key, of in records.counts.items()}
    spans = {key: of[first:] for key, of in records.spans().items()}
    hits = counts["gpu_tokens"] + counts["cpu_tokens"] + counts["ssd_tokens"]
    is_open = plan.users is None
    kv_bytes, chunk = spec.kv_bytes_per_token, spec.limits.chunk_tokens
    return {
        "policy": name,
        "label": label,
        "params": dataclasses.asdict(params),
        "admission": {
            "name": plan.admission[0].name,
            **dataclasses.asdict(plan.admission[1]),
        },
        "cpu_blocks": cpu_blocks,
        "measured_from_request": first,
        "requests": records.num_requests - first,
        **{key: metrics.quantiles(of) for key, of in spans.items()},
        "duration_s": engine.env.now,
        "offered_load": metrics.offered_load(records, spec) if is_open else None,
        "busy_share": engine.busy_s / engine.env.now if engine.env.now > 0 else None,
        "mean_present": (
            engine.present_s / engine.env.now if engine.env.now > 0 else None
        ),
        "steps": engine.batcher.step,
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
        "links": _links(engine),
        "cpu": {
            **dataclasses.asdict(tier.counts),
            **tier.gauges(),
            "reuse_age_s": metrics.quantiles(np.array(tier.reuse_ages_s)),
            "load_bytes": engine.num_loaded_tokens * kv_bytes,
            "store_bytes": tier.counts.stores * chunk * kv_bytes,
            "resident_blocks": tier.num_resident * (chunk // spec.limits.block_tokens),
            "policy_faults": tier.num_faults,
        },
        "ssd": _ssd(engine),
        "break_even_tokens": {
            "cpu": spec.cost.break_even_tokens([spec.load_link], kv_bytes),
            "ssd": None
            if spec.ssd is None
            else spec.cost.break_even_tokens([spec.ssd.read, spec.load_link], kv_bytes),
        },
    }


def _ssd(engine: Engine) -> dict[str, Any] | None:
    tier = engine.tier
    if not isinstance(tier, TwoTiers):
        return None
    ssd, spec = tier.ssd, engine.spec
    written = ssd.counts.stores * ssd.chunk_bytes
    blocks = spec.limits.chunk_tokens // spec.limits.block_tokens
    days = engine.env.now / DAY_S
    return {
        **ssd.config.as_json(),
        **dataclasses.asdict(ssd.counts),
        "capacity": ssd.driver.capacity,
        "resident": ssd.num_resident,
        "resident_blocks": ssd.num_resident * blocks,
        "read_bytes": ssd.counts.loaded * ssd.chunk_bytes,
        "write_bytes": written,
        "writes_per_day_bytes": written / days if days > 0 else None,
        "policy_faults": ssd.driver.num_faults,
    }


def _links(engine: Engine) -> dict[str, Any]:
    def one(link: Link) -> dict[str, Any]:
        return {
            "bytes": link.num_bytes,
            "transfers": link.num_transfers,
            "busy_s": link.busy_s,
            "wait_s": link.wait_s,
        }

    links = {"cpu_load": engine.load_link, "cpu_store": engine.store_link}
    if not engine.spec.is_duplex:
        links = {"cpu": engine.load_link}
    if engine.ssd is not None:
        links["ssd_read"] = engine.ssd.read_link
        links["ssd_write"] = engine.ssd.write_link
    return {name: one(link) for name, link in links.items()}
