"""`hotset tune` from the outside: files in, files out, exit codes, messages."""

import json
import subprocess
import sys

import pytest
from cli.test_replay import run

from hotset.traces.registry import sample_path

COMMON = ["--cpu=5%", "--policy=guard,marconi", "--trials=10", "--jobs=1"]


def test_one_file_comes_out_and_the_same_again(tmp_path):
    outs, shown = [], []
    for name in ("a.json", "b.json"):
        out = tmp_path / name
        shown.append(run("tune", "sample", *COMMON, "--out", out))
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]
    assert shown[0] == shown[1]
    told = json.loads(outs[0])
    assert told["verdict"] == "deploy"
    assert f"verdict: {told['verdict']}" in shown[0]
    assert told["search"]["trials_run"] == 10
    assert {each.name for each in tmp_path.iterdir()} == {
        "a.json", "a.journal", "b.json", "b.journal",
    }  # fmt: skip


def test_the_same_command_goes_on(tmp_path):
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    run("tune", "sample", *COMMON, "--trials=13", "--out", whole)
    run("tune", "sample", *COMMON, "--trials=3", "--out", parts)
    run("tune", "sample", *COMMON, "--trials=13", "--out", parts)
    assert whole.read_bytes() == parts.read_bytes()


def test_a_tuned_file_is_a_current_configuration(tmp_path):
    out, next_out = tmp_path / "a.json", tmp_path / "b.json"
    run("tune", "sample", *COMMON, "--out", out)
    run("tune", "sample", *COMMON, "--current", out, "--out", next_out)
    told, before = json.loads(next_out.read_text()), json.loads(out.read_text())
    assert told["search"]["current"]["policy"] == before["policy"]
    roles = [row["role"] for row in told["evidence"]["holdout"]]
    assert "current" in roles


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cpu=0"], "--cpu 0: that is 0 blocks"),
        (["--cpu=64GiB"], "bytes need --kv-bytes-per-token or --model"),
        (["--trials=0"], "--trials 0: allowed is 1"),
        (["--policy=gard"], "did you mean 'guard'"),
        (["--policy=belady"], "cannot run in a server"),
        (["--admission=treshold"], "did you mean 'threshold'"),
        (["--cpu=1%", "--admission=,"], "--admission: at least one is needed"),
        (["--kv-bytes-per-token=0"], "--kv-bytes-per-token 0: at least 1"),
        (["--objective=,"], "--objective: names none"),
        (["--out="], "a file is needed"),
        (["--objective=hits"], "--objective hits: unknown"),
        (["--objective=ttft_p95_s"], "needs --profile"),
        (["--sampler=tpr"], "did you mean 'tpe'"),
        (["--storage=sqlite:///x.db", "--jobs=2"], "not for parallel searches"),
        (["--storage=redis://x"], "allowed are a file's name"),
        (["--current=absent.json"], "--current absent.json: No such file"),
        (["--min-gain=-1"], "--min-gain -1.0: allowed is 0"),
        (["--profile=h100x8-70b-fp8"], "no objective is in time"),
        (["--out=x.json", "--storage=x.json"], "the same file as --out"),
    ],
)
def test_wrong_input_is_one_line(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run("tune", "sample", *COMMON, *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1
    assert not (tmp_path / "tuned.json").exists()


def test_a_promise_for_another_tier_is_not_compared(tmp_path):
    out, next_out = tmp_path / "a.json", tmp_path / "b.json"
    run("tune", "sample", *COMMON, "--out", out)
    for other in ("--cpu=20%", "--engine=vllm-0.33", "--gpu-blocks=20"):
        common = [*COMMON, other]
        run("tune", "sample", *common, "--current", out, "--out", next_out)
        told = json.loads(next_out.read_text())
        assert told["evidence"]["drift"] is None
        assert any("is not compared" in warning for warning in told["warnings"])


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ({"hotset": {"policy_file": "t.json"}}, "it runs t.json: give that file"),
        ({"hotset": 5}, '"hotset" is no object'),
        ({"cpu_bytes_to_use": 1, "store_threshold": "x"}, "an integer is needed"),
        ({"cpu_bytes_to_use": 1, "store_threshold": 1e999}, "an integer is needed"),
        ({"format": "hotset-tuned", "version": 2, "verdict": "deploy"}, "version"),
        ({"format": "hotset-tuned", "version": 1, "verdict": "yes"}, "damaged"),
        ({"connectors": [{"kv_connector": "ExampleConnector"}]}, "no policy"),
    ],
)
def test_a_current_configuration_that_is_unclear_is_refused(current, said, tmp_path):
    path = tmp_path / "current.json"
    path.write_text(json.dumps(current))
    shown = run("tune", "sample", *COMMON, "--current", path, code=2)
    assert said in shown


def test_the_slot_of_a_multi_connector_is_the_current_configuration(tmp_path):
    path, out = tmp_path / "current.json", tmp_path / "a.json"
    ours = {
        "kv_connector": "OffloadingConnector",
        "kv_connector_extra_config": {"hotset": {"policy": "marconi"}},
    }
    both = {"connectors": [{"kv_connector": "ExampleConnector"}, ours]}
    config = {"kv_connector": "MultiConnector", "kv_connector_extra_config": both}
    path.write_text(json.dumps(config))
    run("tune", "sample", *COMMON, "--current", path, "--out", out)
    assert (
        json.loads(out.read_text())["search"]["current"]["policy"]["name"] == "marconi"
    )


