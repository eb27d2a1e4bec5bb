"""kill -9 at random moments of a heavy load: right bytes or a miss, within the cap."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIVES = 500
MAX_BYTES = 2 << 20
LEAST_FOUND = 0.9
LONGEST_S = 0.12  # of a life, once it serves
SCRIPT = Path(__file__).parents[1] / "support" / "ssd_crash.py"


class Lives:
    """The forking process, and what its lives say."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(path), str(MAX_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.read()[0] == "warm"

    def read(self):
        line = self.process.stdout.readline().decode()
        assert line.endswith("\n"), "the process ended"
        word, *numbers = line.split()
        assert word != "wrong", line
        return word, [int(number) for number in numbers]

    def begin(self, seed):
        self.process.stdin.write(f"{seed}\n".encode())
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


def test_killed_at_any_moment(campaign, tmp_path):
    chance = campaign.chance("ssd crash")
    lives = Lives(tmp_path)
    complete, total, found_total = set(), 0, 0
    for life in range(campaign.share(LIVES)):
        lives.begin(chance.randrange(10**9))
        word, (usage,) = lives.read()
        assert word == "usage" and usage <= MAX_BYTES, f"life {life}: {usage} bytes"
        word, found = lives.read()
        assert word == "found"
        total += len(complete)
        found_total += len(complete & set(found))
        complete = set(found)
        word, (pid,) = lives.read()
        assert word == "ready"
        kill_later(pid, chance)
        while True:
            word, numbers = lives.read()
            if word == "dead":
                break
            if word == "done":
                complete.update(numbers)
            else:
                complete.difference_update(numbers)
    lives.close()
    print(f"stores reported complete: {total}, found after kill -9: {found_total}")
    assert total > 20 * LIVES / 10
    assert found_total >= LEAST_FOUND * total


def kill_later(pid, chance):
    """Kill a life at a random moment from its first store on."""
    until_s = time.monotonic() + chance.random() ** 2 * LONGEST_S
    while time.monotonic() < until_s:
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
