"""The plain replay loop against naive twins, access by access."""

import pytest
from contract.replaying import make_replay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from strategies import BLOCK_TOKENS, capacities, forests

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.workload import Workload

# Every policy, and every parameter at values where it matters on small inputs.
POLICY_TEXTS = [
    "lru",
    "lru:order=tail-first",
    "lru:order=vllm-0.24",
    "lru:order=vllm-0.32",
    "lru:order=vllm-0.33",
    "fifo",
    "fifo:order=insertion",
    "marconi",
    "marconi:reuse=log,decay=0.3",
    "marconi:reuse=none,decay=0.01,depth_weight=0",
    "marconi:reuse=linear,decay=100,depth_weight=2.5",
    "marconi:reuse=none,depth_weight=0",
    "marconi:admission_threshold=2,decay=0.1",
    "marconi:tracker_size=6,decay=0.05",
    "marconi:admission_threshold=2,tracker_size=9,reuse=log",
    "relevance",
    "relevance:order=given",
    "relevance:half_life=1",
    "relevance:half_life=1,order=given,w_reuse=0.25",
    "relevance:floor_rule=clamp,half_life=2",
    "relevance:floor_rule=clamp,order=given,half_life=5,tracker_size=7",
    "relevance:w_recency=0",
    "relevance:w_reuse=0,half_life=1.5,floor_document=1,floor_user=0",
    "relevance:w_recency=1,w_reuse=1,half_life=3,tracker_size=5",
    # Recency is a few units in the last place, so that blocks of one class often tie.
    "relevance:w_recency=1e-14,half_life=8",
    "relevance:w_recency=1e-15,half_life=20,order=given",
    "relevance:w_recency=4e-16,half_life=40,floor_rule=clamp,floor_user=0",
    "weighted",
    "weighted:recency=1,reuse_weight=0,depth_weight=0",
    "weighted:recency=0,reuse=log,reuse_weight=2.5,length=-1,end=3,turn=0.5",
    "weighted:count=resident,reuse=log,end=1",
    "weighted:hit=2,priority=1.5,source_system=4,source_user=-1,tracker_size=7",
    "guard:distance=2,growth=1",
    "guard:distance=1,growth=3,memory=1",
    "guard:distance=0",
    "adaptive",
    "adaptive:evidence=0,min_gain=0,half_life=50",
    "adaptive:evidence=0,min_gain=0,memory=1",
    "leader",
    "leader:window=3,half_life=50",
    "belady",
    "belady:bypass=false",
    "unbounded",
    "arc",
    "arc:order=vllm-0.24",
    "arc:order=vllm-0.30",
    "arc:order=vllm-0.32",
    "arc:order=vllm-0.33",
    "lfu",
    "gdsf",
    "sieve",
    "s3fifo",
    "s3fifo:small=0.5",
    "tinylfu",
    "tinylfu:window=0.4",
]
ADMISSION_TEXTS = [
    "threshold",
    "threshold:count=lookup",
    "threshold:min_count=1",
    "threshold:min_count=3",
    "threshold:max_tracker_size=4",
    "threshold:max_tracker_size=5,count=lookup",
]


def requests_of(workload):
    """What the twins read: the accesses under the workload's tail rule."""
    trace, blocks = workload.trace, workload.blocks
    ids, offsets = blocks.ids.tolist(), blocks.offsets.tolist()
    return [
        NaiveRequest.of(trace, r, ids[offsets[r] : offsets[r + 1]])
        for r in range(trace.num_requests)
    ]


def make_pair(workload, capacity, policy_text, admission_text="always"):
    replay = make_replay(workload, policy_text, capacity, admission_text)
    requests = requests_of(workload)
    keys = [request.keys for request in requests]
    twin = NaiveCache(
        naive_policy(policy_text, keys, capacity=capacity),
        naive_admission(admission_text),
        max(capacity, workload.blocks.num_distinct)
        if policy_text == "unbounded"
        else capacity,
        BLOCK_TOKENS,
    )
    return replay, twin, requests


def compare(replay, twin, requests):
    for r, request in enumerate(requests):
        replay.advance(1)
        hit = twin.step(request)
        got, result = replay.resident().tolist(), replay.result()
        where = f"request {r} of {requests}, capacity {twin.capacity}"
        assert int(replay.hit_tokens[r]) == hit, where
        assert got == sorted(twin.resident), where
        assert (result.stores, result.evictions) == (twin.stores, twin.evictions), where
        assert len(got) <= twin.capacity, where
    assert replay.is_done
    assert result.hit_tokens == sum(replay.hit_tokens.tolist())


def draw_workload(data, tags=True, tail=None):
    forest = data.draw(forests(tags=tags))
    tail = tail or data.draw(st.sampled_from(["drop", "count"]))
    workload = Workload(forest.trace(), tail=tail)
    capacity = data.draw(
        capacities(workload.longest_blocks, workload.blocks.num_distinct)
    )
    return workload, capacity


twin_settings = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("policy_text", POLICY_TEXTS)
@twin_settings
@given(data=st.data())
def test_policy_equals_twin(policy_text, data):
    workload, capacity = draw_workload(data)
    compare(*make_pair(workload, capacity, policy_text))


@pytest.mark.parametrize("admission_text", ADMISSION_TEXTS)
@twin_settings
@given(data=st.data())
def test_admission_equals_twin(admission_text, data):
    workload, capacity = draw_workload(data)
    policy_text = data.draw(
        st.sampled_from(
            [
                "lru",
                "fifo",
                "marconi:admission_threshold=2",
                "relevance:half_life=4",
                "belady",
                "unbounded",
            ]
        )
    )
    compare(*make_pair(workload, capacity, policy_text, admission_text))


def test_every_registered_name_has_a_twin():
    assert {text.partition(":")[0] for text in POLICY_TEXTS} == set(POLICIES.names())
    named = {text.partition(":")[0] for text in ADMISSION_TEXTS} | {"always"}
    assert named == set(ADMISSIONS.names())
