"""`hotset replay` from the outside: files in, files out, exit codes, messages."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hotset.sim.cli import app

GOLDEN = Path(__file__).parent.parent / "data" / "golden" / "kvcache_simulator.json"
POLICY = {"lru": "lru", "optimal": "belady", "unbounded": "unbounded"}


def run(*arguments, code=0):
    """Run the program in this process and return what it printed."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def replay(tmp_path, *arguments):
    out = tmp_path / "out.json"
    run("replay", *arguments, "--json", out)
    return json.loads(out.read_text())


@pytest.mark.parametrize("trace", ["conversation", "synthetic"])
def test_hit_tokens_equal_kvcache_simulator(trace, public_traces, tmp_path):
    """Every lru, optimal and unbounded row of golden/, as integers."""
    rows = [
        row
        for row in json.loads(GOLDEN.read_text())["rows"]
        if row["trace"] == trace and row["policy"] in POLICY
    ]
    capacities = sorted({row["capacity_blocks"] for row in rows})
    arguments = [f"--policy={name}" for name in POLICY.values()]
    arguments += [f"--capacity={blocks}" for blocks in capacities]
    file = public_traces / f"mooncake_{trace}.jsonl.gz"
    result = replay(tmp_path, file, *arguments, "--tail=count", "--warmup=0.5")
    found = {(r["policy"], r["capacity_blocks"]): r for r in result["runs"]}
    got = [
        found[POLICY[row["policy"]], row["capacity_blocks"]]["hit_tokens"]
        for row in rows
    ]
    assert got == [row["hit_tokens"] for row in rows]
    assert len([row for row in rows if row["policy"] == "lru"]) == 5
    for row in rows:
        run_ = found[POLICY[row["policy"]], row["capacity_blocks"]]
        assert run_["input_tokens"] == row["total_tokens"]


@pytest.mark.parametrize(
    ("trace", "arguments", "tokens", "blocks"),
    [
        ("conversation", ["--tail=count"], 0.37362, 0.36641),
        ("conversation", ["--tail=drop"], 0.37338, None),
        ("conversation", ["--tail=count", "--warmup=0.5"], 0.39811, None),
        ("synthetic", ["--tail=count"], 0.65124, 0.63960),
        ("synthetic", ["--tail=count", "--warmup=0.5"], 0.86275, None),
    ],
)
def test_ceilings(trace, arguments, tokens, blocks, public_traces, tmp_path):
    """The published ceilings, and `unbounded` reaches each of them exactly."""
    file = public_traces / f"mooncake_{trace}.jsonl.gz"
    result = replay(tmp_path, file, "--policy=unbounded", "--capacity=1", *arguments)
    ceiling, found = result["trace"]["ceiling"], result["runs"][0]
    assert round(ceiling["token_hit_ratio"], 5) == tokens
    if blocks is not None:
        assert round(ceiling["block_hit_ratio"], 5) == blocks
    assert found["token_hit_ratio"] == ceiling["token_hit_ratio"]
    assert found["block_hit_ratio"] == ceiling["block_hit_ratio"]


def test_conversations_of_agents(public_traces, tmp_path):
    """A folder, with the published start rule spelled out."""
    result = replay(
        tmp_path,
        public_traces / "agentic",
        "--policy=unbounded",
        "--policy=lru",
        "--capacity=5%",
        "--starts=exp:30s",
        "--trace-seed=0",
    )
    trace = result["trace"]
    assert (trace["requests"], trace["accesses"]) == (8523, 14055150)
    assert trace["distinct_blocks"] == 597142
    assert trace["options"] == {"starts": "exp:30s", "trace_seed": 0}
    assert round(trace["ceiling"]["block_hit_ratio"], 6) == 0.957514
    assert round(trace["ceiling"]["token_hit_ratio"], 6) == 0.957228
    found = {run_["policy"]: run_ for run_ in result["runs"]}
    assert found["lru"]["capacity_blocks"] == 597142 // 20
    assert found["unbounded"]["hit_blocks"] == 13458008
    assert found["unbounded"]["token_hit_ratio"] == trace["ceiling"]["token_hit_ratio"]


def test_options_of_another_format_are_refused():
    output = run(
        "replay", "sample", "--policy=lru", "--capacity=9", "--starts=zero", code=2
    )
    assert "--starts: got 'zero', allowed: only where the format is" in output


def test_shape_of_a_real_trace(public_traces, tmp_path):
    file = public_traces / "mooncake_conversation.jsonl.gz"
    common = ["--policy=unbounded", "--capacity=1"]
    counted = replay(tmp_path, file, *common, "--tail=count")["trace"]
    dropped = replay(tmp_path, file, *common)["trace"]
    assert (counted["requests"], counted["accesses"]) == (12031, 288500)
    assert counted["distinct_blocks"] == 182790
    assert dropped["distinct_blocks"] == 170899


