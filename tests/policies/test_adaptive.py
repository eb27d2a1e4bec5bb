"""`adaptive` against its twin where it learns, changes its order, and changes back."""

import itertools
import random

import pytest
from contract.replaying import make_replay
from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from strategies import BLOCK_TOKENS, Forest

from hotset.sim.workload import Workload


def sessions(draw, count, requests, new_id):
    """More sessions at a time than fit, each coming back after a while, and growing."""
    paths, live = [], []
    for _ in range(requests):
        while len(live) < count:
            live.append([new_id() for _ in range(draw.randrange(3, 6))])
        at = min(int(draw.expovariate(0.5)), count - 1)
        session = live.pop(at)
        session.append(new_id())
        paths.append(list(session))
        if draw.random() < 0.85:
            live.append(session)
    return paths


def scans(draw, requests, new_id):
    """A few hot prompts, and many that never come back."""
    hot = [[new_id() for _ in range(3)] for _ in range(3)]
    return [
        draw.choice(hot)
        if draw.random() < 0.4
        else [new_id() for _ in range(draw.randrange(1, 5))]
        for _ in range(requests)
    ]


def mixed(seed):
    """Traffic that changes its kind, twice."""
    draw = random.Random(seed)
    ids = iter(range(10**6))

    def new_id():
        return next(ids)

    paths = [
        *sessions(draw, 6, 150, new_id),
        *scans(draw, 150, new_id),
        # Whatever was used last comes back: nothing beats LRU here.
        *[path for path in sessions(draw, 1, 60, new_id) for _ in range(2)],
    ]
    in_order = {}
    return Forest(
        [[in_order.setdefault(i, len(in_order)) for i in path] for path in paths]
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacity", [7, 16])
@pytest.mark.parametrize(
    "text",
    [
        "adaptive:evidence=1,half_life=100",
        "adaptive:evidence=0,min_gain=0,half_life=50,memory=2",
        "guard:distance=5",
    ],
)
def test_equals_twin_on_changing_traffic(text, capacity, seed):
    forest = mixed(seed)
    replay = make_replay(Workload(forest.trace()), text, capacity)
    twin = NaiveCache(
        naive_policy(text, forest.paths, capacity=capacity),
        naive_admission("always"),
        capacity,
        BLOCK_TOKENS,
    )
    learned = []
    for r, path in enumerate(forest.paths):
        replay.advance(1)
        hit = twin.step(NaiveRequest(path, len(path) * BLOCK_TOKENS))
        assert int(replay.hit_tokens[r]) == hit, r
        assert replay.resident().tolist() == sorted(twin.resident), r
        learned.append(getattr(twin.policy, "learned", None))
    assert replay.result().stores == twin.stores < sum(map(len, forest.paths))
    if text.startswith("adaptive"):
        changes = sum(a != b for a, b in itertools.pairwise(learned))
        assert changes >= 1, "the order never changed"
