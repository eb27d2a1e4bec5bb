"""The program as a process: exit codes, streams, determinism, interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotset.traces.registry import sample_path

HOTSET = Path(sys.executable).with_name("hotset")


def hotset(*arguments, **settings):
    return subprocess.run(
        [str(HOTSET), *map(str, arguments)],
        capture_output=True,
        timeout=300,
        check=False,
        **settings,
    )


def test_help_names_every_command():
    shown = hotset("--help")
    assert shown.returncode == 0
    for name in (b"replay", b"trace"):
        assert name in shown.stdout


def test_help_names_every_policy():
    from hotset.policies import POLICIES

    shown = " ".join(hotset("replay", "--help").stdout.decode().split())
    for name in POLICIES.names():
        assert name in shown


def test_files_are_written_though_nobody_reads_the_table(tmp_path):
    out = tmp_path / "out.json"
    with subprocess.Popen(
        [
            str(HOTSET),
            "replay",
            "sample",
            "--policy=lru",
            "--capacity=5",
            "--json",
            out,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as work:
        work.stdout.close()
    assert json.loads(out.read_text())["runs"][0]["capacity_blocks"] == 5


def test_wrong_input_goes_to_standard_error_with_code_2(tmp_path):
    shown = hotset("replay", tmp_path / "absent", "--policy=lru", "--capacity=5")
    assert shown.returncode == 2
    assert shown.stdout == b""
    assert shown.stderr.count(b"\n") == 1
    assert b"absent" in shown.stderr


def test_our_fault_shows_a_traceback_with_code_1(tmp_path):
    """A fault is planted by a module that shadows the reader."""
    (tmp_path / "sitecustomize.py").write_text(
        "import hotset.traces.registry as r\n"
        "def broken(*a, **k): raise RuntimeError('planted')\n"
        "r.read_trace = broken\n"
    )
    shown = hotset(
        "replay", "sample", "--policy=lru", "--capacity=5",
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert shown.returncode == 1
    assert b"Traceback" in shown.stderr
    assert b"planted" in shown.stderr


def test_standard_input_is_a_trace(tmp_path):
    arguments = ["--policy=lru", "--capacity=100", "--json"]
    piped = hotset(
        "replay", "-", *arguments, tmp_path / "a", input=sample_path().read_bytes()
    )
    assert piped.returncode == 0, piped.stderr
    hotset("replay", sample_path(), *arguments, tmp_path / "b")
    a, b = (json.loads((tmp_path / name).read_text()) for name in "ab")
    assert a["runs"] == b["runs"]
    assert a["trace"]["sha256"] == b["trace"]["sha256"]


def test_same_bytes_in_every_process(tmp_path):
    """Hash seeds differ between processes; results do not."""
    outputs = []
    for seed in ("0", "7"):
        out = tmp_path / seed
        shown = hotset(
            "replay", "sample", "--policy=lru", "--policy=fifo", "--policy=marconi",
            "--policy=relevance", "--policy=belady", "--policy=unbounded",
            "--capacity=60", "--capacity=10%", "--admission=threshold:2",
            "--json", out, "--per-request", f"{out}.csv", "--plot", f"{out}.png",
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert shown.returncode == 0, shown.stderr
        outputs.append(
            [Path(f"{out}{end}").read_bytes() for end in ("", ".csv", ".png")]
        )
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_nothing(how, tmp_path):
    """A run is stopped in the middle of its work: no output, no temporary file."""
    work = subprocess.Popen(
        [
            str(HOTSET), "replay", "sample", "--json=out.json", "--per-request=out.csv",
            "--capacity=60",
            *[f"--policy=relevance:half_life={i + 1}" for i in range(4000)],
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has it ignored, and so would we.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    time.sleep(3)
    assert work.poll() is None, work.stderr.read()
    work.send_signal(how)
    work.wait(timeout=60)
    work.stderr.close()
    assert work.returncode != 0
    assert list(tmp_path.iterdir()) == []
