"""Small cases worked out by hand, one or two for each policy."""

import pytest
from contract.replaying import make_replay
from contract.serving import make_driver, serve
from strategies import BLOCK_TOKENS, Forest

from hotset.sim.workload import Workload


def history(paths, text, capacity, **options):
    """Hit blocks and evicted blocks of each request."""
    replay = make_replay(Workload(Forest(paths).trace()), text, capacity, **options)
    rows, before = [], set()
    for r in range(len(paths)):
        replay.advance(1)
        after = set(replay.resident().tolist())
        rows.append((int(replay.hit_tokens[r]) // BLOCK_TOKENS, sorted(before - after)))
        before = after
    return rows


def test_lru():
    # Oldest to newest, 3 slots:
    #   [0 1] -> 1 0      [2] -> 1 0 2     [0] hits -> 1 2 0
    #   [3] evicts 1 -> 2 0 3              [4] evicts 2 -> 0 3 4
    #   [0 1] hits 0, protected; 1 evicts 3 -> 4 1 0
    rows = history([[0, 1], [2], [0], [3], [4], [0, 1]], "lru", 3)
    assert rows == [(0, []), (0, []), (1, []), (0, [1]), (0, [2]), (1, [3])]


def test_lru_orders_of_vllm_without_an_engine():
    # 0.24: written head first, so 0 is the oldest; 0.32 and 0.33: the end of the
    # request orders its blocks tail first, so 2 is.
    paths = [[0, 1, 2], [3], [0, 1, 2]]
    # 0.24: [0 1 2] then finds no 0, but 1 and 2 stay protected: 3 goes.
    assert history(paths, "lru:order=vllm-0.24", 3) == [(0, []), (0, [0]), (0, [3])]
    for order in ("tail-first", "vllm-0.32", "vllm-0.33"):
        rows = history(paths, f"lru:order={order}", 3)
        assert rows == [(0, []), (0, [2]), (2, [3])], order


@pytest.mark.parametrize(("engine", "kept"), [("vllm-0.32", 0), ("vllm-0.33", 1)])
def test_lru_while_a_long_request_runs(engine, kept):
    # One block a step, 3 slots, 5 blocks. A block can go two steps after its offer:
    # for 3 either 0 or 1, for 4 the other one or 2.
    #   0.32, head first while it runs: 0 goes, then 1. Left are 2 3 4: no prefix.
    #   0.33, tail first at any time:   1 goes, then 2. Left are 0 3 4: one block.
    paths = [list(range(5))] * 2
    replay = make_replay(
        Workload(Forest(paths).trace()), "lru", 3, engine=engine, step_tokens=4
    )
    replay.advance(1)
    assert replay.resident().tolist() == ([0, 3, 4] if kept else [2, 3, 4])
    replay.advance(1)
    assert int(replay.hit_tokens[1]) == kept * BLOCK_TOKENS


def test_fifo():
    # The hit on 0 changes nothing: 0 was stored first.
    rows = history([[0], [1], [2], [0], [3], [4]], "fifo", 3)
    assert rows == [(0, []), (0, []), (0, []), (1, []), (0, [0]), (0, [1])]


def test_fifo_orders():
    paths = [[0, 1, 2], [3], [4]]
    assert history(paths, "fifo", 3) == [(0, []), (0, [2]), (0, [1])]
    assert history(paths, "fifo:order=insertion", 3) == [(0, []), (0, [0]), (0, [1])]


def test_marconi():
    # Worth is sights / (depth + 1), 3 slots:
    #   [0 1]        0: 1, 1: 1/2
    #   [0 1] hits   0: 2, 1: 1
    #   [2 3]        2: 1, 3: 1/2; one slot is free, 1 has the least worth
    #   [4]          3 goes at 1/2
    #   [5 6]        0: 2, 2: 1, 4: 1 - of equals 2 was used longer ago; then 4
    #   [0 1]        hits 0; sights 3 and 3, though 1 was away; 6 goes at 1/2
    #   [7]          0: 3, 1: 3/2, 5: 1
    paths = [[0, 1], [0, 1], [2, 3], [4], [5, 6], [0, 1], [7]]
    assert history(paths, "marconi", 3) == [
        (0, []),
        (2, []),
        (0, [1]),
        (0, [3]),
        (0, [2, 4]),
        (1, [6]),
        (0, [5]),
    ]


def test_marconi_decay():
    # Worth is sights * 2 ** -age, depth left out, 2 slots; 0 is seen three times.
    #   request 4: 0: 3/4, 1: 1/2 - 1 goes.   request 5: 0: 3/8, 2: 1/2 - 0 goes.
    text = "marconi:depth_weight=0,decay=0.6931471805599453"
    rows = history([[0], [0], [0], [1], [2], [3]], text, 2)
    assert rows[4:] == [(0, [1]), (0, [0])]


def test_marconi_log_and_none():
    # 0 seen three times, at depth 0; 1 and 2 a chain seen once.
    #   log:  ln(4) = 1.39 against ln(2) = 0.69 and 0.35
    #   none with depth_weight 0: all are 1, so the oldest goes, which is 0
    paths = [[0], [0], [0], [1, 2], [3]]
    assert history(paths, "marconi:reuse=log", 3)[-1] == (0, [2])
    assert history(paths, "marconi:reuse=none,depth_weight=0", 3)[-1] == (0, [0])


def test_marconi_admission():
    # With a threshold of 2: the first sight stores nothing, the second what was seen
    # twice, up to the first that was not (2 in the third request).
    replay = make_replay(
        Workload(Forest([[0, 1], [0, 1, 2], [0, 1, 2]]).trace()),
        "marconi:admission_threshold=2",
        8,
    )
    resident = []
    for _ in range(3):
        replay.advance(1)
        resident.append(replay.resident().tolist())
    assert resident == [[], [0, 1], [0, 1, 2]]


def test_relevance():
    # Age in keys, half-life 1; (2 ** -age + 1 - 2 ** -sights) / 2; 3 slots.
    #   [0] [0] [1] [2]   used at 1, 2, 3, 4; sights 2, 1, 1
    #   [3] at 4:   0: (1/4 + 3/4) / 2 = 1/2, 1: (1/2 + 1/2) / 2 = 1/2, 2: 3/4
    #               0 and 1 are equal, 0 was inserted first
    #   [4] at 5:   1: (1/4 + 1/2) / 2 = 3/8, 2: 1/2, 3: 3/4
    rows = history([[0], [0], [1], [2], [3], [4]], "relevance:half_life=1", 3)
    assert rows == [(0, []), (1, []), (0, []), (0, []), (0, [0]), (0, [1])]


def test_relevance_floors_and_priorities():
    # Half-life 1, all used once, so raw worth is (2 ** -age + 1/2) / 2. At clock 4:
    #   system, age 3:   0.6 + 0.4 * 0.3125 = 0.725
    #   document, age 2: 0.375      document of priority 2, age 1: 2 * 0.5 = 1
    #   no source, age 0: 0.75
    driver = make_driver("relevance:half_life=1", 4)
    serve(driver, [1], source_type=0)
    serve(driver, [2], source_type=3)
    serve(driver, [3], source_type=3, priority=2.0)
    serve(driver, [4])
    assert driver.scores([1, 2, 3, 4]).tolist() == [0.725, 0.375, 1.0, 0.75]
    assert [driver.evict(1)[0] for _ in range(4)] == [2, 1, 4, 3]


def test_relevance_clamp():
    # As above, but the floor is the larger of floor and raw worth: 0.6 for system.
    driver = make_driver("relevance:half_life=1,floor_rule=clamp", 4)
    serve(driver, [1], source_type=0)
    serve(driver, [2])
    assert driver.scores([1, 2]).tolist() == [0.6, 0.75]


def test_belady():
    # 2 slots; 0, 1, 2 are used again in requests 3, 4, 5. 2 is not sooner than 1,
    # which it would displace, so it is not stored. 0 and 1 hit.
    paths = [[0], [1], [2], [0], [1], [2]]
    hits = [hit for hit, _ in history(paths, "belady", 2)]
    assert hits == [0, 0, 0, 1, 1, 0]
    # Without bypass: 2 puts 1 out, 0 hits; 1 puts 0 out, 2 hits.
    rows = history(paths, "belady:bypass=false", 2)
    assert rows == [(0, []), (0, []), (0, [1]), (1, []), (0, [0]), (1, [])]


def test_belady_takes_the_deepest():
    # 0 and 1 come back together in request 3, 2 in request 2: 1 makes room for it.
    # At the end 1 is never used again and stays out.
    rows = history([[0, 1], [2], [2], [0, 1]], "belady", 2)
    assert rows == [(0, []), (0, [1]), (1, []), (1, [])]


def test_unbounded():
    rows = history([[0, 1], [2], [0, 1], [0, 3]], "unbounded", 1)
    assert rows == [(0, []), (0, []), (2, []), (1, [])]


def test_arc():
    # 2 slots; T1 | T2, oldest first, B1 and the target (p):
    #   [0] [1] [0]  1 | 0          [2]  T1 is longer than p = 0, 1 goes: 2 | 0, B1 1
    #   [1]          in B1: p = 1; T1 is not longer than p, T2 gives 0: 2 | 1, B2 0
    #   [0]          in B2: p = 0; T1 gives 2: | 1 0, B1 2
    #   [3]          T1 is empty: T2 gives 1: 3 | 0
    rows = history([[0], [1], [0], [2], [1], [0], [3]], "arc", 2)
    assert [gone for _, gone in rows] == [[], [], [], [1], [0], [2], [1]]


def test_arc_of_vllm_stores_ghosts_in_t1():
    # As above up to [1]: 0.32 adapts to 1 (p = 1) and evicts from T1 while it is as
    # long as that, so 2 goes, and 1 is in T1 again; then [3] takes 1, not 0.
    rows = history([[0], [1], [0], [2], [1], [3]], "arc:order=vllm-0.32", 2)
    assert [gone for _, gone in rows] == [[], [], [], [1], [2], [1]]


def test_lfu():
    # Uses: 0 three, 1 one. 2 puts 1 out, 3 puts 2 out: 0 is never the least used.
    rows = history([[0], [0], [0], [1], [2], [3]], "lfu", 2)
    assert [gone for _, gone in rows] == [[], [], [], [], [1], [2]]


def test_lfu_after_hits_on_one_of_two():
    # T33: after three hits on A (0) and one on B (1), B goes.
    rows = history([[0], [1], [0], [0], [0], [1], [2]], "lfu", 2)
    assert rows[-1] == (0, [1])


def test_gdsf():
    # Worth is uses + L, L the worth last evicted. 0 has worth 3 from the start.
    #   [1] worth 1   [2] evicts 1, L = 1, worth 2   [3] evicts 2, L = 2, worth 3
    #   [4] 0 and 3 are worth 3, 0 was used longer ago
    rows = history([[0], [0], [0], [1], [2], [3], [4]], "gdsf", 2)
    assert [gone for _, gone in rows] == [[], [], [], [], [1], [2], [0]]


def test_sieve():
    # Oldest first; * was used. [0 1 2] stored one by one, 0 used: 0* 1 2
    #   [3] the hand passes 0 and takes 1: 0 2 3, hand at 2
    #   [4] takes 2, hand at 3    [3] used    [5] passes 3, takes 4
    #   4 was the newest, so the hand starts anew at the oldest: [6] takes 0
    paths = [[0], [1], [2], [0], [3], [4], [3], [5], [6]]
    rows = history(paths, "sieve", 3)
    assert [gone for _, gone in rows[4:]] == [[1], [2], [], [4], [0]]


def test_s3fifo():
    # 4 slots, S should have 1. 0 is used twice: it moves to M when it comes up.
    #   [4] 0 to M, 1 goes      [5] 2 goes      [1] is a ghost: into M, and 3 goes
    #   S: 4 5, M: 0 1. [6] [7] take 4 and 5; 0 and 1 stay.
    paths = [[0], [1], [2], [3], [0], [0], [4], [5], [1], [6], [7]]
    rows = history(paths, "s3fifo:small=0.25", 4)
    assert [gone for _, gone in rows[6:]] == [[1], [2], [3], [4], [5]]


def test_tinylfu():
    # 3 slots, window of 1, at most 1 protected. After [2], W | P | Q: 2 | 1 | 0; 0 and
    # 1 were seen twice.
    #   [3] 2 was seen once, 1 twice: 2 goes, W 3
    #   [3] again, and [4]: 3 was seen twice, 1 as well: a tie, 3 goes
    #   [4] [4] [5]: 4 was seen three times, so it wins and 1 goes
    paths = [[0], [1], [0], [1], [2], [3], [3], [4], [4], [4], [5]]
    rows = history(paths, "tinylfu", 3)
    assert [gone for _, gone in rows[5:]] == [[2], [], [3], [], [], [1]]
