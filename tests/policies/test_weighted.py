"""`weighted`: other policies come out of it exactly; each weight does what it says."""

import pytest
from contract.replaying import make_replay
from contract.serving import make_driver, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import capacities, forests

from hotset.sim.workload import Workload

NOTHING = "recency=0,reuse=none,depth_weight=0"
SAME = [
    ("lru", "weighted:recency=1,reuse=none,depth_weight=0"),
    ("lru", "weighted:recency=1e-6,reuse=none,depth_weight=0"),
    ("lfu", "weighted:recency=0,depth_weight=0,count=resident"),
    ("marconi", "weighted:recency=0"),
    ("marconi:reuse=log,decay=0.3", "weighted:recency=0.3,reuse=log"),
    (
        "marconi:reuse=none,decay=0.01,depth_weight=2.5",
        "weighted:recency=0.01,reuse=none,depth_weight=2.5",
    ),
    (
        "marconi:tracker_size=6,decay=0.05",
        "weighted:recency=0.05,tracker_size=6",
    ),
]


@pytest.mark.parametrize(("text", "weighted"), SAME)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_other_policies_come_out_of_it(text, weighted, data):
    workload = Workload(data.draw(forests()).trace())
    capacity = data.draw(
        capacities(workload.longest_blocks, workload.blocks.num_distinct)
    )
    a = make_replay(workload, text, capacity)
    b = make_replay(workload, weighted, capacity)
    while not a.is_done:
        a.advance(1)
        b.advance(1)
        assert a.resident().tolist() == b.resident().tolist()
    assert a.hit_tokens.tolist() == b.hit_tokens.tolist()


def order(text, *requests):
    """The keys of requests, (keys, what is told), as they leave."""
    driver = make_driver(f"weighted:{NOTHING},{text}", 16)
    for keys, told in requests:
        serve(driver, keys, **told)
    return driver.evict(len(driver))


SHORT, LONG = ([1], {}), ([2, 3, 4], {})


def test_length_keeps_long_requests_or_short_ones():
    assert order("length=1", LONG, SHORT) == [1, 4, 3, 2]
    assert order("length=-1", SHORT, LONG) == [4, 3, 2, 1]


def test_end_keeps_the_blocks_near_the_end_of_their_prompt():
    # One block behind the other: 1, 1/2 and 1/3 of the weight.
    assert order("end=1", LONG) == [2, 3, 4]
    assert order("end=-1", LONG) == [4, 3, 2]


def test_hit_keeps_what_requests_that_were_cached_used():
    # The second request is cached whole when it comes again.
    again = ([5, 6], {})
    assert order("hit=1", again, again, LONG) == [4, 3, 2, 6, 5]
    assert order("hit=-1", LONG, again, again) == [6, 5, 4, 3, 2]


@pytest.mark.parametrize(
    ("weight", "less", "more"),
    [
        ("turn=1", {"turn": 1}, {"turn": 4}),
        ("turn=1", {"turn": 0}, {"turn": 2}),
        ("priority=1", {"priority": 0.5}, {"priority": 2.0}),
        ("priority=1", {"priority": -1.0}, {"priority": float("nan")}),
        ("priority=1", {"priority": 1.0}, {"priority": 1e9}),
        ("source_user=1", {"source_type": -1}, {"source_type": 1}),
        ("source_system=1", {"source_type": 3}, {"source_type": 0}),
        ("source_assistant=1", {"source_type": 99}, {"source_type": 2}),
        ("source_document=1", {"source_type": 2}, {"source_type": 3}),
    ],
)
def test_what_a_request_tells(weight, less, more):
    """The block of the second request is the one used longer ago, and yet stays."""
    assert order(weight, ([1], more), ([2], less)) == [2, 1]
    negative = weight.replace("=", "=-")
    assert order(negative, ([1], less), ([2], more)) == [2, 1]


def test_a_block_keeps_what_its_last_request_told():
    requests = [([1], {"turn": 9}), ([2], {"turn": 2}), ([1], {"turn": 1})]
    assert order("turn=1", *requests) == [1, 2]
