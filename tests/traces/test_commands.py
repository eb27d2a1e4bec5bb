import hashlib
import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from hotset.traces.commands import app
from hotset.traces.errors import RowErrors, TraceError
from hotset.traces.generate import KINDS
from hotset.traces.registry import read_trace, sample_path

GOOD = {"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [7]}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **options):
        return CliRunner().invoke(app, list(map(str, arguments)), **options)

    return run


def test_info_in_text_and_json(run):
    ran = run("info", "sample", "--json", "out.json")
    assert ran.exit_code == 0
    digest = hashlib.sha256(sample_path().read_bytes()).hexdigest()
    assert digest in ran.output
    assert "2,000 (0 rows rejected)" in ran.output
    with open("out.json", encoding="utf-8") as file:
        result = json.load(file)
    assert result["trace"]["sha256"] == digest
    assert result["trace"]["requests"] == 2000
    assert set(result["tails"]) == {"drop", "count"}
    assert 0 < result["tails"]["drop"]["ceiling"]["token_hit_ratio"] < 1


def test_info_of_one_tail_rule(run):
    assert "count" not in run("info", "sample", "--tail", "drop").output


def test_same_input_same_bytes(run):
    for name in ("a", "b"):
        assert run("info", "sample", "--json", name).exit_code == 0
    with open("a", "rb") as one, open("b", "rb") as two:
        assert one.read() == two.read()


def test_info_from_standard_input(run):
    ran = run("info", "-", input=sample_path().read_bytes())
    assert ran.exit_code == 0
    assert "2,000" in ran.output


def test_convert_there_and_back(run):
    assert run("convert", "sample", "--out", "t.parquet").exit_code == 0
    assert run("convert", "t.parquet", "--out", "t.jsonl.gz").exit_code == 0
    with open("t.jsonl.gz", "rb") as file:
        assert file.read() == sample_path().read_bytes()
    ran = run("info", "t.parquet")
    assert "made from" in ran.output


@pytest.mark.parametrize("kind", KINDS)
def test_generate(run, kind):
    assert kind in run("generate", "--help", terminal_width=200).output
    ran = run("generate", kind, "--requests", 50, "--seed", 3, "--out", "t.jsonl")
    assert ran.exit_code == 0
    assert "seed=3" in ran.output
    assert read_trace("t.jsonl").num_requests == 50


def test_generate_with_options(run):
    out = ("--requests", 50, "--out", "t.jsonl")
    assert run("generate", "uniform", *out, "--set", "contexts=1").exit_code == 0
    assert read_trace("t.jsonl").num_blocks == 16
    ran = run("generate", "uniform", *out, "--set", "contexts")
    assert isinstance(ran.exception, TraceError)


def test_validate(run):
    assert "valid mooncake trace, 2000 requests" in run("validate", "sample").output
    with open("bad", "w", encoding="utf-8") as file:
        file.write(json.dumps(GOOD) + "\n{}\n")
    ran = run("validate", "bad")
    assert isinstance(ran.exception, RowErrors)
    assert str(ran.exception).startswith("bad:2: timestamp: got nothing, allowed:")


def test_warnings_are_shown(run):
    with open("t", "w", encoding="utf-8") as file:
        for time in (2, 1):
            file.write(json.dumps({**GOOD, "timestamp": time}) + "\n")
    for command in ("info t", "validate t", "convert t --out t.jsonl"):
        output = run(*command.split()).output
        assert "warning: rows earlier than the row before them: 1" in output


@pytest.mark.parametrize(
    ("command", "rejects"),
    [
        (["info", "bad"], "bad.rejects.jsonl"),
        (["info", "bad", "--json", "out/r.json"], "out/r.json.rejects.jsonl"),
        (["validate", "bad"], "bad.rejects.jsonl"),
        (["convert", "bad", "--out", "out/t.parquet"], "out/t.parquet.rejects.jsonl"),
        (["validate", "bad", "--rejects", "out/x"], "out/x"),
    ],
)
def test_skip_says_where_the_rejects_are(run, command, rejects):
    os.mkdir("out")
    with open("bad", "w", encoding="utf-8") as file:
        file.write((json.dumps(GOOD) + "\n") * 10 + "{}\n")
    ran = run(*command, "--on-bad-row", "skip")
    assert ran.exit_code == 0
    assert f"rows rejected: 1, written to {rejects}" in ran.output
    with open(rejects, encoding="utf-8") as file:
        assert json.loads(file.read())["line"] == 11


@pytest.mark.parametrize(
    "command",
    [
        ["info", "absent"],
        ["info", "sample", "--json", "absent/x"],
        ["info", "sample", "--format", "moncake"],
        ["validate", "."],
        ["validate", "sample", "--rejects", "x"],
        ["info", "sample", "--on-bad-row=skip", "--rejects=x", "--json=x"],
        ["convert", "sample", "--out", "t.csv"],
        ["convert", "sample", "--out", "absent/t.parquet"],
        ["generate", "chatt", "--requests", "1", "--out", "t.jsonl"],
        ["generate", "chat", "--requests", "0", "--out", "t.jsonl"],
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(run, command):
    ran = run(*command)
    assert isinstance(ran.exception, TraceError)
    assert len(str(ran.exception).splitlines()) == 1
    assert os.listdir(".") == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("info sample --on-bad-row skip --max-reject-share 2", "--max-reject-share: g"),
        ("generate chat --requests 0 --out t.jsonl", "--requests: got 0, allowed: 1.."),
        ("generate chat --requests 1 --seed -1 --out t.jsonl", "--seed: got -1, allo"),
        (
            "generate chat --requests 5 --out t.jsonl --set length_spread=1e3",
            "--set length_spread: got 1000.0, allowed: a number, at least 0.001, at m",
        ),
        (
            "generate uniform --requests 5 --out t.jsonl --set contexts=0",
            "--set contexts: got 0, allowed: a whole number, at least 1, at most",
        ),
        (
            "generate chat --requests 5 --out t.jsonl --set seed=3",
            "--set: unknown option: got 'seed', allowed: system_prompts",
        ),
        (
            f"generate chat --requests 5 --out t.jsonl --set {'x' * 900}=3",
            "--set: unknown option: got 'xxx",
        ),
        ("info sample --json . --on-bad-row skip", ".: a directory"),
    ],
)
def test_messages_name_what_was_typed(run, command, said):
    message = str(run(*command.split()).exception)
    assert message.startswith(said)
    assert len(message) < 400


def test_outputs_are_named_by_their_options(run):
    run("generate", "chat", "--requests", 5, "--out", "t.jsonl")
    ran = run("convert", "t.jsonl", "--out", "./t.jsonl")
    assert str(ran.exception) == "--out t.jsonl: the same file as TRACE"
    ran = run("info", "t.jsonl", "--json", "t.jsonl")
    assert str(ran.exception) == "--json t.jsonl: the same file as TRACE"


def test_a_strange_name_is_one_line(run):
    out = "a\nb\x1b.jsonl"
    ran = run("generate", "chat", "--requests", 5, "--out", out)
    assert ran.output.startswith("a\\nb\\x1b.jsonl: generate chat")
    assert run("validate", out).output.startswith("a\\nb\\x1b.jsonl: valid")
    assert "a\\nb\\x1b.jsonl\n" in run("info", out).output


def test_no_shell_completion(run):
    assert "completion" not in run("--help").output


def test_usage_errors_exit_with_2(run):
    assert run("info").exit_code == 2
    assert run("info", "sample", "--on-bad-row", "maybe").exit_code == 2
    assert run("nope").exit_code == 2


def test_importing_the_commands_is_light():
    code = (
        "import sys, typer; before = set(sys.modules); import hotset.traces.commands;"
        "print(sorted(m.partition('.')[0] for m in set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = set(ran.stdout.decode().translate({ord(c): " " for c in "[],'"}).split())
    assert "hotset" in loaded
    assert not loaded & {"numpy", "pandas", "pyarrow", "orjson", "zstandard", "numba"}
