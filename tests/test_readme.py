"""Every command in README runs, and the table in it is the one that is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.ssd import make_player

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]
OF_HOTSET = [line for line in COMMANDS if line.startswith("hotset ")]

# What `make` and the lines that set up an environment do is shown elsewhere: .ci/run
# calls the first two, test_install.py runs the others.
ELSEWHERE = {
    "make demo",
    "make test",
    "make fast",
    "make bench",
    "python3 -m venv .venv",
    ". .venv/bin/activate",
    "pip install .",
    "pip install -e '.[test]'",
    "ruff check .",
    "python -m pytest",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all commands, since some read what others wrote."""
    made = tmp_path_factory.mktemp("readme")
    player = make_player(made / "kv")  # as a server leaves it
    player.store(*range(5))
    player.settle()
    player.cache.close()
    return made


def test_no_command_is_left_out():
    assert set(COMMANDS) - set(OF_HOTSET) == ELSEWHERE
    assert len(OF_HOTSET) > 8


def run(command, folder):
    words = command.split()
    shown = subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("command", OF_HOTSET)
def test_command_runs(command, folder):
    assert run(command, folder)


def test_the_table_is_what_is_printed(folder):
    shown = run(OF_HOTSET[0], folder)
    printed = "\n".join(line.rstrip() for line in shown.splitlines())
    told = re.search(r"```text\n(.*?)\n```", README, re.DOTALL)[1]
    assert printed == told
    assert (folder / "hit_ratio.png").exists()


def test_every_policy_is_told_of():
    from hotset.policies import POLICIES

    section = README.partition("\n## Policies\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert told == POLICIES.names()
