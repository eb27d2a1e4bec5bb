"""Two ways to run the same policies: plain or engine loop, loop or driver."""

import pytest
from contract.replaying import make_replay
from contract.serving import make_driver, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, forests

from hotset.policies.request import SOURCE_TYPES
from hotset.sim.workload import Workload

twin_settings = settings(max_examples=40, deadline=None)


def counts(replay):
    result = replay.result()
    return result.hit_blocks, result.hit_tokens, result.stores, result.evictions


def compare_loops(forest, text, capacity):
    """One block of GPU is the one that is never used: the engine loop, no GPU cache."""
    workload = Workload(forest.trace())
    plain = make_replay(workload, text, capacity)
    behind = make_replay(workload, text, capacity, gpu_blocks=1)
    for r in range(len(forest.paths)):
        plain.advance(1)
        behind.advance(1)
        where = f"request {r} of {forest.paths}, capacity {capacity}"
        assert counts(plain) == counts(behind), where
        assert plain.resident().tolist() == behind.resident().tolist(), where


@pytest.mark.parametrize("text", ["lru", "belady"])
@twin_settings
@given(data=st.data())
def test_engine_loop_without_engine_is_the_plain_loop(text, data):
    """Where requests fit, neither policy evicts what the running request just hit."""
    forest = data.draw(forests())
    longest = max(map(len, forest.paths))
    compare_loops(forest, text, data.draw(st.integers(max(longest, 1), 40)))


@twin_settings
@given(data=st.data())
def test_engine_loop_without_engine_is_the_plain_loop_for_fifo(data):
    """One block a request: there is no hit head beside a block to store."""
    forest = data.draw(forests(max_keep=1, max_grow=1).map(first_blocks))
    compare_loops(forest, "fifo", data.draw(st.integers(1, 20)))


def first_blocks(forest):
    """The same requests with nothing but their first block."""
    number = {}
    heads = [path[:1] for path in forest.paths]
    return Forest([[number.setdefault(i, len(number)) for i in path] for path in heads])


def test_plain_loop_protects_the_hit_head_and_the_engine_does_not():
    # Both hold 0, 1 (in that order) when [0, 2] comes. Plain: 0 is protected, so 1
    # goes. vLLM protects the keys of the offer only, that is 2: the older 0 goes.
    workload = Workload(Forest([[0], [1], [0, 2]]).trace())
    plain = make_replay(workload, "fifo", 2)
    behind = make_replay(workload, "fifo", 2, gpu_blocks=1)
    plain.run()
    behind.run()
    assert plain.resident().tolist() == [0, 2]
    assert behind.resident().tolist() == [1, 2]


@pytest.mark.parametrize(
    "admission_text",
    ["always", "threshold:max_tracker_size=9", "threshold:count=lookup"],
)
@pytest.mark.parametrize(
    "text",
    [
        "lru",
        "lru:order=vllm-0.24",
        "lru:order=vllm-0.32",
        "lru:order=vllm-0.33",
        "fifo",
        "marconi:decay=0.05",
        "marconi:reuse=log,admission_threshold=2,tracker_size=12",
        "relevance:half_life=3",
        "relevance:order=given,floor_rule=clamp,half_life=10",
    ],
)
@twin_settings
@given(data=st.data())
def test_driver_equals_loop(text, admission_text, data):
    """Requests that fit, so that whole offers and fitting prefixes are the same."""
    forest = data.draw(forests(max_requests=30, tags=True))
    workload = Workload(forest.trace(), tail="count")
    capacity = data.draw(st.integers(max(workload.longest_blocks, 1), 30))
    replay = make_replay(workload, text, capacity, admission_text)
    driver = make_driver(text, capacity, admission_text)
    priorities = forest.priorities
    for r, path in enumerate(forest.paths):
        before = set(replay.resident().tolist())
        replay.advance(1)
        after = set(replay.resident().tolist())
        hits, evicted = serve(
            driver, path, source_type=forest.sources[r], priority=priorities[r]
        )
        where = f"request {r} of {forest.paths}, capacity {capacity}"
        assert {
            key for key in range(workload.blocks.num_distinct) if key in driver
        } == (after), where
        assert set(evicted) == before - after, where
        expected = min(hits * 4, int(workload.trace.input_tokens[r]))
        assert int(replay.hit_tokens[r]) == expected, where
    assert driver.num_faults == 0
    assert len(SOURCE_TYPES) == 4  # codes -1 to 3 of the forest name all of them
