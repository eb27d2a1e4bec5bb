"""An output never replaces an input or another output, whatever the paths look like."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.test_replay import run

ROW = '{"timestamp": 1, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}\n'
CONFIG = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 64,
    "torch_dtype": "float16",
}
REPLAY = ["replay", "in.jsonl", "--policy=lru", "--capacity=2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A trace, a link to it, a model's config; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text(ROW * 5)
    (tmp_path / "link.jsonl").symlink_to("in.jsonl")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "o1").write_text("old")
    (tmp_path / "o2").symlink_to("o1")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        [*REPLAY, "--json=in.jsonl"],
        [*REPLAY, "--json=./in.jsonl"],
        [*REPLAY, "--per-request=link.jsonl"],
        [*REPLAY, "--json=link.jsonl"],
        ["replay", "link.jsonl", *REPLAY[2:], "--json=in.jsonl"],
        [*REPLAY[:3], "--capacity=1GiB", "--model=config.json", "--json=config.json"],
        [*REPLAY, "--json=o1", "--per-request=o1"],
        [*REPLAY, "--json=o1", "--per-request=./o1"],
        [*REPLAY, "--json=o1", "--per-request=o2"],
        [*REPLAY, "--json=new", "--per-request=./new"],
        [*REPLAY, "--json=o1", "--on-bad-row=skip", "--rejects=./o1"],
        [*REPLAY, "--per-request=o3", "--json=o1", "--on-bad-row=skip", "--rejects=o3"],
        [*REPLAY, "--on-bad-row=skip", "--rejects=in.jsonl"],
        ["trace", "info", "in.jsonl", "--json=in.jsonl"],
        ["trace", "info", "in.jsonl", "--json=link.jsonl"],
        ["trace", "convert", "in.jsonl", "--out=link.jsonl"],
        ["trace", "validate", "in.jsonl", "--on-bad-row=skip", "--rejects=in.jsonl"],
    ],
)
def test_refused_before_any_work(arguments, folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    output = run(*arguments, code=2)
    assert "the same file as" in output
    assert output.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_standard_input_is_an_input(folder):
    """The shell's redirection names the file that the output would replace."""
    with (folder / "in.jsonl").open("rb") as source:
        shown = subprocess.run(
            [Path(sys.executable).with_name("hotset"), "replay", "-", *REPLAY[2:],
             "--json=in.jsonl"],
            stdin=source,
            capture_output=True,
            check=False,
        )  # fmt: skip
    assert shown.returncode == 2
    assert (folder / "in.jsonl").read_text() == ROW * 5


def test_closed_standard_input(folder):
    hotset = Path(sys.executable).with_name("hotset")
    shown = subprocess.run(
        f"{hotset} replay - --policy lru --capacity 2 <&-",
        shell=True,
        capture_output=True,
        check=False,
    )
    assert shown.returncode == 2
    assert b"standard input" in shown.stderr


def test_devices_may_be_shared(folder):
    run(*REPLAY, "--json=/dev/null", "--per-request=/dev/null")
    assert os.path.exists("/dev/null")


def test_a_name_that_is_too_long(folder):
    assert "too long" in run(*REPLAY, f"--json={'x' * 300}", code=2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("length_spread=1e3", "at most 8"),
        ("length_spread=nan", "at most 8"),
        ("zipf_exponent=9", "at most 8"),
        ("seed=3", "unknown option: got 'seed'"),
        ("mean_turn=3", "did you mean mean_turns"),
        ("mean_turns", "NAME=NUMBER"),
    ],
)
def test_wrong_generator_options(settings, said, folder):
    before = sorted(folder.iterdir())
    output = run(
        "trace", "generate", "chat", "--requests=5", "--out=new.jsonl",
        "--set", settings, code=2,
    )  # fmt: skip
    assert said in output
    assert sorted(folder.iterdir()) == before


def test_a_folder_named_sample_hides_nothing(folder):
    (folder / "sample").mkdir()
    assert "2,000 requests" in run("replay", "sample", "--policy=lru", "--capacity=5")


def test_a_digest_in_a_file_can_be_copied(folder):
    digest = json.loads(_info(folder))["trace"]["sha256"]
    assert digest in run("trace", "info", "in.jsonl")


def _info(folder):
    run("trace", "info", "in.jsonl", "--json=info.json")
    return (folder / "info.json").read_text()
