"""Eight users at once in a real engine: the totals that `hotset simulate` says."""

import json

import pytest
from support.engine_process import hotset, start
from support.vllm_engine import BLOCK_BYTES, BLOCK_TOKENS, make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(400)
USERS = 8
GPU_BLOCKS = 64
STEP_TOKENS = 1024
ENGINE = {
    "num_gpu_blocks_override": GPU_BLOCKS,
    "max_num_batched_tokens": STEP_TOKENS,
    "async_scheduling": False,
}
# One block of the GPU cache is vLLM's own. A step takes a second, and transfers are
# done within one, as on the CPU build.
PROFILE = f"""
name = "tiny"
summary = "a step is a second"
estimated = false
[model]
kv_bytes_per_token = {BLOCK_BYTES // BLOCK_TOKENS}
[gpu]
pool_tokens = {(GPU_BLOCKS - 1) * BLOCK_TOKENS}
step_tokens = {STEP_TOKENS}
max_sequences = 256
async_scheduling = false
[cost]
start_s = 1.0
token_s = 1e-9
pair_s = 0.0
decode_s = 1.0
sequence_s = 0.0
context_s = 0.0
[links.cpu]
load_bytes_per_s = 1e15
store_bytes_per_s = 1e15
latency_s = 0.0
duplex = true
"""


@pytest.mark.parametrize("policy", ["lru:order=tail-first", "marconi", "guard"])
def test_totals_are_within_two_percent(policy, tmp_path):
    recording, profile = tmp_path / "trace.jsonl", tmp_path / "tiny.toml"
    profile.write_text(PROFILE)
    chunks = 60
    engine = {
        "chunks": chunks,
        "policy": policy,
        "engine": ENGINE,
        "record": {"path": str(recording)},
    }
    served = start(engine, tmp_path, PROMPTS, users=USERS)
    hotset(
        *("simulate", recording, "--profile", profile, "--policy", policy),
        *("--cpu", chunks, "--engine", "vllm-0.32", "--users", USERS),
        *("--json", tmp_path / "result.json"),
    )
    run = json.loads((tmp_path / "result.json").read_text())["runs"][0]
    total = sum(served["cached"])
    assert total == pytest.approx(run["tokens"]["hit"], rel=0.02)
    assert run["tokens"]["cpu_hit"] > 1000
    assert run["cpu"]["evictions"] > 200
    assert served["counters"]["vllm:kv_offload_load_bytes"] > 30 * BLOCK_BYTES
