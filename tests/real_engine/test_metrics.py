"""A real engine's metrics: what it served, under the names that the dashboard asks."""

import re

import pytest
from support.dashboard import absent, exposed, wanted
from support.engine_process import start
from support.vllm_engine import make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(120)
CHUNKS = 30


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics")
    engine = {
        "chunks": CHUNKS,
        "policy": "marconi",
        "log_every": 50,
        "logging": "INFO",
        "record": {"path": str(folder / "trace.jsonl")},
    }
    tags = [
        {"hotset": {"source_type": "user", "session": "s"}},
        {"hotset": {"source_type": "system"}},
        {"hotset": {"priority": "high"}},
        None,
    ]
    return start(engine, folder, PROMPTS, tags=tags, metrics_text=True)


def values(text, name):
    """Samples of a series by their labels but those of every metric."""
    found = {}
    for line in text.splitlines():
        if line.startswith(name + "{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            key = tuple(
                v for k, v in labels.items() if k not in ("engine", "model_name")
            )
            found[key] = found.get(key, 0.0) + float(line.rsplit(" ", 1)[1])
    return found


def test_the_dashboard_asks_for_what_there_is(served):
    assert absent(served["metrics_text"]) == []
    _, labels = exposed(served["metrics_text"])
    with_samples = {name for name in wanted() if name in labels}
    assert len(with_samples) >= 15


def test_counts_are_what_the_engine_did(served):
    text = served["metrics_text"]

    def total(name):
        return sum(values(text, f"vllm:hotset_{name}").values())

    tokens = values(text, "vllm:hotset_tokens_total")
    # vLLM tells of the last request's end in a step that never comes.
    prompts, cached = PROMPTS[:-1], served["cached"][:-1]
    assert sum(tokens.values()) == sum(map(len, prompts))
    assert tokens[("gpu_hit",)] + tokens[("cpu_hit",)] == sum(cached)
    assert total("requests_total") == len(prompts)
    stores, evictions = total("stores_total"), total("evictions_total")
    assert stores - evictions == total("resident") == CHUNKS == total("capacity")
    assert total("loaded_total") > 0
    assert 0 < total("dropped_unused_total") < evictions
    assert total("pinned") == total("pending") == total("policy_faults_total") == 0
    assert values(text, "vllm:hotset_invalid_tags_total") == {("priority",): 30}
    by_source = values(text, "vllm:hotset_stores_total")
    assert set(by_source) == {("user",), ("system",), ("none",)}
    assert total("reuse_age_s_count") > 0
    assert values(text, "vllm:hotset_recorded_requests_total")[("recorded",)] > 100


def test_the_log_has_a_line_for_every_fifty_requests(served):
    lines = [line for line in served["log"].splitlines() if "hotset: 50 req" in line]
    assert len(lines) == 2
    assert "from the CPU tier" in lines[0]
