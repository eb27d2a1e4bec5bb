"""The replay loop behind an engine against a naive twin, access by access."""

import math

import numpy as np
import pytest
from contract.replaying import make_replay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.naive import NaiveEngine, NaiveGpu, NaiveRules
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from strategies import BLOCK_TOKENS, Forest, forests
from support.one_at_a_time import ENGINE_FACTS, chunk_requests

from hotset.sim.workload import Workload

POLICY_TEXTS = [
    "lru",
    "fifo",
    "marconi:decay=0.2,admission_threshold=2",
    "marconi:reuse=log,depth_weight=0",
    "relevance:half_life=6",
    "relevance:half_life=2,order=given,floor_rule=clamp",
    "weighted:recency=0.1,length=0.5,hit=1,end=1,turn=1,priority=1",
    "guard:distance=3",
    "adaptive:evidence=0,min_gain=0,half_life=50",
    "leader:window=2",
    "belady",
    "belady:bypass=false",
    "unbounded",
    "arc:order=paper",
    "lfu",
    "gdsf",
    "sieve",
    "s3fifo:small=0.4",
    "tinylfu:window=0.2",
]


@st.composite
def setups(draw, engine_name):
    """A workload in chunks, a GPU and a capacity, small enough to be tight."""
    forest = draw(forests(max_requests=40, tags=True))
    per_chunk = draw(st.integers(1, 3))
    workload = Workload(forest.trace(), chunk_tokens=per_chunk * BLOCK_TOKENS)
    distinct = workload.chunks.num_distinct
    few = st.integers(1, 14)
    return {
        "workload": workload,
        "engine_name": engine_name,
        "capacity_blocks": per_chunk
        * draw(st.one_of(few, st.integers(1, distinct + 2)))
        + draw(st.integers(0, per_chunk - 1)),
        # 0 and 1 blocks are no GPU cache (0 without an engine is the plain loop); 4
        # hold less than a long request.
        "gpu_blocks": draw(
            st.sampled_from([int(engine_name == "none"), 1, 4, 8, 14, 20, 60])
        ),
        "step_tokens": draw(st.sampled_from([1, 5, 8, 12, 8192])),
    }


def make_pair(policy_text, admission_text, setup):
    workload, name = setup["workload"], setup["engine_name"]
    replay = make_replay(
        workload,
        policy_text,
        setup["capacity_blocks"],
        admission_text,
        engine=name,
        gpu_blocks=setup["gpu_blocks"],
        step_tokens=setup["step_tokens"],
    )
    *orders, count, whole, touch, at_end = ENGINE_FACTS[name]
    requests, distinct = chunk_requests(workload)
    rule = naive_admission(admission_text, count)
    rules = NaiveRules(
        chunk_tokens=workload.chunk_tokens,
        step_tokens=math.inf if name == "none" else setup["step_tokens"],
        whole=whole,
        touch=touch if policy_text in ("lru", "arc") else "once",
        # Blocks that the request wrote itself are free after two steps, and each
        # offer is one sight.
        retries=2 + getattr(rule, "min_count", 0),
        at_end=at_end,
    )
    capacity = setup["capacity_blocks"] * BLOCK_TOKENS // workload.chunk_tokens
    keys = [request.keys for request in requests]
    twin = NaiveEngine(
        naive_policy(policy_text, keys, orders, capacity),
        rule,
        max(distinct, 1) if policy_text == "unbounded" else capacity,
        BLOCK_TOKENS,
        NaiveGpu(setup["gpu_blocks"]),
        rules,
    )
    return replay, twin, requests


def compare(policy_text, admission_text, setup):
    replay, twin, requests = make_pair(policy_text, admission_text, setup)
    for r, request in enumerate(requests):
        replay.advance(1)
        hit = twin.step(request)
        got, result = replay.resident().tolist(), replay.result()
        where = f"request {r} of {requests}, {setup}"
        assert int(replay.hit_tokens[r]) == hit, where
        assert got == sorted(twin.resident), where
        counts = (result.stores, result.evictions, result.refused_stores)
        assert counts == (twin.stores, twin.evictions, twin.refused), where
        assert result.gpu_hit_tokens == twin.gpu_hit_tokens, where
        assert len(got) <= twin.capacity, where


twin_settings = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("name", [n for n in ENGINE_FACTS if n != "vllm-0.28"])
@pytest.mark.parametrize("policy_text", ["lru", "arc"])
@twin_settings
@given(data=st.data())
def test_the_engines_own_policies(policy_text, name, data):
    compare(policy_text, "always", data.draw(setups(name)))


@pytest.mark.parametrize("policy_text", POLICY_TEXTS[1:])
@twin_settings
@given(data=st.data())
def test_policies_behind_an_engine(policy_text, data):
    name = data.draw(st.sampled_from(["none", "vllm-0.24", "vllm-0.33"]))
    compare(policy_text, "always", data.draw(setups(name)))


@pytest.mark.parametrize("name", ENGINE_FACTS)
@twin_settings
@given(data=st.data())
def test_threshold_behind_each_engine(name, data):
    text = data.draw(
        st.sampled_from(["threshold:min_count=2", "threshold:max_tracker_size=6"])
    )
    policy_text = data.draw(st.sampled_from(["lru", "arc"]))
    compare(policy_text, text, data.draw(setups(name)))


def test_chunks_are_named_and_numbered_like_the_twins():
    rng = np.random.default_rng(5)
    paths, known = [[0, 1, 2, 3, 4]], 5
    for _ in range(30):
        keep = int(rng.integers(0, 6))
        grow = int(rng.integers(0, 4))
        paths.append([*paths[int(rng.integers(0, len(paths)))][:keep]])
        paths[-1] += range(known, known + grow)
        known += grow
    for per_chunk in (1, 2, 3):
        workload = Workload(
            Forest(paths).trace(), chunk_tokens=per_chunk * BLOCK_TOKENS
        )
        requests, distinct = chunk_requests(workload)
        flat = [key for request in requests for key in request.keys]
        assert workload.chunks.ids.tolist() == flat
        assert workload.chunks.num_distinct == distinct
