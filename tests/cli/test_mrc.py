"""`hotset mrc` from the outside: files in, files out, exit codes, messages."""

import json

import pytest
from cli.test_replay import run

from hotset.traces.registry import sample_path

COMMON = ["--points=6", "--policy=belady", "--policy=fifo", "--warmup=0.5"]


def test_curve_equals_replay(tmp_path):
    run("mrc", "sample", "--capacity=2%", "--capacity=604", "--json", tmp_path / "a")
    curve = json.loads((tmp_path / "a").read_text())["lru_curve"]
    run(
        "replay",
        "sample",
        "--policy=lru",
        "--capacity=2%",
        "--capacity=604",
        "--json",
        tmp_path / "b",
    )
    runs = json.loads((tmp_path / "b").read_text())["runs"]
    for key in ("capacity_blocks", "hit_blocks", "hit_tokens"):
        assert [p[key] for p in curve["points"]] == [r[key] for r in runs]
    assert curve["input_tokens"] == runs[0]["input_tokens"]
    assert curve["exact_from_blocks"] == 1


def test_same_input_same_bytes_whatever_the_jobs(tmp_path):
    shown, files = [], []
    for jobs in (1, 3):
        names = [tmp_path / f"{jobs}.{kind}" for kind in ("csv", "json", "png", "svg")]
        shown.append(
            run(
                "mrc",
                "sample",
                *COMMON,
                "--jobs",
                jobs,
                "--csv",
                names[0],
                "--json",
                names[1],
                "--plot",
                names[2],
            )
        )
        run("mrc", "sample", *COMMON, "--jobs", jobs, "--plot", names[3])
        files.append([name.read_bytes() for name in names])
    assert shown[0] == shown[1]
    assert files[0] == files[1]


def test_what_is_shown():
    out = run("mrc", "sample", "--policy=marconi", "--capacity=60", "--capacity=302")
    rows = [line.split() for line in out.splitlines()]
    assert ["60", "1.99", "%", "78.63", "%", "69.54", "%"] in rows
    assert "Knee of lru: 660 blocks" in out
    assert "90 % from 1,144 blocks" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--points=1"], "--points 1: allowed is 2 to 1000"),
        (["--jobs=0"], "--jobs 0: allowed is 1 to 1024"),
        (["--policy=lruu"], "did you mean 'lru'"),
        (["--policy=unbounded"], "it has no curve"),
        (["--capacity=0"], "at least 1 is needed"),
        (["--capacity=1GiB"], "--kv-bytes-per-token or --model"),
        (["--warmup=1"], "allowed is 0 to below 1"),
        (["--plot=x.gif"], "allowed endings are .png and .svg"),
        (["--csv=x", "--json=x"], "the same file as --csv"),
        (["--csv=missing/x.csv"], "missing"),
    ],
)
def test_wrong_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run("mrc", "sample", *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_outputs_replace_no_input(tmp_path):
    trace = tmp_path / "trace.jsonl.gz"
    trace.write_bytes(sample_path().read_bytes())
    before = trace.read_bytes()
    assert "the same file as TRACE" in run("mrc", trace, "--csv", trace, code=2)
    assert trace.read_bytes() == before
