"""Our policies as vLLM's cache policies, in vLLM's own manager of each version."""

import json

import pytest
from support.trees import python

pytestmark = pytest.mark.vllm

# The order that mirrors each version's own LRU and ARC, and one that does not.
ORDERS = {
    ("lru", "0.24.0"): ("vllm-0.24", "vllm-0.32"),
    ("lru", "0.28.0"): ("vllm-0.24", "vllm-0.32"),
    ("lru", "0.30.0"): ("vllm-0.24", "vllm-0.32"),
    ("lru", "0.32.0"): ("vllm-0.32", "vllm-0.24"),
    ("lru", "0.33.0"): ("vllm-0.33", "vllm-0.24"),
    ("arc", "0.24.0"): ("vllm-0.24", "vllm-0.32"),
    ("arc", "0.28.0"): ("vllm-0.24", "vllm-0.32"),
    ("arc", "0.30.0"): ("vllm-0.30", "vllm-0.32"),
    ("arc", "0.32.0"): ("vllm-0.32", "vllm-0.24"),
    ("arc", "0.33.0"): ("vllm-0.33", "vllm-0.24"),
}
VERSIONS = ("0.24.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0")
RECORDED = ("0.24.0", "0.32.0", "0.33.0")
SEEDS = ("0", "1", "7")
POLICIES = ("lru", "arc", "fifo", "marconi", "relevance")
REFUSING = ("guard", "adaptive", "leader")  # which need the spec


def run(version, jobs, folder, hash_seed="0"):
    """Do jobs of `support.stock_traffic` in a process with that vLLM; their answers."""
    out = folder / "answers.json"
    words = ["-m", "support.stock_traffic", str(out)]
    python(version, words, folder, stdin=json.dumps(jobs), PYTHONHASHSEED=hash_seed)
    return json.loads(out.read_text())


@pytest.mark.parametrize(("name", "version"), ORDERS)
def test_every_answer_is_that_of_vllms_own_policy(name, version, tmp_path):
    """Recorded scripts and random ones, put to vLLM's manager.

    The order of another version is told apart, so the scripts can tell.
    """
    order, other = ORDERS[name, version]
    # 0.32's manager no longer calls ARC's own touch, which is that of 0.30.
    touched = "vllm-0.30" if (name, order) == ("arc", "vllm-0.32") else order
    recorded = version if version in RECORDED else None
    jobs = [
        ["beside", name, order, touched, recorded, 100],
        ["beside", name, other, other, recorded, 20],
    ]
    same, different = run(version, jobs, tmp_path)
    assert same["scripts_ours"] == []
    assert same["scripts_theirs"] == []
    assert same["random"] == []
    scripts = {"0.24.0": 60, "0.32.0": 60, "0.33.0": 20}
    assert same["num_scripts"] == scripts.get(version, 0)
    assert same["counts"]["evicted"] > 5000
    assert same["counts"]["refused"] > 500
    assert same["counts"]["loaded"] > 1000
    assert same["counts"]["reset"] > 50
    assert len(different["random"]) > 5


@pytest.mark.parametrize("version", VERSIONS)
def test_victims_do_not_depend_on_the_hash_seed(version, tmp_path):
    """Chunks of a job come as sets; neither the policy nor the manager looks at that.

    vLLM's own LRU of 0.24 to 0.30 does, which shows that the sets differ.
    """
    jobs = [["alone", text] for text in POLICIES]
    jobs += [["manager", text] for text in (*POLICIES, *REFUSING)]
    jobs.append(["stock", "lru"])
    answers = [run(version, jobs, tmp_path, seed) for seed in SEEDS]
    ours = [answer[:-1] for answer in answers]
    assert ours[0] == ours[1] == ours[2]
    assert all(evicted > 100 for _, evicted in ours[0])
    assert len({victims for victims, _ in ours[0]}) > 4
    stock = {answer[-1][0] for answer in answers}
    assert len(stock) == (3 if version < "0.32" else 1)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v != "0.24.0"])
def test_a_request_counts_once_however_often_it_is_reported(version, tmp_path):
    """The score of a request's first chunk is the number of requests that named it."""
    (seen,) = run(version, [["sights", "marconi"]], tmp_path)
    assert [round(score, 9) for score in seen] == [1.0, 2.0, 3.0]
