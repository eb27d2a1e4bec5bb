"""Keys that share an identity, and keys that a caller names twice.

A policy's lists rely on it that no identity comes twice. Who can choose prompts can
choose keys whose 63 bits are equal, so the driver tells such keys apart.
"""

import random

import pytest
from contract.serving import make_driver, storing_texts
from support.tier_player import TierPlayer

from hotset.policies.keys import KeyBatch, fold

BEYOND = 1 << 63  # adding it changes the key and not the identity


def in_threes(number):
    """Return a key that shares its identity with two of its neighbours."""
    return number // 3 + (number % 3) * BEYOND


@pytest.mark.parametrize("text", storing_texts())
def test_keys_that_share_an_identity_are_served(text):
    for seed in range(8):
        chance = random.Random(f"{text} {seed}")
        driver = make_driver(text, chance.randint(4, 24))
        player = TierPlayer(driver, chance, in_threes, are_distinct=False)
        for _step in range(200):
            player.step()
        assert driver.num_faults == 0
        while player.open:
            player.end_store()
        while player.books.pins:
            player.unpin()
        everything = sorted(player.books.order)
        assert sorted(driver.evict(len(driver)) or []) == everything


def twice(keys):
    """Return keys and then all of them again, a head next to itself."""
    return [*keys[:1], *keys, *keys]


def serve(driver, keys, said):
    """Serve a request, naming its keys as ``said`` has them; return what happened."""
    request = driver.begin(num_blocks=len(keys), hit_blocks=0)
    request.is_observed = True
    driver.observe(request, said(keys))
    driver.hit(request, said(keys))
    depths = {key: depth for depth, key in enumerate(keys)}
    offered = said(keys)
    named = offered.keys if isinstance(offered, KeyBatch) else offered
    stored = driver.offer(request, offered, [depths[key] for key in named])
    if stored is None:
        return None
    assert driver.complete(said(stored.keys)) == stored.keys
    driver.finish(request, said(keys))
    return stored.keys, stored.evicted, stored.slots


@pytest.mark.parametrize("form", [list, KeyBatch.of])
@pytest.mark.parametrize("text", storing_texts())
def test_a_key_named_twice_counts_once(text, form):
    chance = random.Random(text)
    once, repeated = make_driver(text, 12), make_driver(text, 12)
    for turn in range(120):
        first = chance.randrange(40)
        keys = list(range(first, first + chance.randint(1, 8)))
        expected = serve(once, keys, lambda keys: form(list(keys)))
        assert serve(repeated, keys, lambda keys: form(twice(keys))) == expected
        if turn % 10 == 9 and len(once):
            victims = once.evict(1)
            assert repeated.evict(1) == victims
            some = [key for key in keys if key in once]
            once.remove(some)
            repeated.remove(twice(some))
        assert repeated.num_free == once.num_free
        assert repeated.num_evictable == once.num_evictable
    assert repeated.num_faults == 0


def test_an_identity_that_is_taken_gives_way_to_the_next():
    driver = make_driver("lru", 4)
    stored = driver.offer(driver.begin(), [5, 5 + BEYOND, 6])
    assert stored.keys == [5, 5 + BEYOND, 6]
    assert [int(driver._slots.key[slot]) for slot in stored.slots] == [5, 6, 7]
    assert fold(stored.keys).tolist() == [5, 5, 6]
    driver.complete(stored.keys)
    driver.remove([5])
    assert driver.slot(5 + BEYOND) == stored.slots[1]
    again = driver.offer(driver.begin(), [5])
    assert int(driver._slots.key[again.slots[0]]) == 5


def test_the_last_identity_gives_way_to_the_first():
    driver = make_driver("lru", 4)
    stored = driver.offer(driver.begin(), [BEYOND - 1, 2 * BEYOND - 1])
    identities = [int(driver._slots.key[slot]) for slot in stored.slots]
    assert identities == [BEYOND - 1, 0]
