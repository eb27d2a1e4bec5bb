"""`hotset compare` from the outside: files in, files out, exit codes, messages."""

import csv
import json
import shutil

import pytest
from cli.test_replay import run

from hotset.traces.registry import sample_path

COMMON = ["--policy=guard", "--policy=marconi", "--trials=3", "--capacity=2%"]


def test_same_input_same_bytes_whatever_the_jobs(tmp_path):
    shown, files = [], []
    for jobs in (1, 3):
        names = [tmp_path / f"{jobs}.{kind}" for kind in ("csv", "json")]
        outputs = ["--csv", names[0], "--json", names[1]]
        shown.append(run("compare", "sample", *COMMON, "--jobs", jobs, *outputs))
        files.append([name.read_bytes() for name in names])
    assert shown[0] == shown[1]
    assert files[0] == files[1]


def test_files_hold_what_is_shown(tmp_path):
    other = tmp_path / "other.jsonl.gz"
    shutil.copy(sample_path(), other)
    out = run("compare", "sample", other, *COMMON, "--capacity=100%",
              "--csv", tmp_path / "c.csv", "--json", tmp_path / "c.json")  # fmt: skip
    result = json.loads((tmp_path / "c.json").read_text())
    with (tmp_path / "c.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(result["traces"]) == 2
    assert [cell["ranked"] for cell in result["cells"]] == [True, False] * 2
    flat = [row for cell in result["cells"] for row in cell["rows"]]
    assert [row["policy"] for row in rows] == [row["policy"] for row in flat]
    assert [int(row["hit_tokens"]) for row in rows] == [r["hit_tokens"] for r in flat]
    first = result["cells"][0]
    assert first["rows"][-1]["gap_closed"] == 1.0
    assert first["verdict"]["outcome"] in out
    assert "not ranked: holds the working set" in out
    assert result["traces"][0]["noise_by"] == "sessions"
    assert result["traces"][0]["judged_from_request"] == 1000
    assert result["cells"][2]["rows"] == first["rows"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fit=0"], "--fit 0.0: allowed is above 0 and below 1"),
        (["--trials=0"], "--trials 0: allowed is 1 to 10000"),
        (["--seed=-1"], "--seed -1: allowed is 0 or more"),
        (["--jobs=0"], "--jobs 0"),
        (["--policy=lruu"], "did you mean 'lru'"),
        (["--policy=unbounded"], "it never evicts"),
        (["--tune=lru"], "no parameters to search"),
        (["--capacity=0"], "at least 1 is needed"),
        (["--csv=x", "--json=x"], "the same file as --csv"),
        (["sample", "--on-bad-row=skip", "--rejects=x"], "with a single TRACE"),
        (["absent.jsonl"], "absent.jsonl"),
    ],
)
def test_wrong_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run("compare", "sample", *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_outputs_replace_no_input(tmp_path):
    trace = tmp_path / "trace.jsonl.gz"
    shutil.copy(sample_path(), trace)
    before = trace.read_bytes()
    out = run("compare", "sample", trace, *COMMON, "--json", trace, code=2)
    assert "the same file as TRACE 2" in out
    assert trace.read_bytes() == before
