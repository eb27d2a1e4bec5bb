"""CPU and SSD tier against a naive twin: one request at a time, nothing takes time."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.naive import NaiveGpu, NaiveRules
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from oracles.naive_tiers import NaiveSsd, NaiveTiers
from strategies import BLOCK_TOKENS
from support.one_at_a_time import ENGINE_FACTS, chunk_requests, setups
from support.simulated import Simulation, machine, run_config, ssd_config

from hotset.sim.engines import ENGINES
from hotset.sim.ssd import MODES

# Policies that the twin of a tier can drive: they ask nothing of a request.
TEXTS = ["lru", "fifo", "arc", "lfu", "sieve", "s3fifo:small=0.4"]


@st.composite
def tiers(draw):
    """What is behind the CPU tier."""
    return {
        **draw(setups()),
        "mode": draw(st.sampled_from(MODES)),
        "ssd_capacity": draw(st.integers(1, 40)),
        "ssd_admission": draw(
            st.sampled_from(
                ["always", "threshold:min_count=2", "threshold:count=offer"]
            )
        ),
    }


def make_twin(text, ssd_text, setup):
    workload, name = setup["workload"], setup["engine"]
    *orders, count, whole, touch, at_end = ENGINE_FACTS[name]
    requests, _distinct = chunk_requests(workload)
    rule = naive_admission(setup["admission"], count)
    rules = NaiveRules(
        chunk_tokens=workload.chunk_tokens,
        step_tokens=math.inf if name == "none" else setup["step_tokens"],
        whole=whole,
        touch=touch if text in ("lru", "arc") else "once",
        retries=3 + getattr(rule, "min_count", 0),
        at_end=at_end,
    )
    keys = [request.keys for request in requests]
    per_chunk = workload.blocks_per_chunk
    capacity = setup["capacity"] // per_chunk
    ssd = NaiveSsd(
        naive_policy(ssd_text, keys, ("tail-first", "paper"), setup["ssd_capacity"]),
        naive_admission(setup["ssd_admission"], "lookup"),
        setup["ssd_capacity"],
        setup["mode"] == "demote",
    )
    twin = NaiveTiers(
        naive_policy(text, keys, orders, capacity),
        rule,
        capacity,
        BLOCK_TOKENS,
        NaiveGpu(setup["gpu_blocks"]),
        rules,
        ssd,
    )
    return twin, requests


def compare(text, ssd_text, setup):
    workload, rules = setup["workload"], setup["engine"]
    twin, requests = make_twin(text, ssd_text, setup)
    simulation = Simulation(
        workload,
        run_config(text, setup["capacity"], setup["admission"], rules),
        machine(
            workload,
            gpu_blocks=setup["gpu_blocks"],
            step_tokens=1 << 40 if rules == "none" else setup["step_tokens"],
            max_sequences=1,
            offers_at_end=ENGINES[rules].offers_at_end,
        ),
        ssd=ssd_config(
            ssd_text,
            setup["ssd_capacity"] * workload.blocks_per_chunk,
            setup["ssd_admission"],
            mode=setup["mode"],
        ),
    )
    tier = simulation.tier
    arrivals = workload.trace.arrival_s - workload.trace.arrival_s[0]
    ends = [*arrivals[1:], arrivals[-1] + 1.0]
    for r, (request, end_s) in enumerate(zip(requests, ends, strict=True)):
        hit = twin.step(request)
        simulation.run_until(end_s - 0.1)
        where = f"request {r} of {requests}, {setup}"
        assert len(simulation.jobs) == r + 1, where
        job = simulation.jobs[-1]
        assert (job.hit_tokens, job.ssd_tokens) == hit, where
        assert simulation.resident == sorted(twin.resident), where
        held = [key for key in range(tier._distinct) if key in tier.ssd.driver]
        assert held == sorted(twin.ssd.resident) == sorted(twin.ssd.readable), where
        counts, behind = tier.counts, tier.ssd.counts
        assert (
            (counts.stores, counts.evictions, counts.promoted),
            (behind.stores, behind.evictions, behind.loaded),
        ) == (
            (twin.stores, twin.evictions, twin.num_promoted),
            (twin.ssd.stores, twin.ssd.evictions, twin.ssd.reads),
        ), where
        assert tier.driver.num_evictable == len(tier.driver), where
        assert tier.ssd.driver.num_evictable == len(held), where
        assert len(held) <= setup["ssd_capacity"], where
    assert not tier.driver.fallen_back
    assert not tier.ssd.driver.fallen_back


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), tiers())
def test_two_tiers_equal_their_twin(text, ssd_text, setup):
    compare(text, ssd_text, setup)
