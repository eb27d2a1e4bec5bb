"""A model with sliding-window and full attention layers: two KV cache groups.

A hybrid with Mamba layers is not run: vLLM's CPU build fails in them.
"""

import pytest
from support.engine_process import start
from support.vllm_engine import BLOCK_BYTES, make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(150)
MODEL = {"model": "tiny_gemma3", "groups": 2}


@pytest.fixture(scope="module")
def without_offload(tmp_path_factory):
    """What the engine answers with no CPU tier at all."""
    return start(MODEL, tmp_path_factory.mktemp("plain"), PROMPTS)


@pytest.mark.parametrize("policy", ["lru", "marconi", "guard:distance=10"])
def test_a_sliding_window_hybrid_gives_the_same_tokens(
    policy, without_offload, tmp_path
):
    """Through eviction pressure, with restores."""
    chunks = 60
    served = start({**MODEL, "chunks": chunks, "policy": policy}, tmp_path, PROMPTS)
    assert served["groups"] == MODEL["groups"]
    assert served["outputs"] == without_offload["outputs"]
    assert sum(served["cached"]) > sum(without_offload["cached"])
    counters = served["counters"]
    assert counters["vllm:kv_offload_load_bytes"] > 0
    assert counters["vllm:kv_offload_store_bytes"] > 2 * chunks * BLOCK_BYTES
