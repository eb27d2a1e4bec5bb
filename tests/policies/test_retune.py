"""Another policy for a tier that is in use: who stays, who goes next, what is kept."""

import random

import numpy as np
import pytest
from contract.serving import online_names
from support.tier_player import TierPlayer

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
    monkeypatch.setattr(carry_over, "SLICE_BATCHES", 4)
    many = np.arange(100, dtype=np.int32)
    cut = carry_over.batches(many, np.zeros(100, np.int32))
    assert len(cut) == 4
    assert np.concatenate(cut).tolist() == many.tolist()


def test_a_large_tier_in_slices():
    tier = driver("lru", capacity=5000)
    for start in range(0, 5000, 2):
        serve(tier, [start, start + 1])
    tier.retune(*POLICIES.parse("fifo"))
    slices = 1
    while tier.is_changing:
        tier.carry_on()
        slices += 1
    assert slices == -(-5000 // carry_over.SLICE_BLOCKS)
    assert len(tier) == 5000
    assert tier.evict(4) == [1, 0, 3, 2]


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr(carry_over, "SLICE_BLOCKS", 3)
    monkeypatch.setattr(carry_over, "SLICE_BATCHES", 2)


@pytest.mark.parametrize("seed", range(30))
def test_traffic_between_slices_is_no_loss(seed, small_slices):
    """LRU that learns in slices, with requests in between, is LRU."""
    draw = random.Random(seed)
    plain, retuned = driver("lru", capacity=20), driver("lru", capacity=20)
    changes = 0
    for _turn in range(150):
        start = 10 * draw.randrange(8)
        keys = list(range(start, start + draw.randrange(1, 7)))
        ours, theirs = serve(retuned, keys), serve(plain, keys)
        assert (ours.keys, ours.evicted) == (theirs.keys, theirs.evicted)
        if draw.random() < 0.2:
            some = [key for key in keys[-2:] if key in plain]
            plain.remove(some)
            retuned.remove(some)
        if draw.random() < 0.2 and not retuned.is_changing:
            retuned.retune(*POLICIES.parse("lru"))
            changes += retuned.is_changing
        while draw.random() < 0.7:
            retuned.carry_on()
    assert changes > 5
    while retuned.is_changing:
        retuned.carry_on()
    assert retuned.num_faults == 0
    assert order(retuned) == order(plain)


@pytest.mark.parametrize("name", online_names())
def test_books_balance_while_policies_change_in_slices(name, small_slices):
    for seed in range(4):
        chance = random.Random(f"{name} {seed}")
        tier = driver(name, capacity=chance.randint(8, 24))
        player = TierPlayer(tier, chance)
        changes = 0
        for _step in range(250):
            player.step()
            if chance.random() < 0.1:
                tier.retune(*POLICIES.parse(chance.choice(["lru", name])))
                changes += tier.is_changing
            elif chance.random() < 0.4:
                tier.carry_on()
        assert tier.num_faults == 0
        assert changes > 2
        while player.open:
            player.end_store()
        while player.books.pins:
            player.unpin()
        while tier.is_changing:
            tier.carry_on()
        tier.retune(*POLICIES.parse("fifo"))
        while tier.is_changing:
            tier.carry_on()
        assert sorted(tier.evict(len(tier)) or []) == sorted(player.books.order)


def test_a_policy_that_fails_between_slices_leaves_lru(small_slices):
    from support.faulty_states import plant

    tier = driver("lru", capacity=20)
    for start in range(0, 20, 4):
        serve(tier, list(range(start, start + 4)))
    spec, _made = plant(POLICIES.get("fifo"), "on_insert", "raise after", 4)
    tier.retune(spec, POLICIES.get("fifo").params())
    while tier.is_changing:
        assert not tier.fallen_back
        tier.carry_on()
    assert tier.fallen_back
    assert tier.num_faults == 1
    assert tier.evict(2) == [3, 2]


def test_a_reset_ends_the_learning(small_slices):
    tier = filled("lru")
    tier.retune(*POLICIES.parse("fifo"))
    assert tier.is_changing
    tier.reset()
    assert not tier.is_changing
    serve(tier, [1, 2])
    assert order(tier) == [2, 1]
