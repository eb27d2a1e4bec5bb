"""`hotset simulate --ssd`, as a user runs it."""

import csv
import json

import pytest
from support.command_line import runner

from hotset.sim.cli import app

PROFILE = ["--profile", "h100x8-70b-fp8"]
MACHINE = ["--gpu-blocks", "120", "--cpu", "5%", "--policy", "lru", "--jobs", "1"]


def call(*words):
    return runner().invoke(app, [str(word) for word in words])


def simulated(folder, *words):
    """The summary and the rows of a run on the bundled trace."""
    shown = call(
        "simulate", "sample", *PROFILE, *MACHINE, *words,
        "--json", folder / "out.json", "--per-request", folder / "rows.csv",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    result = json.loads((folder / "out.json").read_text())
    rows = list(csv.DictReader((folder / "rows.csv").read_text().splitlines()))
    return shown, result, rows


@pytest.mark.parametrize("mode", ["write-through", "demote"])
def test_tokens_by_source_and_bytes_add_up(tmp_path, mode):
    shown, result, rows = simulated(tmp_path, "--ssd", "50%", "--ssd-mode", mode)
    assert "by SSD" in shown.stdout
    assert f"1,510 SSD blocks, {mode}" in shown.stdout
    assert result["settings"]["ssd"]["mode"] == mode
    run = result["runs"][0]
    tokens = run["tokens"]
    for row in rows:
        sources = ("gpu", "cpu", "ssd", "computed")
        assert sum(int(row[f"{source}_tokens"]) for source in sources) == int(
            row["input_tokens"]
        )
    for tier in ("gpu", "cpu", "ssd"):
        assert tokens[f"{tier}_hit"] == sum(int(row[f"{tier}_tokens"]) for row in rows)
        assert tokens[f"{tier}_hit"] > 0
    assert tokens["gpu_hit"] + tokens["cpu_hit"] + tokens["ssd_hit"] == tokens["hit"]
    assert tokens["hit"] + tokens["computed"] == tokens["input"]
    ssd, cpu, links = run["ssd"], run["cpu"], run["links"]
    assert ssd["stores"] - ssd["evictions"] == ssd["resident"] <= ssd["capacity"]
    assert cpu["promoted"] == ssd["loaded"]
    assert cpu["stores"] + cpu["promoted"] - cpu["evictions"] == cpu["resident"]
    assert cpu["pinned"] == cpu["pending"] == 0
    assert links["ssd_read"]["bytes"] == ssd["read_bytes"] > 0
    assert links["ssd_write"]["bytes"] == ssd["write_bytes"] > 0
    a_day = ssd["write_bytes"] / run["duration_s"] * 86_400
    assert ssd["writes_per_day_bytes"] == pytest.approx(a_day)
    assert ssd["policy"] == "lru"
    even = run["break_even_tokens"]
    assert 0 < even["cpu"] < even["ssd"]


def test_a_budget_a_queue_and_a_policy_of_its_own(tmp_path):
    def run(*words):
        _shown, result, _rows = simulated(tmp_path, "--ssd", "2TiB", *words)
        return result["runs"][0]["ssd"]

    free = run()
    # The burst of an hour's share, and what fills up over the run.
    limited = run("--ssd-writes-per-day", "1TB", "--ssd-policy", "guard:distance=50")
    assert (free["policy"], limited["policy"]) == ("lru", "guard")
    assert limited["refused_by_budget"] > 0
    assert limited["write_bytes"] < free["write_bytes"]
    days = 1200 / 86_400
    assert limited["write_bytes"] <= 1e12 * (1 / 24 + days)
    seen_twice = run("--ssd-mode", "demote", "--ssd-admission", "threshold:min_count=2")
    assert seen_twice["refused_by_rule"] > 0
    queued = run("--ssd-queue", "1GiB")
    assert queued["refused_by_queue"] > 0
    assert free["refused_by_queue"] == free["refused_by_rule"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ssd", "x"], "--ssd x: allowed: blocks"),
        (["--ssd", "1KiB"], "--ssd 1KiB: that is 0 blocks"),
        (["--ssd", "0%"], "--ssd 0%: that is 0 blocks"),
        (["--ssd", "10%", "--ssd-policy", "lruu"], "unknown policy 'lruu'"),
        (["--ssd", "10%", "--ssd-policy", "belady"], "--ssd-policy belady: it knows"),
        (["--ssd", "10%", "--ssd-admission", "x"], "unknown admission 'x'"),
        (["--ssd", "10%", "--ssd-mode", "both"], "--ssd-mode both: allowed are"),
        (["--ssd", "10%", "--ssd-mode", ""], "--ssd-mode : allowed are"),
        (["--ssd", "10%", "--ssd-admission", ""], "unknown admission ''"),
        (["--ssd", "10%", "--ssd-queue", "5%"], "--ssd-queue 5%: bytes are needed"),
        (["--ssd", "10%", "--ssd-queue", "1KiB"], "queue lets 1,024 bytes through"),
        (
            ["--ssd", "10%", "--ssd-writes-per-day", "1GB"],
            "write budget lets 41,666,667 bytes through",
        ),
        (
            ["--ssd", "10%", "--ssd-staging", "0.1"],
            "only --ssd-mode demote has chunks staged",
        ),
        (
            ["--ssd", "10%", "--ssd-mode", "demote", "--ssd-staging", "nan"],
            "--ssd-staging nan: allowed is above 0 to 0.5",
        ),
        (
            ["--ssd", "10%", "--ssd-mode", "demote", "--cpu", "1"],
            "a CPU tier of 1 blocks has no room",
        ),
        (["--ssd-mode", "demote"], "--ssd-mode: there is no SSD tier without --ssd"),
        (["--ssd-queue", "1GiB"], "--ssd-queue: there is no SSD tier without --ssd"),
        (
            ["--ssd", "1TiB", "--profile", "rtx4070tis-qwen2.5-7b-fp8"],
            "has no table [links.ssd]",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message):
    defaults = {"--policy": "lru", "--cpu": "5%", "--profile": "h100x8-70b-fp8"}
    for name, value in defaults.items():
        if name not in words:
            words = [*words, name, value]
    shown = call("simulate", "sample", *words)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
