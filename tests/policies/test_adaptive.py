"""`adaptive` against its twin where it learns, changes its order, and changes back."""

import itertools

import pytest
from contract.replaying import make_replay
from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from strategies import BLOCK_TOKENS
from support.changing_traffic import mixed

from hotset.sim.workload import Workload


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