def test_json_names_what_it_was_computed_from(tmp_path):
    result = replay(
        tmp_path,
        "sample",
        "--policy=lru",
        "--policy=marconi:reuse=log",
        "--capacity=100",
        "--capacity=5%",
        "--admission=threshold:2",
        "--warmup=0.25",
    )
    trace = result["trace"]
    assert len(trace["sha256"]) == 64
    assert trace["format"] == "mooncake"
    assert trace["rejected"] == 0
    assert 0 < trace["ceiling"]["token_hit_ratio"] < 1
    assert set(result["definitions"]) >= {"token_hit_ratio", "block_hit_ratio"}
    assert [
        (r["policy"], r["params"].get("reuse"), r["capacity_blocks"])
        for r in result["runs"]
    ] == [
        ("lru", None, 100),
        ("marconi", "log", 100),
        ("lru", None, 151),
        ("marconi", "log", 151),
    ]
    for found in result["runs"]:
        assert found["admission"]["name"] == "threshold"
        assert found["admission"]["min_count"] == 2
        assert found["measured_from_request"] == 500
        assert found["requests"] == 1500
        for key in ("accesses", "input_tokens", "hit_blocks", "hit_tokens", "stores"):
            assert isinstance(found[key], int)
        assert found["token_hit_ratio"] == found["hit_tokens"] / found["input_tokens"]
        assert found["block_hit_ratio"] == found["hit_blocks"] / found["accesses"]
        assert 0 < found["request_hit_ratio"] < 1


def test_per_request_sums_to_the_run(tmp_path):
    columns = tmp_path / "hits.csv"
    result = replay(
        tmp_path, "sample", "--policy=lru", "--policy=fifo", "--capacity=100",
        "--per-request", columns,
    )  # fmt: skip
    with columns.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == result["trace"]["requests"]
    for found in result["runs"]:
        column = f"{found['label']}@{found['capacity_blocks']}"
        assert sum(int(row[column]) for row in rows) == found["hit_tokens"]


def test_bytes_need_the_size_of_a_token(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "num_hidden_layers": 28,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
                "hidden_size": 3584,
                "torch_dtype": "bfloat16",
            }
        )
    )
    # Qwen2.5-7B: 28 layers x 2 x 4 heads x 128 x 2 bytes = 57,344 bytes a token.
    by_model = replay(
        tmp_path, "sample", "--policy=lru", "--capacity=3GiB", "--model", config
    )
    by_hand = replay(
        tmp_path, "sample", "--policy=lru", "--capacity=3GiB",
        "--kv-bytes-per-token=57344",
    )  # fmt: skip
    blocks = 3 * 2**30 // (512 * 57344)
    assert by_model["runs"][0]["capacity_blocks"] == blocks
    assert by_hand["runs"] == by_model["runs"]


def test_a_picture_is_drawn(tmp_path):
    picture = tmp_path / "curve.png"
    run("replay", "sample", "--policy=lru", "--capacity=5%", "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_table_reads(tmp_path):
    output = run("replay", "sample", "--policy=lru", "--policy=belady", "--capacity=5%")
    lines = [line.split() for line in output.splitlines()]
    assert next(x for x in lines if "lru" in x)[:4] == ["151", "lru", "34.72", "%"]
    assert any("ceiling" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (["--capacity=3"], "below the longest request"),
        (["--capacity=100%"], "holds all 3020 distinct blocks"),
        (["--capacity=5%", "--policy=belady", "--gpu-blocks=64"], "no exact optimum"),
        (["--capacity=5%", "--policy=belady", "--warmup=0.5"], "no exact optimum"),
        (["--capacity=5%", "--policy=belady", "--tail=count"], "no exact optimum"),
    ],
)
def test_warnings_are_carried_by_the_result(arguments, warning, tmp_path):
    result = replay(tmp_path, "sample", "--policy=lru", *arguments)
    assert any(warning in text for text in result["warnings"])


def test_engine_changes_what_is_served(tmp_path):
    """A GPU tier in front serves some hits; the threshold's rule is the engine's."""
    arguments = ["sample", "--policy=lru", "--capacity=10%", "--admission=threshold:2"]
    plain = replay(tmp_path, *arguments)["runs"][0]
    old = replay(tmp_path, *arguments, "--engine=vllm-0.28", "--gpu-blocks=64")
    new = replay(tmp_path, *arguments, "--engine=vllm-0.32", "--gpu-blocks=64")
    assert plain["admission"]["count"] == "offer"
    assert plain["gpu_hit_tokens"] == 0
    assert old["runs"][0]["admission"]["count"] == "lookup"
    assert old["runs"][0]["params"]["order"] == "vllm-0.24"
    assert new["runs"][0]["params"]["order"] == "vllm-0.32"
    assert new["runs"][0]["gpu_hit_tokens"] > 0
    # Counted at look-up, a prefix grows by a block in two visits: few stores.
    assert old["runs"][0]["stores"] < new["runs"][0]["stores"]
