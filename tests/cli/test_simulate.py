"""The commands `simulate`, `calibrate` and `reproduce`, as a user runs them."""

import csv
import json

import pytest
from support.command_line import runner

from hotset.sim.cli import app
from hotset.traces.metric_names import METRICS, TOKENS

PROFILE = ["--profile", "h100x8-70b-fp8"]


def call(*words):
    return runner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """One run with everything written, and the folder of it."""
    folder = tmp_path_factory.mktemp("simulate")
    shown = run_into(folder)
    assert shown.exit_code == 0, shown.output
    return folder, shown


def run_into(folder, name="out"):
    return call(
        "simulate", "sample", *PROFILE, "--policy", "lru", "--policy", "fifo",
        "--cpu", "20%", "--gpu-blocks", "120", "--jobs", "1", "--slo-ttft", "0.5",
        "--json", folder / f"{name}.json", "--per-request", folder / f"{name}.csv",
        "--plot", folder / f"{name}.png",
    )  # fmt: skip


def test_what_is_shown(outputs):
    _folder, shown = outputs
    assert "2,000 requests on h100x8-70b-fp8 (estimated)" in shown.stdout
    assert "TTFT mean" in shown.stdout
    assert "in SLO" in shown.stdout
    assert "warning: profile h100x8-70b-fp8 is estimated" in shown.stderr


def test_rows_and_summary_agree(outputs):
    folder, _shown = outputs
    result = json.loads((folder / "out.json").read_text())
    rows = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    assert [run["policy"] for run in result["runs"]] == ["lru", "fifo"]
    assert len(rows) == 2 * 2000
    for run in result["runs"]:
        mine = [row for row in rows if row["policy"] == run["label"]]
        ttft = [float(row["ttft_s"]) for row in mine]
        assert run["ttft_s"]["mean"] == pytest.approx(sum(ttft) / len(ttft))
        assert run["ttft_s"]["max"] == max(ttft)
        tokens = run["tokens"]
        parts = [tokens[f"{tier}_hit"] for tier in ("gpu", "cpu")]
        assert sum(parts) == tokens["hit"] > 0
        assert tokens["hit"] + tokens["computed"] == tokens["input"]
        assert tokens["ssd_hit"] == 0
        assert run["ssd"] is None
        assert tokens["cpu_hit"] == sum(int(row["cpu_tokens"]) for row in mine) > 0
        for row in mine:
            hit = sum(int(row[f"{tier}_tokens"]) for tier in ("gpu", "cpu"))
            computed = int(row["computed_tokens"])
            assert hit + computed == int(row["input_tokens"])
            if row["preemptions"] == "0":
                # A prompt that is cached to its end computes its last token.
                assert int(row["prefilled_tokens"]) == max(computed, 1)
        good = sum(value <= 0.5 for value in ttft)
        assert run["goodput"]["share"] == pytest.approx(good / len(ttft))
        # Little: what is present on average is arrivals a second times their stay.
        stay = run["e2e_s"]["mean"]
        rate = len(mine) / run["duration_s"]
        assert run["mean_present"] == pytest.approx(rate * stay)
        assert run["cpu"]["store_bytes"] == run["links"]["cpu_store"]["bytes"]
        assert run["cpu"]["load_bytes"] == run["links"]["cpu_load"]["bytes"] > 0
        assert run["offered_load"] == max(run["offered_load_by"].values())
        # The names of a server's metrics.
        shared = {metric.name for metric in METRICS if metric.is_simulated}
        assert shared - set(run["cpu"]) == {"tokens"}
        assert set(TOKENS) <= set(run["tokens"])
        cpu = run["cpu"]
        assert cpu["stores"] - cpu["evictions"] == cpu["resident"] <= cpu["capacity"]
        assert cpu["pinned"] == cpu["pending"] == 0
        ages = cpu["reuse_age_s"]
        assert 0 < ages["p50"] <= ages["max"] <= run["duration_s"]
    assert result["profile"]["is_estimated"]


