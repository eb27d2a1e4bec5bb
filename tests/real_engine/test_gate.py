"""`hotset gate` against a real `vllm serve`: it passes, and it finds a fault."""

import urllib.request

import pytest
from support.dashboard import absent, exposed, wanted
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
            with urllib.request.urlopen(f"{address}/metrics", timeout=30) as page:
                (folder / f"{name}.metrics").write_bytes(page.read())
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


def test_the_dashboard_asks_for_what_a_server_exposes(recordings):
    text = recordings["offload"].with_suffix(".metrics").read_text()
    assert absent(text) == []
    _, labels = exposed(text)
    assert len([name for name in wanted() if name in labels]) >= 10
    assert absent(recordings["baseline"].with_suffix(".metrics").read_text()) != []
