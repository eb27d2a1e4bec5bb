"""After `warm_up` nothing compiles any more, and the first eviction is like any other.

Each policy serves in a process of its own, so that none finds what another compiled.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contract.serving import make_driver, online_names

from hotset.policies.keys import KeyBatch
from hotset.policies.pairing import make_pairing, pairing_insert, pairing_remove

SCRIPT = Path(__file__).parents[1] / "support" / "warm_serving.py"


def serve(text, admission, **environment):
    """Serve in a new process; return (compiled, forms added by serving) and its log."""
    given = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), text, admission],
        env={name: value for name, value in given.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split())), done.stderr.splitlines()


# One rule with every policy, the others with one.
WARM = [
    *((name, "threshold:2,count=lookup") for name in online_names()),
    ("lru", "always"),
    ("lru", "threshold:3"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "admission"), WARM)
def test_nothing_compiles_in_serving(name, admission):
    (_, added), log = serve(name, admission)
    assert added == 0
    assert log == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "admission"), [("lru", "threshold:3"), ("marconi", "always")]
)
@pytest.mark.parametrize("home", ["/proc/nope", None])
def test_it_serves_without_a_cache_and_says_so_once(name, admission, home, tmp_path):
    """No home and nowhere to write: kernels compile, all before serving starts."""
    hidden = "/proc/nope"  # cannot be made, not even by root
    home_log = {"HOME": home, "XDG_CACHE_HOME": hidden, "NUMBA_CACHE_DIR": hidden}
    (compiled, added), log = serve(name, admission, **home_log)
    assert compiled > 0
    assert added == 0
    assert len(log) == 1, log
    assert "compiling each time" in log[0]


def test_a_full_relevance_tier_has_settled_before_its_first_eviction():
    """Blocks settle while others come, not all at once when room is needed."""
    capacity, batch = 20_000, 50
    driver = make_driver("relevance", capacity)
    for first in range(0, capacity, batch):
        keys = KeyBatch.of(list(range(first, first + batch)))
        request = driver.begin()
        driver.observe(request, keys)
        driver.complete(driver.offer(request, keys).keys)
    state = driver._cache.state
    # Of one class and a half-life of 64 keys, worth is constant from an age of
    # about 54 half-lives on.
    assert state.settled.size[0] > capacity - 64 * 56 - 2 * batch
    assert driver.evict(1) == [batch - 1]


def children(heaps, slot):
    """How many children a slot has."""
    count, child = 0, int(heaps.child[slot])
    while child >= 0:
        count, child = count + 1, int(heaps.sibling[child])
    return count


def test_the_first_of_a_pairing_heap_has_few_children_where_keys_come_in_order():
    """So its removal, which joins them, costs little at any time."""
    rng = np.random.default_rng(5)
    heaps = make_pairing(2000, 1)
    now = 0.0
    for slot in range(2000):
        now += 1.0
        pairing_insert(heaps, 0, slot, now)
    assert children(heaps, int(heaps.root[0])) == 1
    for slot in rng.integers(0, 2000, 5000):  # uses: taken out, put in as the newest
        now += 1.0
        pairing_remove(heaps, 0, int(slot))
        pairing_insert(heaps, 0, int(slot), now)
        assert children(heaps, int(heaps.root[0])) <= 4
