"""`hotset export` from the outside, and what `tune` writes through it."""

import json
import shlex

import pytest
from cli.test_replay import run
from support.tuned_files import OLD_EVOKE, tuned_file


def test_what_tune_writes_is_exported(tmp_path):
    out = tmp_path / "tuned.json"
    run(
        "tune", "sample", "--cpu=5%", "--policy=marconi", "--trials=6", "--jobs=1",
        "--engine=vllm-0.33", "--kv-bytes-per-token=57344", "--out", out,
    )  # fmt: skip
    told = json.loads(out.read_text())
    config = json.loads(run("export", out, "--print=json").splitlines()[0])
    extra = config["kv_connector_extra_config"]
    assert extra["hotset"]["policy"] == told["policy"]
    assert extra["cpu_bytes_to_use"] == 151 * 512 * 57344
    shown = run("export", out, "--model=me/it", "--print=serve")
    words = shlex.split(shown.splitlines()[0])
    assert words[:3] == ["vllm", "serve", "me/it"]
    assert json.loads(words[-1]) == config


def test_an_old_configuration_is_translated(tmp_path):
    old = tmp_path / "old.json"
    old.write_text(json.dumps(OLD_EVOKE))
    out = run("export", "--from", old, "--engine=vllm-0.33", "--cpu=8GiB")
    config = json.loads(out.splitlines()[0])
    extra = config["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == 8 << 30
    assert extra["hotset"]["policy"]["name"] == "relevance"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "TUNED or --from: one of them is needed"),
        (["t.json", "--from=t.json"], "one of them is needed"),
        (["t.json"], "--engine: needed"),
        (["t.json", "--engine=vllm-0.33"], "--cpu: the size"),
        (["t.json", "--engine=vllm-0.33", "--cpu=much"], "--cpu much: bytes"),
        (["t.json", "--engine=vllm-0.33", "--cpu=1GiB", "--block-size=0"],
         "--block-size 0"),
        (["t.json", "--engine=vllm-0.10"], "allowed are vllm-0.22"),
        (["absent.json"], "absent.json: No such file"),
        (["--from=t.json", "--engine=vllm-0.33"], "neither a configuration of"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tuned_file(tmp_path / "t.json")
    out = run("export", *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1
