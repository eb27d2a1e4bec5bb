"""A real vLLM engine with hotset's spec: the same tokens, and what replay predicts."""

import itertools

import pytest
from support import engine_process
from support.vllm_engine import make_prompts, predict

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(300)
POLICIES = [
    "lru:order=tail-first",
    "arc:order=paper",
    "marconi:reuse=log,decay=0.01",
    "relevance",
    "weighted:length=0.5,hit=-1,end=0.25",
    "guard:distance=10",
    # Gives up LRU order within these requests, which its defaults would not.
    "adaptive:half_life=50,evidence=0,min_gain=0",
]
RUNS = [*itertools.product(POLICIES, (12, 40, 90)), ("fifo", 40)]


def start(engine, folder, **job):
    """Serve the prompts in a new process; return its answer, or fail with its log."""
    return engine_process.start(engine, folder, PROMPTS, **job)


@pytest.fixture(scope="module")
def without_offload(tmp_path_factory):
    """What the engine answers with no CPU tier at all."""
    return start({}, tmp_path_factory.mktemp("plain"))


def assert_predicted(served, policy, chunks, **settings):
    """Cached tokens of every request equal those of the replay."""
    predicted, result = predict(PROMPTS, policy, chunks, **settings)
    wrong = [
        (i, got, said)
        for i, (got, said) in enumerate(zip(served["cached"], predicted, strict=True))
        if got != said
    ]
    assert wrong == [], "request, engine, replay"
    assert len(predicted) == 300
    return result


@pytest.mark.parametrize(("policy", "chunks"), RUNS)
def test_tokens_are_the_same_and_hits_are_predicted(
    policy, chunks, without_offload, tmp_path
):
    """300 requests through eviction pressure, each hit to the token."""
    served = start({"chunks": chunks, "policy": policy}, tmp_path)
    assert served["outputs"] == without_offload["outputs"]
    result = assert_predicted(served, policy, chunks)
    # Policies that refuse evict less; all lose hits for want of room.
    assert result.evictions >= 10
    roomy, _ = predict(PROMPTS, "lru", 10_000)
    assert sum(served["cached"]) < sum(roomy)
    if chunks >= 40:
        assert sum(served["cached"]) > sum(without_offload["cached"])
        assert served["counters"]["vllm:kv_offload_load_bytes"] > 0


def test_chunks_of_several_blocks(without_offload, tmp_path):
    """Two GPU blocks a chunk: GPU hits end inside a chunk, loads begin there."""
    policy = "lru:order=tail-first"
    engine = {"chunks": 30, "blocks_per_chunk": 2, "policy": policy}
    served = start(engine, tmp_path)
    assert served["outputs"] == without_offload["outputs"]
    result = assert_predicted(served, policy, 30, blocks_per_chunk=2)
    assert result.evictions > 100
    assert served["counters"]["vllm:kv_offload_load_bytes"] > 0


def test_admission_by_threshold_and_reset(without_offload, tmp_path):
    """After a reset nothing is served from before, and outputs stay the same."""
    policy, rule = "lru:order=tail-first", "threshold:2"
    engine = {"chunks": 40, "policy": policy, "admission": rule}
    served = start(engine, tmp_path, reset_then=PROMPTS[:1])
    assert served["outputs"] == without_offload["outputs"]
    assert_predicted(served, policy, 40, admission=rule)
    outputs, cached = served["after_reset"]
    assert cached == [0]
    assert outputs == without_offload["outputs"][:1]


def test_a_wrong_configuration_says_everything_at_once(tmp_path):
    with pytest.raises(RuntimeError, match="did you mean 'policy'") as raised:
        start({"chunks": 10, "polcy": "lru", "admission": "threshold:0"}, tmp_path)
    assert "allowed is 1 to 1000" in str(raised.value)