def test_the_same_again_gives_the_same_bytes(outputs):
    folder, _shown = outputs
    assert run_into(folder, "again").exit_code == 0
    for ending in ("json", "csv", "png"):
        again = (folder / f"again.{ending}").read_bytes()
        assert again == (folder / f"out.{ending}").read_bytes(), ending


def test_processes_and_parquet(outputs, tmp_path):
    import pandas as pd

    folder, _shown = outputs
    shown = call(
        "simulate", "sample", *PROFILE, "--policy", "lru", "--policy", "fifo",
        "--cpu", "20%", "--gpu-blocks", "120", "--jobs", "2",
        "--per-request", tmp_path / "rows.parquet",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    table = pd.read_parquet(tmp_path / "rows.parquet")
    expected = pd.read_csv(folder / "out.csv")
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)


def test_an_offered_load_above_1_is_said(tmp_path):
    from hotset.policies.errors import PolicyError
    from hotset.sim.metrics import ttft_objective_s

    shown = call(
        "simulate", "sample", *PROFILE, "--policy", "lru", "--cpu", "1%",
        "--gpu-blocks", "120", "--speed", "50", "--json", tmp_path / "out.json",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "is above 1, so the queue grows" in shown.stderr
    summary = json.loads((tmp_path / "out.json").read_text())["runs"][0]
    with pytest.raises(PolicyError, match="TTFT is no objective"):
        ttft_objective_s(summary)
    assert ttft_objective_s({**summary, "offered_load": 0.9}) > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "h100"], "--profile h100: no such profile"),
        ([*PROFILE, "--cpu", "1KiB"], "--cpu 1KiB: that is 0 blocks"),
        ([*PROFILE, "--cpu", "much"], "--cpu much: allowed: blocks"),
        ([*PROFILE, "--policy", "belady"], "it knows the future of a replay"),
        ([*PROFILE, "--speed", "0"], "--speed 0.0: allowed is 1e-06 to 1e+06"),
        ([*PROFILE, "--speed", "inf"], "--speed inf: allowed"),
        ([*PROFILE, "--speed", "1e-308"], "--speed 1e-308: allowed"),
        ([*PROFILE, "--users", "2", "--think", "nan"], "--think nan: allowed"),
        ([*PROFILE, "--users", "2", "--think", "1e308"], "--think 1e+308: allowed"),
        ([*PROFILE, "--chunk-tokens", "512" + "0" * 30], "at most 2,147,483,648 are"),
        ([*PROFILE, "--gpu-blocks", "1"], "--gpu-blocks 1: at least 2"),
        ([*PROFILE, "--users", "0"], "--users 0: at least 1"),
        ([*PROFILE, "--think", "1"], "only users of --users think"),
        ([*PROFILE, "--users", "2", "--speed", "2"], "--speed: users of --users"),
        ([*PROFILE, "--jobs", "0"], "--jobs 0"),
        ([*PROFILE, "--warmup", "1"], "--warmup 1.0"),
        ([*PROFILE, "--gpu-blocks", "5"], "is longer than the GPU pool"),
        ([*PROFILE, "--step-tokens", "5"], "a step of 5 tokens has no room"),
        ([*PROFILE, "--per-request", "x.txt"], "allowed endings are .csv and .parquet"),
        ([*PROFILE, "--plot", "x.pdf"], "allowed endings are .png and .svg"),
        ([*PROFILE, "--engine", "vllm-9"], "unknown engine 'vllm-9'"),
        ([*PROFILE, "--slo-ttft", "nan"], "--slo-ttft nan: more than 0 s"),
        ([*PROFILE, "--slo-itl", "-1"], "--slo-itl -1.0: more than 0 s"),
        ([*PROFILE, "--outputs"], "--outputs: traces name the blocks of prompts only"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message):
    defaults = {"--policy": "lru", "--cpu": "5%"}
    for name, value in defaults.items():
        if name not in words:
            words = [*words, name, value]
    shown = call("simulate", "sample", *words)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_calibrate(tmp_path):
    rows = ["computed_tokens,cached_tokens,ttft_s"]
    rows += [f"{n},{c},{0.05 + 1e-4 * n}" for n in range(100, 900, 100) for c in (0, 9)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    shown = call("calibrate", tmp_path / "rows.csv", "--json", tmp_path / "fit.json")
    assert shown.exit_code == 0, shown.output
    fit = json.loads((tmp_path / "fit.json").read_text())
    assert fit["token_s"] == pytest.approx(1e-4, rel=0.01)
    assert "start_s = 0.05" in shown.stdout
    assert call("calibrate", tmp_path / "none.csv").exit_code == 2


def test_a_wrong_profile_leaves_nothing_behind(tmp_path):
    import importlib.resources

    folder = importlib.resources.files("hotset.sim") / "profiles"
    good = (folder / "h100x8-70b-fp8.toml").read_text()
    profile = tmp_path / "mine.toml"
    for value in ("inf", "nan", "1e308"):
        profile.write_text(good.replace("latency_s = 1e-4", f"latency_s = {value}"))
        shown = call(
            "simulate", "sample", "--profile", profile, "--policy", "lru",
            "--cpu", "5%", "--json", tmp_path / "out.json",
            "--per-request", tmp_path / "out.csv",
        )  # fmt: skip
        assert shown.exit_code == 2
        assert "[links.cpu] latency_s is" in shown.stderr
        assert len(shown.stderr.splitlines()) == 1
        assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_ratios_have_a_ceiling_and_definitions(outputs):
    folder, shown = outputs
    result = json.loads((folder / "out.json").read_text())
    most = result["trace"]["ceiling"]["token_hit_ratio"]
    assert f"ceiling {100 * most:.2f} %" in shown.stdout
    definitions = result["definitions"]
    # Every number has one; what is below "cpu" and "ssd" has them together.
    known = {"policy", "label", "params", "admission", "cpu_blocks", "requests"}
    known |= {"measured_from_request", "tokens", "links", "steps", "preemptions"}
    for run in result["runs"]:
        tokens = run["tokens"]
        assert run["token_hit_ratio"] == tokens["hit"] / tokens["input"] <= most
        assert set(run) - known <= set(definitions) | {"bottleneck"}


NO_TIME = """
name = "none"
summary = "nothing takes time"
estimated = false
[model]
kv_bytes_per_token = 1
[gpu]
pool_tokens = 60928
step_tokens = 8192
max_sequences = 1
[cost]
start_s = 0
token_s = 0
pair_s = 0
decode_s = 0
sequence_s = 0
context_s = 0
[links.cpu]
load_bytes_per_s = inf
store_bytes_per_s = inf
"""


def test_where_nothing_takes_time_it_is_replay(tmp_path):
    """The same --step-tokens are part of "the same engine"."""
    profile = tmp_path / "none.toml"
    profile.write_text(NO_TIME)
    words = ["--policy", "lru", "--engine", "vllm-0.33", "--gpu-blocks", "120"]
    words += ["--step-tokens", "2048"]
    shown = call(
        "simulate", "sample", "--profile", profile, "--users", "1", "--cpu", "300",
        *words, "--json", tmp_path / "s.json", "--per-request", tmp_path / "s.csv",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    shown = call(
        "replay", "sample", "--capacity", "300", *words,
        "--json", tmp_path / "r.json", "--per-request", tmp_path / "r.csv",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    simulated, replayed = (
        list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in ("s.csv", "r.csv")
    )
    for one, other in zip(simulated, replayed, strict=True):
        hits = int(one["gpu_tokens"]) + int(one["cpu_tokens"])
        assert hits == int(other["lru@300"])
    (run,) = json.loads((tmp_path / "s.json").read_text())["runs"]
    (same,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert run["token_hit_ratio"] == same["token_hit_ratio"]
    assert run["cpu"]["stores"] == same["stores"]
    assert run["offered_load"] is None
