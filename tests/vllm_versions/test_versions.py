"""Every supported vLLM: its scheduler and connector drive the adapter, no model."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support import vllm_trees

pytestmark = pytest.mark.vllm

TESTS = Path(__file__).parent.parent
NEWEST = vllm_trees.VERSIONS[-1]

# Requests at once: schedulers differ in whom they serve first, what they offer again,
# and when a transfer counts as done. Calls are compared as far as they are the same.
CONCURRENT = {
    "random_requests",
    "small_soak",
    "the_same_prompt_at_once",
    "preemption",
    "refused_store",
    "abort_at_each_stage",
    "recording",
    "recording_of_many",
    "retuning",
    "ssd_random_requests",
    # Promotions begin before a step's stores, or from 0.33 on behind them.
    "ssd_abort",
}
# No reset while a transfer is under way (see `core_scenarios`), and an offer that was
# refused while chunks were being written is not always repeated.
_UP_TO_24 = {"reset_in_flight", "ssd_reset_in_flight", "ssd_broken"}
# One request at a time: every call is the newest one's, but for these.
APART = {
    # Its GPU cache evicts in another order, so it loads other blocks.
    "0.22.1": {"many_policies", *_UP_TO_24},
    "0.24.0": _UP_TO_24,
}


@cache
def run(version, hash_seed="0"):
    """Run all scenarios on a version; return what they showed."""
    tree = vllm_trees.folder_of(version)
    assert vllm_trees.is_complete(tree, version), f"no vLLM {version}: run 'make test'"
    out = tree.parent / f"shown-{version}-{hash_seed}-{os.getpid()}.json"
    path = [str(tree), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "support.core_run", str(out)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONHASHSEED": hash_seed,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    shown = json.loads(out.read_text())
    out.unlink()
    assert shown["version"].startswith(version)
    return shown["shown"]


@pytest.fixture(scope="session", params=vllm_trees.VERSIONS)
def version(request):
    return request.param


def test_nothing_goes_wrong(version):
    """No error of the engine's, no wrong block, no fault, no pin left."""
    shown = run(version)
    errors = {name: s for name, s in shown.items() if isinstance(s, str)}
    assert not errors, "\n".join(f"{name}: {text}" for name, text in errors.items())
    for name, engines in shown.items():
        for engine in engines:
            wrong = {k: v for k, v in engine["accounts"].items() if v}
            assert not wrong, name


def test_everything_was_run(version):
    shown = run(version)
    assert sorted(shown) == sorted(run(NEWEST))
    assert len(shown) == 39
    total = [engine for engines in shown.values() for engine in engines]
    assert sum(engine["loads"] for engine in total) > 100
    assert sum(engine["refused"] for engine in total) > 20
    assert sum(engine["preempted"] for engine in total) > 10
    assert sum(len(engine["victims"]) for engine in total) > 1000


def agreed(version, name):
    """Calls that a version and the newest one have in common from the start.

    Returns for each engine how many there are, and how many each version made.
    """
    counts = []
    for one, newest in zip(run(version)[name], run(NEWEST)[name], strict=True):
        calls = list(zip(one["calls"], newest["calls"], strict=False))
        alike = next(
            (i for i, (mine, theirs) in enumerate(calls) if mine[:3] != theirs[:3]),
            len(calls),
        )
        for i, (mine, theirs) in enumerate(calls[:alike]):
            assert mine == theirs, f"{name}, call {i}: other answer to the same call"
        counts.append((alike, len(one["calls"]), len(newest["calls"])))
    return counts


def test_the_same_answers_to_the_same_calls(version):
    """What is stored and what is evicted, in order."""
    for name in run(version):
        for alike, mine, theirs in agreed(version, name):
            if name not in CONCURRENT | APART.get(version, set()):
                assert alike == mine == theirs, f"{name}: other calls"


def test_what_is_said_to_differ_does(version):
    """So that the table above stays true."""
    for name in APART.get(version, ()):
        counts = agreed(version, name)
        assert any(alike < max(mine, theirs) for alike, mine, theirs in counts), name


def test_hash_order_decides_nothing():
    """Another hash seed of Python's, the same answers to the same calls."""
    for name, engines in run(NEWEST).items():
        for one, other in zip(engines, run(NEWEST, "7")[name], strict=True):
            for mine, theirs in zip(one["calls"], other["calls"], strict=False):
                if mine[:3] != theirs[:3]:
                    assert name in CONCURRENT, name
                    break
                assert mine == theirs, name
