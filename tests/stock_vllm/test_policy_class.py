"""The cache policy by itself: start-up checks, atomic evictions, waiting calls."""

import pytest

from hotset.policies import POLICIES, PolicyError

pytestmark = pytest.mark.vllm


@pytest.fixture
def ours():
    """The module under test; vLLM is not there when these tests are collected."""
    from hotset.adapter import policy

    return policy


@pytest.fixture
def stock():
    """Keys and statuses of this vLLM."""
    from support import stock

    return stock


def fill(tier, stock, numbers, chunk=0):
    for number in numbers:
        tier.insert(stock.key_of(number), stock.STATUS(chunk))
        tier.get(stock.key_of(number)).ref_cnt = 0
        tier.mark_evictable(stock.key_of(number))


def test_a_policy_that_can_refuse_says_in_one_line_that_it_needs_the_spec(ours):
    cls = ours.policy_class("marconi:admission_threshold=2")
    with pytest.raises(PolicyError) as raised:
        cls(cache_capacity=10)
    message = str(raised.value)
    assert "\n" not in message
    assert "marconi:admission_threshold=2 can refuse to store a chunk" in message
    assert '"spec_name": "HotsetOffloadingSpec"' in message
    assert '"hotset": {"policy": "marconi:admission_threshold=2"}' in message


@pytest.mark.parametrize("name", POLICIES.names())
def test_every_registered_policy_runs_or_says_why_not(name, ours, stock):
    spec = POLICIES.get(name)
    cls = ours.policy_class(name)
    if spec.offline or spec.unbounded or spec.refuses(spec.params()):
        with pytest.raises(PolicyError, match=r"needs the spec|cannot run in a server"):
            cls(cache_capacity=8)
        return
    tier = cls(cache_capacity=8)
    fill(tier, stock, range(8))
    assert len(tier.evict(8, set())) == 8
    assert tier.driver.num_faults == 0


def test_classes_are_found_by_name_and_wrong_names_get_a_hint(ours):
    assert ours.HotsetMarconiPolicy is ours.policy_class("marconi")
    with pytest.raises(AttributeError, match="did you mean 'HotsetMarconiPolicy'"):
        _ = ours.HotsetMarconyPolicy
    with pytest.raises(AttributeError, match=r"no attribute 'json'$"):
        _ = ours.json
    with pytest.raises(PolicyError, match="did you mean 'marconi'"):
        ours.policy_class("marcony")


def test_evict_gives_all_or_nothing(ours, stock):
    tier = ours.policy_class("lru")(cache_capacity=4)
    fill(tier, stock, range(4))
    tier.mark_non_evictable(stock.key_of(1))
    tier.get(stock.key_of(1)).ref_cnt = 1
    protected = {stock.key_of(0), stock.key_of(99)}
    assert tier.evict(3, protected) is None
    assert tier.evict(0, set()) == []
    assert [tier.get(stock.key_of(n)) is None for n in range(4)] == [False] * 4
    gone = tier.evict(2, protected)
    assert [stock.number_of(key) for key, _ in gone] == [2, 3]
    tier.mark_evictable(stock.key_of(1))
    assert len(tier.evict(2, set())) == 2


def test_get_sees_what_waits_and_changes_nothing(ours, stock):
    tier = ours.policy_class("lru")(cache_capacity=4)
    status = stock.STATUS(3)
    tier.insert(stock.key_of(1), status)
    assert tier.get(stock.key_of(1)) is status
    assert tier.get(stock.key_of(2)) is None
    tier.remove(stock.key_of(1))
    assert tier.get(stock.key_of(1)) is None
    tier.remove(stock.key_of(1))  # unknown by now; vLLM must not hear of it
    assert tier.evict(1, set()) is None
    assert len(tier.driver) == 0


def test_a_chunk_inserted_twice_or_marked_twice_counts_once(ours, stock):
    tier = ours.policy_class("lru")(cache_capacity=4)
    key, later = stock.key_of(1), stock.STATUS(7)
    tier.insert(key, stock.STATUS(5))
    tier.insert(key, later)
    tier.mark_evictable(key)
    tier.mark_evictable(key)
    assert tier.driver.num_evictable == 0, "calls wait for a decision"
    assert tier.evict(1, set()) == [(key, later)]
    assert tier.driver.num_evictable == 0
    assert len(tier.driver) == 0


def test_a_chunk_that_is_ready_when_inserted_can_go(ours, stock):
    tier = ours.policy_class("lru")(cache_capacity=4)
    ready = stock.STATUS(5)
    ready.ref_cnt = 0
    tier.insert(stock.key_of(1), ready)
    assert tier.evict(1, set()) == [(stock.key_of(1), ready)]


def test_clear_empties_the_tier_and_drops_what_waits(ours, stock):
    tier = ours.policy_class("marconi")(cache_capacity=4)
    fill(tier, stock, range(3))
    tier.insert(stock.key_of(3), stock.STATUS(3))
    tier.clear()
    assert tier.evict(1, set()) is None
    assert len(tier.driver) == 0
    fill(tier, stock, range(4))
    assert len(tier.evict(4, set())) == 4


def test_keys_that_are_only_announced_are_bounded(ours, stock):
    """A request that never stores leaves at most four keys for each chunk behind."""
    tier = ours.policy_class("lru")(cache_capacity=4)
    for first in range(0, 1000, 10):
        chain = range(first, first + 10)
        tier.touch(map(stock.key_of, chain), stock.context(f"r{first}", chain))
    assert len(tier._announced) == 16


def test_a_finished_request_leaves_nothing_behind(ours, stock):
    tier = ours.policy_class("lru")(cache_capacity=4)
    request = stock.context("r", range(4))
    keys = [stock.key_of(n) for n in range(4)]
    tier.on_store_miss(keys, request)
    for key in keys:
        tier.insert(key, stock.STATUS(0))
        tier.mark_evictable(key)
    tier.on_request_finished([keys], set(keys), set(), request)
    assert tier._announced == {}
    assert tier._waiting == []


def test_heads_outlive_tails_also_in_batches(ours, stock):
    """Prefill in three batches, in a manager that reports chunk by chunk."""
    tier = ours.policy_class("lru")(cache_capacity=9)
    request = stock.context("r", range(9))
    for first in range(0, 9, 3):
        keys = [stock.key_of(n) for n in range(first, first + 3)]
        tier.on_store_miss(keys, request)
        for key in keys:
            tier.insert(key, stock.STATUS(0))
    for n in (4, 0, 8, 2, 6, 1, 7, 3, 5):
        tier.mark_evictable(stock.key_of(n))
    gone = [stock.number_of(tier.evict(1, set())[0][0]) for _ in range(9)]
    assert gone == list(range(8, -1, -1))


def test_nobody_is_asked_whether_a_chunk_is_wanted(ours, stock):
    """vLLM stores it in any case; a policy that would refuse has to live with it."""
    tier = ours.policy_class("marconi")(cache_capacity=4)
    tier.driver._cache.state.numbers[1] = 5  # its admission threshold
    fill(tier, stock, range(4))
    assert len(tier.evict(4, set())) == 4
    assert tier.driver.num_faults == 0
