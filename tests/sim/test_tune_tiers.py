"""Searches that trade RAM, SSD and what is written to it."""

import dataclasses
import gzip
import itertools
import json

import optuna
import pytest
from support.command_line import runner

from hotset.policies.errors import PolicyError
from hotset.sim.candidate import candidate, from_json
from hotset.sim.cli import app
from hotset.sim.tier_choice import TierChoice, tier_budget
from hotset.sim.tune_plan import make_space
from hotset.traces.sample import locate

SPLIT = TierChoice(ram_share=0.25, mode="demote", min_count=2)
MACHINE = ("--profile=h100x8-70b-fp8", "--engine=vllm-0.33", "--gpu-blocks=120")


def call(*words):
    return runner().invoke(app, [str(word) for word in words])


def test_ram_is_exchanged_for_ssd():
    budget = tier_budget("10%", 20.0, None)
    cpu_blocks, ssd = budget.divide(SPLIT, 1000, 300)
    assert cpu_blocks == 250
    assert (ssd.size.amount, ssd.size.unit) == (300 + 20 * 750, "blocks")
    assert (ssd.mode, ssd.admission[1].min_count) == ("demote", 2)
    cpu_blocks, ssd = budget.divide(TierChoice(), 1000, 300)
    assert (cpu_blocks, ssd.size.amount, ssd.mode) == (1000, 300, "write-through")
    assert ssd.admission[0].name == "always"
    # Without a rate RAM stays what it is.
    assert tier_budget("10%", None, None).fields == ("mode", "min_count")


def test_what_is_chosen_can_be_asked_for_and_kept():
    space = make_space(["fifo"], ["always"], tier_budget("10%", 20.0, None))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    modes, shares = set(), set()
    for _ in range(40):
        chosen = space.choose(study.ask())
        tiers = chosen.tiers or TierChoice()
        modes.add(tiers.mode)
        shares.add(tiers.ram_share)
        assert 0.1 <= tiers.ram_share <= 1
        assert from_json(json.loads(json.dumps(chosen.as_json()))) == chosen
        values = space.values_of(chosen)
        assert space.choose(optuna.trial.FixedTrial(values)) == chosen
    assert modes == {"write-through", "demote"}
    assert len(shares) > 20
    # What the user gave is the default, and no choice of its own.
    given = space.values_of(candidate("fifo"))
    assert given["ssd.ram_share"] == 1.0
    assert space.choose(optuna.trial.FixedTrial(given)) == candidate("fifo")
    plain = make_space(["fifo"], ["always"])
    assert plain.digest() != space.digest()
    split = dataclasses.replace(candidate("fifo"), tiers=SPLIT)
    assert plain.values_of(split) is None
    assert split.label == "fifo + ssd:mode=demote,min_count=2,ram_share=0.25"
    moved = [(name, value) for name, value, _ in space.neighbours(split)]
    assert moved == [
        ("ssd.ram_share", 0.16),
        ("ssd.ram_share", 0.34),
        ("ssd.mode", "write-through"),
        ("ssd.min_count", 1),
        ("ssd.min_count", 4),
    ]


@pytest.mark.parametrize(
    "tiers", [1, {"mode": "demote"}, {**SPLIT.as_json(), "ram_share": 2}]
)
def test_other_choices_are_refused(tiers):
    values = {**candidate("lru").as_json(), "tiers": tiers}
    with pytest.raises(PolicyError, match='"tiers"'):
        from_json(values)


def test_the_answer_is_what_simulate_says_of_it(tmp_path):
    """Four trials: LRU with all its RAM, FIFO, and two that are drawn."""
    out, sim, part = (tmp_path / name for name in ("t.json", "sim.json", "part.jsonl"))
    with gzip.open(locate("sample"), "rt") as lines:
        part.write_text("".join(itertools.islice(lines, 400)))
    shown = call(
        "tune", part, "--cpu=5%", "--ssd=5%", "--ssd-per-ram=20", *MACHINE,
        "--policy=fifo", "--admission=always", "--trials=4", "--jobs=1", "--out", out,
        "--objective=saved_prefill_s,ssd_bytes_per_day",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    told = json.loads(out.read_text())
    best, ssd = told["search"]["best"], told["ssd"]
    tiers = best["tiers"]  # more SSD for less RAM pays on this trace
    assert ssd["cpu_blocks"] == int(tiers["ram_share"] * told["cpu"]["blocks"])
    given = told["cpu"]["blocks"]
    assert ssd["blocks"] == given + 20 * (given - ssd["cpu_blocks"])
    assert ssd["bytes"] == ssd["blocks"] * 512 * 327_680
    assert ssd["given_bytes"] == given * 512 * 327_680
    assert ssd["writes_per_day_bytes"] is None
    assert any("from its own configuration" in each for each in told["warnings"])
    shown = call(
        "export", out, "--engine=vllm-0.33", "--ssd-path=/mnt/kv", "--ignore-verdict",
        "--print=json",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    exported = json.loads(shown.stdout)["kv_connector_extra_config"]
    assert exported["cpu_bytes_to_use"] == ssd["cpu_bytes"]
    assert exported["hotset"]["ssd"]["max_bytes"] == ssd["bytes"]
    assert exported["hotset"]["ssd"]["mode"] == ssd["mode"]
    rule = "always"
    if tiers["min_count"] > 1:
        rule = f"threshold:min_count={tiers['min_count']}"
    shown = call(
        "simulate", part, "--cpu", ssd["cpu_blocks"], "--ssd", ssd["blocks"],
        "--policy", best["policy"]["name"], "--ssd-mode", ssd["mode"],
        "--ssd-admission", rule, "--json", sim, "--warmup", 0.5, *MACHINE,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    run = json.loads(sim.read_text())["runs"][0]
    rows = {row["role"]: row for row in told["evidence"]["holdout"]}
    a_day = run["ssd"]["writes_per_day_bytes"]
    assert rows["best"]["ssd_bytes_per_day"] == a_day > 0
    assert rows["no-offload"]["ssd_bytes_per_day"] == 0
    assert rows["best"]["gain"]["value"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ssd=10%"], "--ssd: no objective is in time"),
        (["--ssd-per-ram=20"], "--ssd-per-ram: there is no SSD tier without --ssd"),
        (["--ssd-writes-per-day=1TB"], "--ssd-writes-per-day: there is no SSD tier"),
        (["--ssd=10%", "--ssd-per-ram=0"], "--ssd-per-ram 0.0: allowed is above 0"),
        (["--ssd=10%", "--ssd-per-ram=nan"], "--ssd-per-ram nan: allowed is above 0"),
        (["--objective=ssd_bytes_per_day"], "storing nothing is best for it"),
        (
            ["--objective=token_hit_ratio,ssd_bytes_per_day", MACHINE[0]],
            "--objective ssd_bytes_per_day: needs --ssd",
        ),
        (
            ["--objective=token_hit_ratio,ssd_bytes_per_day", "--ssd=10%"],
            "--objective ssd_bytes_per_day: needs --profile",
        ),
        (
            [
                "--objective=saved_prefill_s",
                "--ssd=10%",
                "--profile=rtx4070tis-qwen2.5-7b-fp8",
            ],
            "has no table [links.ssd]",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, words, message):
    shown = call(
        "tune", "sample", "--cpu=5%", "--trials=1", "--out", tmp_path / "t.json", *words
    )
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
