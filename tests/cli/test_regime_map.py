"""`hotset regime-map` from the outside: files in, files out, exit codes, messages."""

import csv
import json

import pytest
from cli.test_replay import run

COMMON = ["generate:questions", "--set=context_tokens=800", "--x=skew=1,3",
          "--y=budget=200,5000", "--seeds=3,4,5", "--policy=guard"]  # fmt: skip


def test_same_seeds_same_bytes_whatever_the_jobs(tmp_path):
    shown, files = [], []
    for jobs in (1, 3):
        names = [tmp_path / f"{jobs}.{kind}" for kind in ("csv", "json", "svg")]
        outputs = ["--csv", names[0], "--json", names[1], "--plot", names[2]]
        shown.append(run("regime-map", *COMMON, "--jobs", jobs, *outputs))
        files.append([name.read_bytes() for name in names])
    assert shown[0] == shown[1]
    assert files[0] == files[1]


def test_files_hold_what_is_shown(tmp_path):
    out = run("regime-map", *COMMON, "--csv", tmp_path / "m.csv",
              "--json", tmp_path / "m.json")  # fmt: skip
    result = json.loads((tmp_path / "m.json").read_text())
    with (tmp_path / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert result["settings"]["seeds"] == [3, 4, 5]
    assert [(c["y"], c["x"]) for c in result["cells"]] == [
        ("200", "1"), ("200", "3"), ("5000", "1"), ("5000", "3"),
    ]  # fmt: skip
    assert "No policy shown is ahead of lru at 2 of 4 places" in out
    for cell in result["cells"]:
        mine = [r for r in rows if (r["skew"], r["budget"]) == (cell["x"], cell["y"])]
        policies = [r for r in mine if r["kind"] == "policy"]
        assert [int(r["hit_tokens"]) for r in policies] == [
            p["hit_tokens"] for p in cell["policies"]
        ]
        assert [r["setting"] for r in policies if r["winner"] == "1"] == [
            cell["winner"]
        ]
        assert cell["is_tie"] == (cell["y"] == "5000")


def test_a_trace_has_budgets_and_a_gpu_cache(tmp_path):
    out = run("regime-map", "sample", "--x=budget=2%,5%", "--y=gpu-blocks=0,60",
              "--policy=marconi", "--json", tmp_path / "m.json")  # fmt: skip
    result = json.loads((tmp_path / "m.json").read_text())
    assert result["settings"]["paired_by"] == "sessions"
    assert "sample: budget by GPU cache, blocks" in out


def test_noise_follows_from_what_is_written(tmp_path):
    """Student's t for two degrees of freedom, over the three seeds; sessions else."""
    run("regime-map", *COMMON, "--json", tmp_path / "m.json")
    for cell in json.loads((tmp_path / "m.json").read_text())["cells"]:
        tokens = cell["input_tokens_by_pair"]
        assert len(tokens) == 3
        assert sum(tokens) == cell["input_tokens"]
        lru = cell["policies"][0]["hit_tokens_by_pair"]
        for one in (*cell["policies"], *cell["knobs"].values()):
            hits = one["hit_tokens_by_pair"]
            assert sum(hits) == one["hit_tokens"]
            gains = [a - b for a, b in zip(hits, lru, strict=True)]
            value = sum(gains) / sum(tokens)
            assert one["points_over_lru"] == pytest.approx(100 * value)
            rest = [g - value * n for g, n in zip(gains, tokens, strict=True)]
            spread = (sum(r * r for r in rest) / 2 / 3) ** 0.5
            error = spread / (sum(tokens) / 3)
            assert one["noise_points"] == pytest.approx(100 * 4.31 * error)
    arguments = ["--x=budget=2%", "--y=gpu-blocks=0", "--policy=guard"]
    run("regime-map", "sample", *arguments, "--json", tmp_path / "m.json")
    (cell,) = json.loads((tmp_path / "m.json").read_text())["cells"]
    assert len(cell["policies"][1]["hit_tokens_by_pair"]) == 553


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sample"], "--x and --y: both are needed"),
        (["published", "--x=skew=1"], "its workloads and seeds are fixed"),
        (["published", "--warmup=0.5"], "its workloads and seeds are fixed"),
        (["published", "--gpu-blocks=9"], "its workloads and seeds are fixed"),
        (["generate:chatt", *COMMON[2:4]], "did you mean 'chat'"),
        ([*COMMON, "--seeds=1,x"], "--seeds 1,x"),
        ([*COMMON, "--set=hot=1"], "--set hot: unknown option"),
        ([*COMMON, "--set=hot_contexts=a"], "--set hot_contexts a: a number"),
        ([*COMMON, "--set=hot_contexts=0"], "hot_contexts"),
        ([*COMMON, "--requests=0"], "--requests 0"),
        ([*COMMON, "--store-threshold=0"], "min_count"),
        ([*COMMON, "--scoring=relevanc"], "did you mean 'relevance'"),
        ([*COMMON, "--plot=x.pdf"], "--plot x.pdf"),
        ([*COMMON, "--csv=x", "--json=x"], "the same file as --csv"),
        (["sample", "--x=budget=1%", "--y=skew=1"], "--y skew: not of sample"),
        (["sample", "--x=budget=1%", "--y=gpu-blocks=1"], "gpu-blocks 1"),
        (["sample", "--x=budget=0%", "--y=gpu-blocks=0"], "budget 0%"),
        (["sample", "--seeds=1,2", "--x=budget=1%", "--y=gpu-blocks=0"], "--seeds"),
        (["sample", "--seeds=1", "--x=budget=1%", "--y=gpu-blocks=0"], "--seeds"),
        (["sample", "--requests=9", "--x=budget=1%", "--y=gpu-blocks=0"], "--requests"),
        ([*COMMON, "--requests=9"], "questions has rounds instead"),
        (
            ["sample", "--x=budget=1%", "--y=gpu-blocks=0.5"],
            "gpu-blocks 0.5: a whole number is needed",
        ),
        ([*COMMON, "--format=csv"], "--format: generate:questions is made, not read"),
        (["published", "--chained"], "--chained: published is made, not read"),
        ([*COMMON, "--store-threshold=2,2"], "at least one is needed, each once"),
        ([*COMMON, "--scoring=belady"], "--scoring belady: it knows the future"),
        ([*COMMON, "--scoring=unbounded"], "--scoring unbounded: it never evicts"),
        (
            [*COMMON, "--set=rounds=3", "--set=rounds=4"],
            "--set rounds: it is set twice",
        ),
        ([*COMMON, "--set=skew=2"], "--x skew: it is set by --set skew"),
        (
            [
                "generate:hot-scan",
                "--x=scan=0.1,0.2",
                "--y=scan_ratio=0.5",
                "--budget=5%",
            ],
            "--y scan_ratio: it is set by --x scan",
        ),
        (
            [
                "generate:hot-scan",
                "--x=scan=0.1,0.2",
                "--y=budget=5%",
                "--set=scan_ratio=0.3",
            ],
            "--x scan: it sets scan_ratio, which is set by --set",
        ),
        (
            ["generate:chat", "--x=sessions=9", "--y=sessions_per_s=1", "--budget=5%"],
            "--y sessions_per_s",
        ),
        (
            ["generate:chat", "--x=think=9", "--y=think_s=1", "--budget=5%"],
            "--y think_s",
        ),
        (
            ["generate:agents", "--x=agents_per_s=9", "--y=sessions=1", "--budget=5%"],
            "--y sessions: it sets agents_per_s, which is set by --x agents_per_s",
        ),
        (
            ["generate:chat", "--x=skew=1", "--y=zipf_exponent=1", "--budget=5%"],
            "--y zipf_exponent",
        ),
    ],
)
def test_wrong_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run("regime-map", *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
