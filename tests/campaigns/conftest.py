"""Campaigns: many seeded runs, all of them under ``make campaign``, else a tenth.

``HOTSET_CAMPAIGN=full`` asks for all; ``HOTSET_SEED`` repeats a run by its seed, which
is printed at the end.
"""

import importlib.util
import os
import random
from dataclasses import dataclass

import pytest

# vLLM's environment, where its own campaigns run, has nothing that the simulator needs.
if importlib.util.find_spec("simpy") is None:
    collect_ignore = ["test_ssd_writes.py"]

_SEED = int(os.environ.get("HOTSET_SEED") or random.SystemRandom().randrange(10**6))
_IS_FULL = os.environ.get("HOTSET_CAMPAIGN") == "full"


@dataclass(frozen=True)
class Campaign:
    """How much to run, and the seed of it."""

    seed: int
    is_full: bool

    def share(self, count):
        """Return a full count, or a tenth of it rounded up."""
        return count if self.is_full else -(-count // 10)

    def chance(self, *about):
        """Return a random generator for one part of the campaign."""
        return random.Random(f"{self.seed} {about}")


@pytest.fixture(scope="session")
def campaign():
    return Campaign(_SEED, _IS_FULL)


def pytest_terminal_summary(terminalreporter):
    size = "full" if _IS_FULL else "a tenth"
    terminalreporter.write_line(f"campaigns: {size}, HOTSET_SEED={_SEED}")
