"""A real engine's recording, replayed: the hits that the engine had."""

import csv
import json

import pytest
from support.engine_process import hotset, start
from support.vllm_engine import BLOCK_TOKENS, GPU_BLOCKS, OUTPUT_TOKENS, make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(300)
POLICY = "lru:order=tail-first"


def replayed(recording, folder, policy, chunks, *words):
    """Hit tokens of every request, by the command line."""
    out = folder / "requests.csv"
    hotset(
        *("replay", recording, "--engine", "vllm-0.32", "--policy", policy),
        *("--gpu-blocks", GPU_BLOCKS, "--capacity", chunks, "--per-request", out),
        *words,
    )
    with out.open(newline="") as file:
        head, *rows = csv.reader(file)
    return head, [int(row[-1]) for row in rows]


@pytest.mark.parametrize(
    ("policy", "chunks", "per_chunk"),
    [(POLICY, 40, 1), ("marconi:reuse=log,decay=0.01", 12, 1), (POLICY, 30, 2)],
)
def test_the_recording_replays_to_the_engines_own_hits(
    policy, chunks, per_chunk, tmp_path
):
    """Request by request, and with it in total."""
    recording = tmp_path / "trace.jsonl"
    engine = {
        "chunks": chunks,
        "blocks_per_chunk": per_chunk,
        "policy": policy,
        "record": {"path": str(recording)},
    }
    served = start(engine, tmp_path, PROMPTS)
    rows = [json.loads(line) for line in recording.read_text().splitlines()]
    assert [row["input_length"] for row in rows] == [len(p) for p in PROMPTS]
    assert {row["output_length"] for row in rows} == {OUTPUT_TOKENS}
    assert {row["block_size"] for row in rows} == {BLOCK_TOKENS}
    words = ("--chunk-tokens", per_chunk * BLOCK_TOKENS)
    _, hits = replayed(recording, tmp_path, policy, chunks * per_chunk, *words)
    assert hits == served["cached"]
    assert sum(hits) > 0
    assert served["counters"]["vllm:kv_offload_load_bytes"] > 0
    loaded = sum(row["loaded_blocks"] for row in rows)
    assert loaded > 0
    stored = sum(row["stored_blocks"] for row in rows)
    assert stored > 100 + chunks * per_chunk


def test_a_path_that_cannot_be_written_disturbs_nobody(tmp_path):
    prompts = PROMPTS[:20]
    plain = start({"chunks": 20}, tmp_path, prompts)
    record = {"path": str(tmp_path / "none" / "trace.jsonl")}
    served = start({"chunks": 20, "record": record}, tmp_path, prompts)
    assert (served["outputs"], served["cached"]) == (plain["outputs"], plain["cached"])
    assert served["log"].count("hotset: recorder") == 1
