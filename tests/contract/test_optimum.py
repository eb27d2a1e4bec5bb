"""`belady` against a search over every decision, on tiny inputs."""

import itertools

from contract.replaying import run
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, forests

from hotset.sim.workload import Workload


def leading(keys, resident):
    return next((i for i, key in enumerate(keys) if key not in resident), len(keys))


def best_hits(paths, capacity):
    """Most block hits of any cache: after each request it keeps any blocks it likes
    of those it had and those that the request brought."""
    reached = {frozenset(): 0}
    for keys in paths:
        following = {}
        for resident, hits in reached.items():
            total = hits + leading(keys, resident)
            pool = sorted(resident | set(keys))
            for size in range(min(capacity, len(pool)) + 1):
                for kept in itertools.combinations(pool, size):
                    chosen = frozenset(kept)
                    following[chosen] = max(following.get(chosen, 0), total)
        reached = following
    return max(reached.values())


def shorten(forest):
    """The first requests, of at most 8 accesses in all."""
    paths, accesses = [], 0
    for path in forest.paths:
        accesses += len(path)
        if accesses > 8:
            break
        paths.append(path)
    return Forest(paths or [[0]])


@settings(max_examples=300, deadline=None)
@given(
    forests(max_requests=8, max_keep=3, max_grow=2).map(shorten),
    st.integers(1, 3),
)
def test_belady_is_the_best_of_all_decisions(forest, capacity):
    workload = Workload(forest.trace(), tail="count")
    got = run(workload, "belady", capacity).hit_blocks
    assert got == best_hits(forest.paths, capacity), (forest.paths, capacity)


def test_the_search_itself():
    # One slot, 0 1 0: keeping 0 past the 1 gives a hit; two slots hold both.
    assert best_hits([[0], [1], [0]], 1) == 1
    assert best_hits([[0], [1], [0], [1]], 1) == 1
    assert best_hits([[0], [1], [0], [1]], 2) == 2
    # The tail alone is of no use.
    assert best_hits([[0, 1], [0, 1]], 1) == 1
    assert best_hits([[0, 1], [0, 1]], 2) == 2
