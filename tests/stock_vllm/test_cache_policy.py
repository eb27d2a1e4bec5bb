"""Our policies as vLLM's cache policies, in vLLM's own manager of each version."""

import json

import pytest
from support.trees import python

pytestmark = pytest.mark.vllm

# The order that mirrors each version's own LRU.
ORDERS = {
    "0.24.0": "vllm-0.24",
    "0.28.0": "vllm-0.24",
    "0.32.0": "vllm-0.32",
    "0.33.0": "vllm-0.33",
}
RECORDED = ("0.24.0", "0.32.0", "0.33.0")
SEEDS = ("0", "1", "7")
POLICIES = ("lru", "fifo", "marconi", "relevance")


def run(version, jobs, folder, hash_seed="0"):
    """Do jobs of `support.stock_traffic` in a process with that vLLM; their answers."""
    out = folder / "answers.json"
    words = ["-m", "support.stock_traffic", str(out)]
    python(version, words, folder, stdin=json.dumps(jobs), PYTHONHASHSEED=hash_seed)
    return json.loads(out.read_text())


@pytest.mark.parametrize("version", ORDERS)
def test_lru_answers_as_vllms_own(version, tmp_path):
    """Recorded scripts and random ones: every answer of the manager is the same.

    The order of another version is told apart, so the scripts can tell.
    """
    order = ORDERS[version]
    other = "vllm-0.24" if order != "vllm-0.24" else "vllm-0.32"
    recorded = version if version in RECORDED else "0.24.0"
    jobs = [
        ["beside", "lru", f"lru:order={order}", recorded, 100],
        ["beside", "lru", f"lru:order={other}", recorded, 10],
    ]
    same, different = run(version, jobs, tmp_path)
    assert same["scripts_ours"] == []
    assert same["scripts_theirs"] == []
    assert same["random"] == []
    assert same["num_scripts"] == (20 if version == "0.33.0" else 60)
    assert same["counts"]["evicted"] > 5000
    assert same["counts"]["refused"] > 500
    assert same["counts"]["loaded"] > 1000
    assert same["counts"]["reset"] > 50
    assert len(different["scripts_ours"]) > 10
    assert len(different["random"]) > 5


@pytest.mark.parametrize("version", ORDERS)
def test_victims_do_not_depend_on_the_hash_seed(version, tmp_path):
    """Chunks of a job come as sets; neither the policy nor the manager looks at that.

    vLLM's own LRU of 0.24 to 0.30 does, which shows that the sets differ.
    """
    jobs = [[verb, text] for verb in ("alone", "manager") for text in POLICIES]
    jobs.append(["stock", "lru"])
    answers = [run(version, jobs, tmp_path, seed) for seed in SEEDS]
    ours = [answer[:-1] for answer in answers]
    assert ours[0] == ours[1] == ours[2]
    assert all(evicted > 500 for _, evicted in ours[0])
    assert len({victims for victims, _ in ours[0]}) > 4
    stock = {answer[-1][0] for answer in answers}
    assert len(stock) == (3 if version in ("0.24.0", "0.28.0") else 1)


@pytest.mark.parametrize("version", [v for v in ORDERS if v != "0.24.0"])
def test_a_request_counts_once_however_often_it_is_reported(version, tmp_path):
    """The score of a request's first chunk is the number of requests that named it."""
    (seen,) = run(version, [["sights", "marconi"]], tmp_path)
    assert [round(score, 9) for score in seen] == [1.0, 2.0, 3.0]
