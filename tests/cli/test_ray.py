"""`hotset tune --ray` on a cluster of two processes that is started for it.

In a process of its own: Ray leaves threads and warnings behind.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from cli.test_replay import run
from cli.test_tune import program

pytestmark = pytest.mark.slow

ASKED = ["tune", "sample", "--cpu=5%", "--policy=guard,marconi", "--jobs=2"]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_the_same_file_as_on_local_processes(sampler, tmp_path):
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    asked = [*ASKED, "--trials=20", f"--sampler={sampler}"]
    run(*asked, "--out", here)
    process = program([*asked, "--ray=local", "--out", there], tmp_path)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert there.read_bytes() == here.read_bytes()


def test_tasks_map_the_trace_without_a_copy(tmp_path):
    """And a process that dies is a crash of its trial, not of the search."""
    code = """
import os
import ray
from support.tuning import plan
from hotset.sim.candidate import candidate
from hotset.sim.ray_workers import RayTasks
from hotset.traces.generate import generate

def owners(name, trace, *_):
    return [trace.block_ids.flags.owndata, trace.block_ids.flags.writeable]

def die(*_):
    os._exit(1)

if __name__ == "__main__":
    with RayTasks(generate("chat", 300, 1), plan(), 150, "local", 2) as tasks:
        mapped = ray.get(ray.remote(owners).remote(*tasks._given))
        good = tasks.submit(candidate("guard")).result()
        tasks._task = ray.remote(max_retries=0)(die)
        bad = tasks.submit(candidate("guard")).result()
        print(mapped, len(good.values), good.crashed, bad.crashed)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    # Ray tells of the death on the standard output, too.
    assert "[False, False] 1 False True" in done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_is_one_line(address, tmp_path):
    asked = [*ASKED, "--trials=1", f"--ray={address}", "--out", tmp_path / "t.json"]
    process = program(asked, tmp_path)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"hotset: --ray {address}: " in said
    assert "Traceback" not in said
