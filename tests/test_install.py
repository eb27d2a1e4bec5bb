"""A newcomer's way: a copy of the project, a fresh environment, the README's lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*words, cwd, **variables):
    shown = subprocess.run(
        words,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **variables},
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


@pytest.mark.slow
def test_install_and_replay_outside_the_project(tmp_path):
    """The wheel holds all that a replay needs, the sample included."""
    source = tmp_path / "source"
    files = run("git", "ls-files", cwd=ROOT).splitlines()
    for name in files:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    home = tmp_path / "home"
    elsewhere = tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    env = tmp_path / "env" / "bin"
    run(env / "pip", "install", "--quiet", source, cwd=tmp_path, HOME=str(home))
    arguments = ["sample", "--policy", "lru", "--capacity", "5%", "--json", "out.json"]
    shown = run(env / "hotset", "replay", *arguments, cwd=elsewhere, HOME=str(home))
    assert "34.72 %" in shown
    assert [path.name for path in elsewhere.iterdir()] == ["out.json"]
    assert list((home / ".cache" / "hotset").glob("*/*.nbc"))
