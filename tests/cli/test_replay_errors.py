"""What a user gets wrong: one clear line, exit code 2, nothing half-written."""

import gzip
import json

import pytest
from cli.test_replay import run

from hotset.traces.registry import sample_path

GOOD = ["--policy=lru", "--capacity=100"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--policy=lruu", "--capacity=9"],
            "unknown policy 'lruu'; did you mean 'lru'",
        ),
        (["--policy=lru:ordr=x", "--capacity=9"], "did you mean 'order'"),
        (["--policy=lru:order=lifo", "--capacity=9"], "allowed are auto, tail-first"),
        (["--policy=marconi:decay=nan", "--capacity=9"], "allowed is 0 to 100"),
        (["--policy=marconi:decay=inf", "--capacity=9"], "allowed is 0 to 100"),
        (["--policy=marconi:decay=1e999", "--capacity=9"], "allowed is 0 to 100"),
        (["--policy=marconi:decay=-1", "--capacity=9"], "allowed is 0 to 100"),
        (["--policy=marconi:decay=x", "--capacity=9"], "a number is needed"),
        (["--policy=marconi:tracker_size=1.5", "--capacity=9"], "whole number"),
        (["--policy=marconi:decay=1,decay=2", "--capacity=9"], "given twice"),
        (["--policy=unbounded:5", "--capacity=9"], "is not key=value"),
        (["--policy=lru:", "--capacity=9"], "is not key=value"),
        (["--policy=LRU", "--capacity=9"], "did you mean 'lru'"),
        ([*GOOD, "--admission=always:5"], "has no parameters"),
        ([*GOOD, "--gpu-blocks=99999999999"], "2 to 100000000"),
        ([*GOOD, "--step-tokens=9223372036854775807"], "allowed is 1 to"),
        ([*GOOD, "--chunk-tokens=0"], "a multiple of the trace's 512"),
        (["--policy=belady:bypass=maybe", "--capacity=9"], "true and false"),
        (["--policy=", "--capacity=9"], "unknown policy ''"),
        (["--policy=lru", "--capacity=0"], "at least 1 is needed"),
        (["--policy=lru", "--capacity=-4"], "allowed: blocks"),
        (["--policy=lru", "--capacity=1.5"], "allowed: blocks"),
        (["--policy=lru", "--capacity=0.0001%"], "at least 1 is needed"),
        (["--policy=lru", "--capacity=nan"], "allowed: blocks"),
        (["--policy=lru", "--capacity=64GiB"], "--kv-bytes-per-token or --model"),
        ([*GOOD, "--admission=never"], "unknown admission 'never'"),
        ([*GOOD, "--admission=threshold:0"], "allowed is 1 to 1000"),
        ([*GOOD, "--engine=vllm-0.31"], "unknown engine 'vllm-0.31'"),
        ([*GOOD, "--engine=vllm-0.32", "--tail=count"], "full blocks only"),
        ([*GOOD, "--warmup=1"], "allowed is 0 to below 1"),
        ([*GOOD, "--warmup=nan"], "allowed is 0 to below 1"),
        ([*GOOD, "--chunk-tokens=700"], "a multiple of the trace's 512"),
        ([*GOOD, "--gpu-blocks=1"], "0 (no GPU tier) or 2"),
        ([*GOOD, "--seed=-1"], "0 or more"),
        ([*GOOD, "--plot=x.gif"], "allowed endings are .png and .svg"),
        ([*GOOD, "--json=missing/x.json"], "missing"),
        ([*GOOD, "--json=x.json", "--per-request=x.json"], "the same file as --json"),
        ([*GOOD, "--model=absent.json"], "absent.json"),
        ([*GOOD, "--on-bad-row=never"], "never"),
    ],
)
def test_wrong_arguments(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = run("replay", "sample", *arguments, code=2)
    assert said in " ".join(output.split())
    assert "Traceback" not in output
    assert list(tmp_path.iterdir()) == []


def lfs_pointer(path):
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:" + "0" * 64 + "\nsize 132054902\n"
    )


def cut_gzip(path):
    path.write_bytes(sample_path().read_bytes()[:5000])


def cut_line(path):
    with gzip.open(sample_path()) as lines:
        path.write_bytes(lines.read(2000))


def wrong_row(path):
    row = {"timestamp": 1, "input_length": 20, "output_length": 8, "hash_ids": [0, 1]}
    path.write_text(json.dumps(row) + "\n")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.touch(), "empty"),
        (lambda path: path.mkdir(), "directory"),
        (lambda path: None, "no such file"),
        (lfs_pointer, "Git LFS"),
        (cut_gzip, "cut short"),
        (cut_line, "line"),
        (wrong_row, "hash_ids"),
    ],
)
def test_unreadable_traces(make, said, tmp_path, monkeypatch):
    trace = tmp_path / "trace.jsonl"
    make(trace)
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    output = run("replay", trace, *GOOD, "--json=out.json", code=2)
    assert said in output
    assert str(trace) in output.replace("\n", "")
    assert "Traceback" not in output
    assert sorted(tmp_path.iterdir()) == before


def test_wrong_rows_are_named_or_skipped(tmp_path):
    """Line, field, value and what is allowed; or a reject file and a count."""
    good = (
        '{"timestamp": 1, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}'
    )
    bad = good.replace("600", '"600"')
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join([good, bad, *[good] * 30]) + "\n")
    out = tmp_path / "out.json"
    output = run("replay", trace, *GOOD, "--json", out, code=2)
    for part in (f"{trace}:2:", "input_length", '"600"', "whole number"):
        assert part in output.replace("\n", "")
    assert not out.exists()
    run("replay", trace, *GOOD, "--json", out, "--on-bad-row=skip")
    result = json.loads(out.read_text())
    assert result["trace"]["rejected"] == 1
    assert result["trace"]["requests"] == 31
    rejects = (tmp_path / "out.json.rejects.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in rejects] == [2]
