"""Cases that went wrong elsewhere; the numbers are those of the field survey."""

import pytest
from contract.replaying import make_replay, run
from contract.serving import make_driver, online_names, serve, storing_texts
from strategies import Forest

from hotset.sim.workload import Workload


@pytest.mark.parametrize("name", storing_texts())
def test_t29_the_tail_of_a_chain_goes_first(name):
    driver = make_driver(name, 3)
    assert serve(driver, [1, 2, 3]) == (0, [])
    assert serve(driver, [4]) == (0, [3])
    hits, evicted = serve(driver, [1, 2, 9])
    assert (hits, evicted) == (2, [4])


@pytest.mark.parametrize("name", storing_texts())
def test_t29_in_a_replay(name):
    # [0 1 2], [3] puts 2 out, [0 1 4] hits 0 and 1.
    replay = make_replay(Workload(Forest([[0, 1, 2], [3], [0, 1, 4]]).trace()), name, 3)
    replay.advance(2)
    assert replay.resident().tolist() == [0, 1, 3]
    assert replay.run().hit_blocks == 2


@pytest.mark.parametrize("name", online_names())
def test_t30_a_block_behind_a_gap_is_no_hit(name):
    driver = make_driver(name, 8)
    serve(driver, [1, 2, 3])
    driver.remove([2])
    assert serve(driver, [1, 2, 3])[0] == 1


@pytest.mark.parametrize("name", storing_texts())
def test_t36_five_wanted_and_four_there(name):
    driver = make_driver(name, 8)
    serve(driver, range(8))
    driver.pin([0, 1])
    request = driver.begin()
    assert driver.evict(5, protected=[2, 3]) is None
    assert driver.offer(request, [2, 3, *range(100, 105)]) is None
    assert len(driver) == 8
    assert all(key in driver for key in range(8))
    assert sorted(driver.evict(4, protected=[2, 3])) == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("order", "given"),
    [("paper", [2]), ("vllm-0.24", None), ("vllm-0.30", [2]), ("vllm-0.32", [2])],
)
def test_t34_arc_gives_from_t1_where_t2_is_pinned(order, given):
    driver = make_driver(f"arc:order={order}", 4)
    for _ in range(2):
        serve(driver, [0, 1])  # used twice: T2
    serve(driver, [2])
    driver.pin([0, 1])
    driver._cache.state.lists.target[0] = 3.0  # T1 should be longer than it is
    assert driver.evict(1) == given
    driver.unpin([0, 1])
    assert driver.evict(1) == [1]


@pytest.mark.parametrize("engine", ["none", "vllm-0.30", "vllm-0.33"])
def test_t39_a_threshold_of_two_lets_all_in_at_the_second_sight(engine):
    workload = Workload(Forest([list(range(10))] * 3).trace())
    replay = make_replay(workload, "lru", 20, "threshold:2", engine=engine)
    stores = []
    for _ in range(3):
        replay.advance(1)
        stores.append(replay.result().stores)
    assert stores == [0, 10, 10]
    assert replay.result().hit_blocks == 10


def test_t39_counted_at_look_up_the_first_miss_only():
    # Up to vLLM 0.28 a look-up counts up to its first miss: one more block a time.
    # The k-th prompt (from 1) counts blocks 0 to k - 2, so block b is at two sights
    # in prompt 2 b + 2 at the latest; the second prompt stores block 0.
    workload = Workload(Forest([list(range(3))] * 7).trace())
    replay = make_replay(workload, "lru", 20, "threshold:2", engine="vllm-0.28")
    resident = []
    for _ in range(7):
        replay.advance(1)
        resident.append(replay.resident().tolist())
    # Prompt 1: 0 seen once. 2: 0 seen twice, stored. 3: 0 hits, 1 seen once. 4: 1
    # stored. 5: 2 seen once. 6: 2 stored. 7: all hit.
    assert resident == [[], [0], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]
    assert int(replay.hit_tokens[6]) == 12


@pytest.mark.parametrize("engine", ["none", "vllm-0.24", "vllm-0.33"])
@pytest.mark.parametrize("name", online_names())
def test_t44_requests_longer_than_the_cache_end(name, engine):
    workload = Workload(Forest([list(range(30)), list(range(30))]).trace())
    replay = make_replay(workload, name, 10, engine=engine)
    result = replay.run()
    assert result.requests == 2
    if engine == "none":
        # The longest prefix that fits is stored, and hit.
        assert result.hit_blocks == 10
    elif name == "leader":
        # It wants no more than fits: what its leader holds of the whole request.
        assert result.hit_blocks == result.stores == 10
    else:
        # An offer that cannot fit is refused, and offered again with each token.
        assert result.hit_blocks == result.stores == 0
        assert result.refused_stores >= 2


@pytest.mark.parametrize("name", online_names())
def test_t46_partial_blocks_take_no_room(name):
    # Two full blocks that come back, and ten prompts of three tokens in between.
    paths = [[0, 1], *[[i] for i in range(2, 12)], [0, 1]]
    short = [0] + [1] * 10 + [0]
    workload = Workload(Forest(paths, short=short).trace())
    result = run(workload, name, 2)
    assert (result.hit_blocks, result.stores, result.evictions) == (2, 2, 0)
    assert result.accesses == 4


def test_t49_equal_scores_leave_as_inserted_the_tail_of_a_batch_first():
    driver = make_driver("relevance:floor_rule=clamp,floor_user=1,half_life=1", 6)
    serve(driver, [10, 11, 12], source_type=1)
    serve(driver, [20, 21, 22], source_type=1)
    serve(driver, [10, 11, 12], source_type=1)
    assert set(driver.scores([10, 11, 12, 20, 21, 22]).tolist()) == {1.0}
    gone = [driver.evict(1)[0] for _ in range(6)]
    assert gone == [12, 11, 10, 22, 21, 20]


def test_t49_equal_worth_falls_to_the_block_used_longest_ago():
    driver = make_driver("marconi:reuse=none,depth_weight=0", 6)
    serve(driver, [10, 11, 12])
    serve(driver, [20, 21, 22])
    serve(driver, [10])
    gone = [driver.evict(1)[0] for _ in range(6)]
    assert gone == [12, 11, 22, 21, 20, 10]