def test_outputs_replace_no_input(tmp_path):
    trace = tmp_path / "t.jsonl.gz"
    trace.write_bytes(sample_path().read_bytes())
    before = trace.read_bytes()
    out = run("tune", trace, *COMMON, "--out", trace, code=2)
    assert "the same file as TRACE" in out
    assert trace.read_bytes() == before


def test_a_load_above_1_has_no_ttft(tmp_path):
    out = run(
        "tune", "sample", *COMMON, "--trials=1", "--out", tmp_path / "t.json",
        "--profile=rtx4070tis-qwen2.5-7b-fp8", "--objective=ttft_p95_s",
        "--speed=1000", code=2,
    )  # fmt: skip
    assert "above 1 the queue grows" in out
    assert not (tmp_path / "t.json").exists()


def test_objectives_in_time(tmp_path):
    out = tmp_path / "t.json"
    run(
        "tune", "sample", "--cpu=10%", "--policy=marconi", "--admission=always",
        "--trials=3", "--jobs=1", "--profile=h100x8-70b-fp8", "--gpu-blocks=300",
        "--engine=vllm-0.33", "--objective=saved_prefill_s,ttft_p95_s,stored_bytes",
        "--out", out,
    )  # fmt: skip
    told = json.loads(out.read_text())
    names = [each["name"] for each in told["search"]["objectives"]]
    assert names == ["saved_prefill_s", "ttft_p95_s", "stored_bytes"]
    rows = {row["role"]: row for row in told["evidence"]["holdout"]}
    assert set(rows) == {"best", "lru", "arc", "no-offload"}
    for name in names:
        assert rows["lru"][name] > 0
    assert rows["no-offload"]["saved_prefill_s"] < rows["lru"]["saved_prefill_s"]


def test_an_interruption_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hotset.sim.tune_session.run_tune", interrupted)
    out = run("tune", "sample", *COMMON, "--out", tmp_path / "t.json", code=130)
    assert "the same command goes on" in out
    assert not (tmp_path / "t.json").exists()


def program(arguments, folder, before=""):
    """Start the program in a process of its own."""
    code = f"{before}\nfrom hotset.sim.cli import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


MANY = ["tune", "sample", "--cpu=5%", "--policy=guard,marconi", "--jobs=2"]


def test_a_killed_search_goes_on_to_the_same_file(tmp_path):
    """SIGKILL after some trials, on two workers; then the same command."""
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    run(*MANY, "--trials=40", "--out", whole)
    process = program([*MANY, "--trials=40", "--out", cut], tmp_path)
    journal = tmp_path / "cut.journal"
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 25:
            process.kill()
            break
    process.communicate()
    run(*MANY, "--trials=40", "--out", cut)
    assert cut.read_bytes() == whole.read_bytes()


def test_a_full_disk_loses_no_finished_trial(tmp_path):
    """The journal may not grow beyond a size, as on a disk that is full."""
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    run(*MANY, "--trials=24", "--jobs=1", "--out", whole)
    limit = (
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))\n"
    )
    arguments = [*MANY, "--trials=24", "--jobs=1", "--out", cut]
    process = program(arguments, tmp_path, limit)
    _, said = process.communicate()
    assert process.returncode == 2
    assert "finished trials are kept" in said
    assert len(said.splitlines()) == 1
    assert not cut.exists()
    run(*arguments)
    assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_pictures(kind, tmp_path):
    picture = tmp_path / f"t.{kind}"
    run(
        "tune", "sample", *COMMON, "--out", tmp_path / "t.json", "--plot", picture,
        "--objective=token_hit_ratio,stored_bytes", "--kv-bytes-per-token=1000",
    )  # fmt: skip
    head = picture.read_bytes()[:300]
    assert head.startswith(b"\x89PNG") if kind == "png" else b"<svg" in head
    out = run("tune", "sample", *COMMON, "--plot=t.pdf", code=2)
    assert "allowed endings are .png and .svg" in out


def test_watching_a_folder(tmp_path, monkeypatch):
    """The first answer goes to OUT, later ones beside it; a bad recording is told."""
    folder, out = tmp_path / "recordings", tmp_path / "tuned.json"
    folder.mkdir()
    names = [folder / name for name in ("one.jsonl.gz", "bad.jsonl", "two.jsonl.gz")]
    for name in names:
        name.write_bytes(sample_path().read_bytes())
    names[1].write_text("{}\n")
    monkeypatch.setattr("hotset.sim.tune_session.fresh_recordings", lambda *_: names)
    shown = run("tune", folder, "--watch", *COMMON, "--out", out)
    assert "promised" in shown
    assert "bad.jsonl: " in shown
    first = json.loads(out.read_text())
    second = json.loads((tmp_path / "tuned.two.jsonl.gz.json").read_text())
    assert first["evidence"]["drift"] is None
    assert second["evidence"]["drift"]["outcome"] == "within"
    assert second["search"]["current"]["policy"] == first["policy"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--watch", "--current=t.json"], "--watch: not with --current"),
        (["--watch", "--plot=t.png"], "--watch: not with --current"),
        (["--watch", "--every=0"], "--every 0.0: more than 0 s"),
        (["--watch", "--out=folder/t.json"], "where it would be a recording"),
    ],
)
def test_what_cannot_be_watched(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    out = run("tune", "folder", *COMMON, *arguments, code=2)
    assert said in out
    assert len(out.splitlines()) == 1


def test_no_policy_is_refused(tmp_path):
    out = tmp_path / "a.json"
    shown = run("tune", "sample", "--cpu=5%", "--policy=", "--out", out, code=2)
    assert shown == "hotset: --policy: at least one is needed\n"
