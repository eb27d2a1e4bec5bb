"""`hotset size` from the outside: sums, hits of a trace, prices, messages."""

import json

import pytest
from cli.test_replay import run
from support.command_line import runner

from hotset.sim.cli import app
from hotset.traces import read_trace

CONFIG = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "dtype": "bfloat16",
}
HYBRID = {
    **CONFIG,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
PRICES = ("--ram-price=3", "--ssd-price=0.1", "--prefill-tokens-per-s=8000")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def sized(tmp_path, *arguments):
    out = tmp_path / "size.json"
    run("size", *arguments, "--json", out)
    return json.loads(out.read_text())


def test_blocks_and_bytes(model, tmp_path):
    found = sized(tmp_path, "--model", model, "--cpu=64GiB", "--ssd=1TiB", "--tp=2")
    assert found["bytes_per_token"] == 131072
    assert found["rank_bytes_per_block"] == 16 * 65536
    cpu, ssd = found["tiers"]
    assert cpu == {
        "tier": "cpu",
        "bytes": 64 << 30,
        "rank_bytes": 32 << 30,
        "blocks": (64 << 30) // (16 * 131072),
        "tokens": (64 << 30) // 131072,
    }
    assert ssd["blocks"] == (1 << 40) // (16 * 131072)


def test_hits_are_those_of_a_replay(model, tmp_path):
    """The tier's tokens as whole blocks of the trace, under plain lru."""
    found = sized(tmp_path, "--model", model, "--cpu=8GiB", "--trace=sample")
    (row,) = found["trace"]["lru"]
    blocks = (8 << 30) // 131072 // 512
    assert row["trace_blocks"] == blocks
    common = ("sample", "--policy=lru", "--json", tmp_path / "r.json")
    run("replay", *common, "--capacity", blocks)
    (replayed,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert row["token_hit_ratio"] == replayed["token_hit_ratio"]


def test_the_price_of_a_saved_hour(model, tmp_path):
    found = sized(
        tmp_path,
        "--model",
        model,
        "--cpu=64GiB",
        "--ssd=256GiB",
        "--trace=sample",
        *PRICES,
    )
    trace = read_trace("sample")
    hours = (trace.arrival_s[-1] - trace.arrival_s[0]) / 3600
    total = trace.input_tokens.sum()
    months = (64 * 3, 64 * 3 + 256 * 0.1)
    for row, month in zip(found["trace"]["lru"], months, strict=True):
        saved = row["token_hit_ratio"] * total / 8000 / 3600
        expected = month / 730 * hours / saved
        assert row["money_per_saved_prefill_hour"] == pytest.approx(expected)


def test_what_is_shown(model, tmp_path):
    common = ("--model", model, "--cpu=64GiB", "--tp=2", "--trace=sample")
    shown = run("size", *common, *PRICES[::2])
    assert "K and V of 4 heads of 128 values" in shown
    assert "1,048,576 bytes in each of 2 ranks, 2,097,152 together" in shown
    assert "Knee of lru: 337,920 tokens" in shown
    assert "for each hour of prefill saved" in shown


def test_the_picture(model, tmp_path):
    common = ("size", "--model", model, "--cpu=64GiB", "--ssd=1TiB", "--trace=sample")
    for name in ("a.png", "b.png", "c.svg"):
        run(*common, "--plot", tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    text = (tmp_path / "c.svg").read_text()
    assert "cpu + ssd" in text


def test_a_trace_of_another_format(model, tmp_path):
    """A format option of the name of one of the command's own begins with trace."""
    rows = ["ts,tokens,ids", "0,200,1 2", "1,200,1 2", "2,200,1 2"]
    (tmp_path / "t.csv").write_text("\n".join([*rows, ""]))
    found = sized(
        tmp_path, "--model", model, "--cpu=1GiB", "--block-tokens=32",
        "--trace", tmp_path / "t.csv", "--format=csv", "--time-unit=s", "--chained",
        "--columns=time=ts,input=tokens,ids=ids", "--trace-block-tokens=100",
    )  # fmt: skip
    assert found["block_tokens"] == 32
    assert found["trace"]["block_tokens"] == 100
    assert found["trace"]["lru"][0]["token_hit_ratio"] == pytest.approx(400 / 600)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000, allowed"),
        ({"hidden_size": 8}, "32 attention heads are more than hidden_size"),
        ({"head_dim": 10**30}, "head_dim is 1000"),
    ],
)
def test_models_that_cannot_be(changes, said, tmp_path):
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**CONFIG, **changes}))
    out = run("size", "--model", path, "--cpu=1GiB", code=2)
    assert said in out
    assert len(out.splitlines()) == 1


ROW = '{"timestamp": 0, "input_length": %d, "output_length": 1, "hash_ids": %s}\n'


def test_traces_with_nothing_to_hit_or_all_at_once(model, tmp_path):
    path, page = tmp_path / "t.jsonl", tmp_path / "p.html"
    common = ("size", "--model", model, "--trace", path, "--json", tmp_path / "s.json")
    prices = (PRICES[0], PRICES[2], "--plot", tmp_path / "p.png")
    path.write_text(ROW % (100, [1]))
    assert "which saves nothing" in run(*common, "--cpu=1GiB", *prices)
    run("report", tmp_path / "s.json", "--out", page)
    path.write_text(2 * (ROW % (600, [1, 2])))
    said = run(*common, "--cpu=1GiB", *prices)
    assert "42.67 % of the input tokens, whose price is not known" in said
    run("report", tmp_path / "s.json", "--out", page)
    said = run(*common, "--cpu=40MiB")
    assert "cpu: smaller than a block of the trace, 512 tokens" in said


