"""Another policy for a tier that is in use: who stays, who goes next, what is kept."""

import random

import numpy as np
import pytest
from contract.serving import online_names

from hotset.policies import ADMISSIONS, POLICIES, PolicyError, carry_over
from hotset.policies.driver import PolicyDriver, Status

CAPACITY = 12


def driver(policy="lru", admission="always", capacity=CAPACITY):
    return PolicyDriver(*POLICIES.parse(policy), capacity, *ADMISSIONS.parse(admission))


def serve(tier, keys):
    """One request: it uses what is there and stores the rest."""
    request = tier.begin(num_blocks=len(keys))
    tier.observe(request, keys)
    tier.hit(request, keys)
    stored = tier.offer(request, keys)
    if stored is not None and stored.keys:
        tier.complete(stored.keys)
    tier.finish(request, keys)
    return stored


def filled(policy, admission="always"):
    tier = driver(policy, admission)
    for keys in ([1, 2, 3, 4], [11, 12, 13], [1, 2, 3, 4], [21, 22, 23], [11, 31, 32]):
        serve(tier, keys)
    assert len(tier) > 8
    return tier


def residents(tier):
    return {key for key in range(100) if tier.lookup(key) is not Status.MISS}


def order(tier):
    """All that can go, in the order in which it goes, one by one."""
    gone = []
    while tier.num_evictable:
        gone += tier.evict(1)
    return gone


@pytest.mark.parametrize("before", ["lru", "marconi", "arc"])
@pytest.mark.parametrize("after", online_names())
def test_residents_stay_and_all_of_them_can_go(before, after):
    tier = filled(before)
    here = residents(tier)
    tier.pin([sorted(here)[0]])
    request = tier.begin()
    assert tier.offer(request, [91]) is not None
    here = residents(tier)
    tier.retune(*POLICIES.parse(after))
    assert residents(tier) == here
    assert tier.num_faults == 0
    assert not tier.fallen_back
    held = {key for key in here if key == 91 and tier.lookup(key) is Status.PENDING}
    gone = tier.evict(tier.num_evictable)
    refuses = tier.spec.refuses(POLICIES.parse(after)[1])
    if gone is None:
        assert refuses  # it protects what was used lately
        return
    assert set(gone) == here - held - {sorted(here - held)[0]}
    assert tier.num_faults == 0


@pytest.mark.parametrize("name", online_names())
def test_traffic_goes_on_under_the_new_policy(name):
    """Random requests with pins across several retunings; accounts balance."""
    draw = random.Random(name)
    tier = driver()
    names = ["lru", name, "fifo", name]
    for turn in range(120):
        if turn % 30 == 15:
            tier.retune(*POLICIES.parse(names[turn // 30]))
        start = 10 * draw.randrange(6)
        serve(tier, list(range(start, start + draw.randrange(1, 7))))
        if turn % 7 == 0 and residents(tier):
            key = min(residents(tier))
            tier.pin([key])
            serve(tier, [97, 98])
            tier.unpin([key])
        assert len(tier) <= CAPACITY
    assert tier.num_faults == 0
    assert tier.num_evictable == len(tier)


def test_lru_goes_on_as_lru():
    """Nothing is lost: the same victims as without a retuning."""
    plain, retuned = filled("lru"), filled("lru")
    retuned.retune(*POLICIES.parse("lru"))
    assert order(retuned) == order(plain)


@pytest.mark.parametrize("name", ["fifo", "sieve", "lfu", "gdsf", "relevance"])
def test_what_was_used_last_goes_last(name):
    """Under a policy that knows no more of blocks than when they came."""
    tier = driver("lru")
    for keys in ([1], [2], [3], [1]):
        serve(tier, keys)
    tier.retune(*POLICIES.parse(name))
    assert order(tier) == [2, 3, 1]


def test_depths_are_kept():
    """`marconi` with weight on depth only evicts the deepest first."""
    tier = driver("lru")
    serve(tier, [1, 2, 3, 4])
    serve(tier, [11, 12])
    tier.retune(*POLICIES.parse("marconi:decay=0"))
    assert order(tier)[:2] == [4, 3]


def test_tails_go_before_heads():
    tier = filled("marconi")
    tier.retune(*POLICIES.parse("relevance"))
    gone = order(tier)
    for prompt in ([1, 2, 3, 4], [21, 22, 23]):
        at = [gone.index(key) for key in prompt if key in gone]
        assert at == sorted(at, reverse=True)


def test_a_fallback_ends_with_another_policy():
    tier = filled("marconi")
    tier.fall_back()
    tier.retune(*POLICIES.parse("fifo"))
    assert not tier.fallen_back
    assert tier.spec.name == "fifo"


def test_a_policy_that_fails_at_once_leaves_lru():
    from support.faulty_states import plant

    tier = filled("lru")
    expected = order(filled("lru"))
    spec, _made = plant(POLICIES.get("fifo"), "on_insert", "raise before", 1)
    tier.retune(spec, POLICIES.get("fifo").params())
    assert tier.fallen_back
    assert tier.num_faults == 1
    assert order(tier) == expected


def test_offline_policies_are_refused_and_nothing_changes():
    tier = filled("lru")
    here = residents(tier)
    with pytest.raises(PolicyError, match="cannot run in a server"):
        tier.retune(*POLICIES.parse("belady"))
    assert tier.spec.name == "lru"
    assert residents(tier) == here


def test_a_rule_that_stays_keeps_its_counts_and_another_starts_anew():
    tier = driver("lru", "threshold:2")
    assert serve(tier, [1, 2]).keys == []
    tier.retune(*POLICIES.parse("fifo"), *ADMISSIONS.parse("threshold:2"))
    assert serve(tier, [1, 2]).keys == [1, 2]
    tier.retune(*POLICIES.parse("fifo"), *ADMISSIONS.parse("threshold:3"))
    assert serve(tier, [5]).keys == []
    assert serve(tier, [5]).keys == []
    assert serve(tier, [5]).keys == [5]
    tier.retune(*POLICIES.parse("fifo"))
    assert serve(tier, [6]).keys == [6]


def test_batches_are_requests_and_at_most_so_many(monkeypatch):
    depths = np.array([2, 1, 0, 0, 1, 0], np.int32)
    slots = np.arange(6, dtype=np.int32)
    cut = carry_over.batches(slots, depths)
    assert [part.tolist() for part in cut] == [[0, 1, 2], [3], [4, 5]]
    assert carry_over.batches(slots[:0], depths) == []
    monkeypatch.setattr(carry_over, "MAX_BATCHES", 4)
    many = np.arange(100, dtype=np.int32)
    cut = carry_over.batches(many, np.zeros(100, np.int32))
    assert len(cut) == 4
    assert np.concatenate(cut).tolist() == many.tolist()


def test_a_large_tier_in_few_calls():
    tier = driver("lru", capacity=5000)
    for start in range(0, 5000, 2):
        serve(tier, [start, start + 1])
    tier.retune(*POLICIES.parse("fifo"))
    assert len(tier) == 5000
    assert tier.evict(4) == [1, 0, 3, 2]
