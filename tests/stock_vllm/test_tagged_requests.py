"""What clients say of their requests reaches the policy, both ways in."""

import pytest

pytestmark = pytest.mark.vllm


@pytest.fixture(params=["spec", "eviction_policy"])
def calls(request):
    """A tier of four chunks under `relevance`, and what reads its tags."""
    from support.stock import Calls, make_manager

    from hotset.adapter.manager import HotsetManager
    from hotset.adapter.policy import policy_class
    from hotset.policies import POLICIES
    from hotset.policies.driver import PolicyDriver

    if request.param == "spec":
        spec, params = POLICIES.parse("relevance")
        manager = HotsetManager(PolicyDriver(spec, params, 4), trusted_tags=True)
        made = Calls(manager)
        made.reader = manager.tags
    else:
        manager = make_manager(policy_class("relevance"), 4)
        made = Calls(manager)
        made.reader = manager._policy.tags
    return made


def store(calls, name, number, params=None):
    """One request of one chunk from start to end; what was evicted for it."""
    calls.new(name, [number], params)
    calls.lookup(name, number)
    stored, evicted = calls.offer(name, [number])
    calls.stored(name, stored, True)
    calls.finish(name)
    return evicted


def test_a_high_priority_outlives_newer_chunks(calls):
    store(calls, "a", 0, {"hotset": {"priority": 8}})
    store(calls, "b", 1, {"evoke": {"priority": 4.0, "source_type": "user"}})
    gone = [n for i in range(2, 12) for n in store(calls, f"r{i}", i)]
    assert gone == [2, 3, 4, 5, 6, 7, 8, 9]


def test_a_source_type_gives_its_floor(calls):
    store(calls, "a", 0, {"evoke": {"source_type": "system"}})
    gone = [n for i in range(1, 8) for n in store(calls, f"r{i}", i)]
    assert gone == [1, 2, 3, 4]


def test_wrong_tags_break_nothing(calls):
    for i, wrong in enumerate([float("nan"), -1, "high", [], {}, True, 10**400]):
        store(calls, f"r{i}", i, {"hotset": {"priority": wrong, "session": wrong}})
        store(calls, f"s{i}", 50 + i, {"hotset": wrong, "evoke": wrong})
    assert calls.reader.invalid["priority"] == 7
    store(calls, "last", 99)
    assert calls.lookup("last", 99) == "hit"


def test_the_end_of_a_session_lets_its_last_chunks_go_first(calls, request):
    tags = {"hotset": {"session": "s", "end_session": True}}
    for i in range(3):
        store(calls, f"r{i}", i)
    store(calls, "end", 3, tags)
    trusted = "spec" in request.node.callspec.id.split("-")
    assert store(calls, "next", 4) == ([3] if trusted else [0])
