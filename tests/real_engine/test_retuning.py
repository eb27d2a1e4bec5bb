"""A real engine whose policy file is replaced while it serves."""

import pytest
from support.engine_process import start
from support.tuned import tuned
from support.vllm_engine import make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(100)
CHUNKS = 30


def test_a_new_policy_goes_on_and_a_wrong_one_does_not(tmp_path):
    path = tmp_path / "tuned.json"
    path.write_text(tuned("lru"))
    files = [
        (str(path), tuned("marconi:reuse=log,decay=0.01"), "applied"),
        (str(path), tuned("marconi:reuse=maybe"), "refused"),
    ]
    engine = {
        "chunks": CHUNKS,
        "policy_file": str(path),
        "watch_s": 0.1,
        "logging": "INFO",
    }
    served = start(engine, tmp_path, PROMPTS, files=files, metrics_text=True)
    outputs, cached = served["after_files"]
    assert outputs == served["outputs"]
    assert sum(cached) > 0
    loaded = "vllm:kv_offload_load_bytes"
    assert served["counters_after"][loaded] > served["counters"][loaded] > 0
    log = served["log"]
    assert log.count("chunks go on under policy marconi:reuse=log,decay=0.01") == 1
    assert log.count("the policy stays as it is") == 1
    text = served["metrics_text"]
    for outcome in ("applied", "refused"):
        (line,) = (
            line
            for line in text.splitlines()
            if line.startswith("vllm:hotset_policy_files_total")
            and f'outcome="{outcome}"' in line
        )
        assert line.endswith(" 1.0")
    (resident,) = (
        line for line in text.splitlines() if line.startswith("vllm:hotset_resident{")
    )
    assert float(resident.rsplit(" ", 1)[1]) == CHUNKS
    assert "vllm:hotset_policy_faults_total{" not in text
