"""`hotset gate` against a real `vllm serve`: it passes, and it finds a fault."""

import pytest
from support.engine_process import run_hotset
from support.server import make_model, vllm_serve

pytestmark = pytest.mark.vllm

# Their conversations are several times what the GPU cache holds.
PLAN = ("--sessions", 6, "--turns", 3, "--words", 10, "--answer-tokens", 6)
SERVERS = {
    "baseline": {},
    "offload": {"chunks": 200},
    "corrupt": {"chunks": 200, "spec": "support.corrupt_spec:CorruptSpec"},
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    model = make_model(folder / "model")
    for name, settings in SERVERS.items():
        with vllm_serve(model, folder / f"{name}.log", **settings) as address:
            out = folder / f"{name}.json"
            done = run_hotset("gate", "record", address, "--out", out, *PLAN)
            assert done.returncode == 0, done.stderr
    return {name: folder / f"{name}.json" for name in SERVERS}


def verdict(recordings, name):
    done = run_hotset(
        "gate", "compare", recordings["baseline"], recordings[name], "--exact"
    )
    return done.returncode, done.stdout + done.stderr


def test_the_gate_passes_exactly(recordings):
    code, said = verdict(recordings, "offload")
    assert code == 0, said
    assert "0 answers differ" in said


def test_a_planted_corruption_fails(recordings):
    code, said = verdict(recordings, "corrupt")
    assert code == 1, said
    assert "answers differ, 0 may" in said


def test_without_offloading_nothing_is_proven(recordings):
    code, said = verdict(recordings, "baseline")
    assert code == 3, said
