"""A real engine with an SSD tier behind a CPU tier that is too small."""

import re

import pytest
from support import engine_process
from support.vllm_engine import BLOCK_TOKENS, make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(110)
CHUNKS = 24  # twice what the longest prompt takes
CHUNK_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def without_offload(tmp_path_factory):
    return engine_process.start({}, tmp_path_factory.mktemp("plain"), PROMPTS)


def start(folder, ssd=None, prompts=PROMPTS, **job):
    """Serve the prompts with an SSD tier in a folder."""
    ssd = {
        "path": str(folder / "ssd"),
        "max_bytes": 2000 * CHUNK_BYTES,
        "min_free_bytes": 0,
        **(ssd or {}),
    }
    engine = {"chunks": CHUNKS, "policy": "lru", "ssd": ssd}
    job = {"ssd_faults": {}, **job}
    return engine_process.start(engine, folder, prompts, metrics_text=True, **job)


def values(served, name):
    """Samples of a series by their labels but those of every metric."""
    found = {}
    for line in served["metrics_text"].splitlines():
        if line.startswith(f"vllm:hotset_{name}{{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            own = [v for k, v in labels.items() if k not in ("engine", "model_name")]
            key = ",".join(own)
            found[key] = found.get(key, 0.0) + float(line.rsplit(" ", 1)[1])
    return found


def tokens(served, prompts=PROMPTS):
    """Prompt tokens by where their KV came from; they sum up to what was served."""
    # vLLM tells of the last request's end in a step that never comes.
    found = values(served, "tokens_total")
    assert sum(found.values()) == sum(map(len, prompts[:-1]))
    hits = found["gpu_hit"] + found["cpu_hit"] + found.get("ssd_hit", 0.0)
    assert hits == sum(served["cached"][:-1])
    return found


def test_stop_and_start(without_offload, tmp_path):
    """The same tokens, a tier for every hit; then all that comes again is on SSD."""
    served = start(tmp_path)
    assert served["outputs"] == without_offload["outputs"]
    found = tokens(served)
    assert min(found.values()) > 0
    # Each chunk on SSD came from the tier above it, and each hit was promoted.
    written = values(served, "ssd_writes_total")["write-through"]
    assert written > 3 * CHUNKS
    # What the last prompt stored is on its way when vLLM asks for the last time.
    last = len(PROMPTS[-1]) // BLOCK_TOKENS
    assert 0 <= written - values(served, "ssd_stores_total")["done"] <= last
    promoted = values(served, "promotions_total")[""]
    assert promoted * BLOCK_TOKENS >= found["ssd_hit"] > CHUNKS * BLOCK_TOKENS
    assert values(served, "ssd_loads_total") == {"done": promoted}
    again = start(tmp_path)
    assert again["outputs"] == without_offload["outputs"]
    full = [len(prompt) // BLOCK_TOKENS * BLOCK_TOKENS for prompt in PROMPTS]
    assert again["cached"] == full
    found = tokens(again)
    assert found["ssd_hit"] > found["gpu_hit"] + found.get("cpu_hit", 0)
    assert values(again, "ssd_writes_total") == {}


def test_demotion(without_offload, tmp_path):
    """Only what the CPU tier evicts is written, and that comes back."""
    served = start(tmp_path, {"mode": "demote", "staging_share": 0.4})
    assert served["outputs"] == without_offload["outputs"]
    found = tokens(served)
    assert min(found.values()) > 0
    evicted = sum(values(served, "evictions_total").values())
    assert 0 < values(served, "ssd_writes_total")["demote"] < evicted


def test_faults_of_the_disk_are_misses(without_offload, tmp_path):
    """Reads, writes and syncs fail, bytes change, files are cut: the same tokens."""
    plan = {
        25: "no_reads",
        35: "heal",
        45: "no_writes",
        55: "heal",
        65: "wrong_bytes",
        75: "no_syncs",
        85: "heal",
        95: "cut_files",
    }
    served = start(tmp_path, ssd_faults=plan)
    assert served["outputs"] == without_offload["outputs"]
    tokens(served)
    loads = values(served, "ssd_loads_total")
    assert loads["done"] > 10
    assert sum(loads.values()) - loads["done"] > 5, loads
    failed = values(served, "failed_promotions_total")[""]
    refused = values(served, "refused_promotions_total").get("", 0.0)
    assert failed + refused >= sum(loads.values()) - loads["done"]
    assert values(served, "ssd_faults_total").get("tier", 0.0) == 0.0