def test_made_up_reuse_is_said(model, tmp_path):
    path = tmp_path / "azure.csv"
    rows = [f"2023-11-16 18:00:{s:02}.0000000,1000,5" for s in range(50)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, ""]))
    made = ("--synthetic-reuse=prefix:512", "--format=azure-llm")
    arguments = ("--model", model, "--cpu=8GiB", "--trace", path, *made)
    found = sized(tmp_path, *arguments, "--trace-block-tokens=512")
    assert any("synthetic" in warning for warning in found["warnings"])
    assert found["trace"]["rejected"] == 0
    out = tmp_path / "map.json"
    made = (*made, "--block-tokens=512")
    common = ("--x=budget=100%", "--y=gpu-blocks=0,2", "--policy=lru", "--json", out)
    run("regime-map", path, *common, *made)
    told = json.loads(out.read_text())
    assert any("synthetic" in warning for warning in told["warnings"])
    assert any("GPU tier of 2 blocks cannot" in each for each in told["warnings"])
    assert told["trace"]["format"] == "azure-llm"
    common = ("--capacity=100%", "--policy=guard", "--tune=none", "--json", out)
    run("compare", path, *common, *made)
    told = json.loads(out.read_text())
    assert any("synthetic" in warning for warning in told["warnings"])


def test_the_curve_holds_knee_and_budgets(model, tmp_path):
    found = sized(
        tmp_path, "--model", model, "--cpu=8GiB", "--ssd=16GiB", "--trace=sample"
    )
    fit = found["trace"]
    curve = {each["tokens"]: each["token_hit_ratio"] for each in fit["curve"]}
    assert list(curve) == sorted(curve)
    assert list(curve.values()) == sorted(curve.values())
    assert fit["knee_tokens"] in curve
    for row in fit["lru"]:
        assert curve[row["trace_blocks"] * 512] == row["token_hit_ratio"]
    assert curve[max(curve)] == fit["ceiling_token_hit_ratio"]


def test_a_state_is_saved_once_a_block(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(HYBRID))
    found = sized(tmp_path, "--model", path, "--cpu=64GiB", "--block-tokens=1024")
    state, token = 28 * 8192 * 19 * 2, 4 * 2 * 8 * 128 * 2
    assert found["bytes_per_block"] == 1024 * token + state
    refused = runner().invoke(app, ["size", "--model", str(path), "--cpu=64GiB"])
    assert refused.exit_code == 2
    assert "--block-tokens is needed" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpu=5%"], "--cpu 5%: bytes are needed"),
        (["--cpu=100"], "--cpu 100: bytes are needed"),
        (["--cpu=1KiB"], "a block takes 2,097,152 bytes, so none fits"),
        (["--cpu=1GiB", "--ssd=x"], "--ssd x: allowed"),
        (["--cpu=1GiB", "--tp=3"], "cannot be shared out to 3"),
        (["--cpu=1GiB", "--tp=-1"], "--tp -1: at least 1"),
        (["--cpu=1GiB", "--block-tokens=0"], "--block-tokens 0: at least 1"),
        (["--cpu=1GiB", "--kv-dtype=int3"], "--kv-dtype int3: known are"),
        (["--cpu=1GiB", "--ram-price=3"], "--trace is needed"),
        (["--cpu=1GiB", "--trace=sample", "--ram-price=3"], "--prefill-tokens-per-s"),
        (
            ["--cpu=1GiB", "--trace=sample", "--ram-price=-1", PRICES[2]],
            "--ram-price -1.0: allowed is 1e-09 to 1e+12",
        ),
        (["--cpu=1GiB", "--plot=a.png"], "--trace is needed"),
        (["--cpu=1GiB", "--trace=sample", *PRICES], "the price of --ssd, which is"),
        (["--cpu=1GiB", "--trace=sample", "--plot=a.gif"], "allowed endings"),
        (["--cpu=1GiB", "--trace=none.jsonl"], "none.jsonl"),
        (["--cpu=1GiB", "--json=config.json"], "config.json"),
        (["--cpu=1GiB", "--tp=64"], "num_attention_heads, 32, cannot be shared out"),
        (["--cpu=1GiB", "--format=csv"], "--format: of --trace, which is absent"),
        (["--cpu=1GiB", "--trace-block-tokens=9"], "--trace-block-tokens: of --trace"),
        (["--cpu=1GiB", "--on-bad-row=skip"], "--on-bad-row: of --trace"),
        (
            ["--cpu=1GiB", "--trace=sample", "--trace-block-tokens=0"],
            "--trace-block-tokens: got 0",
        ),
        (["--cpu=1GiB", "--trace=sample", "--json=none/x.json"], "none/x.json"),
    ],
)
def test_wrong_arguments(model, tmp_path, arguments, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = model.read_bytes()
    done = runner().invoke(app, ["size", "--model", "config.json", *arguments])
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert model.read_bytes() == before
