"""The cache on real files: what is stored is found, in this process and the next."""

import pytest
from support.ssd import (
    NAMESPACE,
    PAYLOAD_BYTES,
    count,
    key_of,
    make_player,
    open_cache,
)

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.namespace import Namespace


@pytest.fixture
def player(tmp_path):
    made = make_player(tmp_path / "ssd")
    yield made
    made.cache.close()


def test_what_is_stored_is_found(player):
    assert player.store(1, 2, 3) == [1, 2, 3]
    player.settle()
    assert player.stored == {1, 2, 3}
    assert player.found(range(6)) == [1, 2, 3]
    cache = player.cache
    assert key_of(1) in cache and key_of(9) not in cache  # which counts nothing
    assert count(cache, "lookups", "hit") == 3
    assert count(cache, "loads", "done") == 3
    assert count(cache, "stores", "done") == 3


def test_a_block_is_found_only_once_it_is_durable(player):
    player.store(1)
    assert not player.cache.lookup(key_of(1))
    player.settle()
    assert player.cache.lookup(key_of(1))


def test_a_load_of_what_is_absent_is_a_miss(player):
    player.store(1)
    player.settle()
    assert player.load(1, 2)
    player.settle()
    assert (player.loaded, player.failed) == ({1}, {2})


def test_a_restart_keeps_blocks_and_their_order(tmp_path):
    first = make_player(tmp_path / "ssd")
    capacity = first.cache.driver.capacity
    for number in range(capacity):
        first.store(number)
        first.settle()
    first.store(0, 1, 2)  # used last
    first.settle()
    assert first.cache.close()
    second = make_player(tmp_path / "ssd")
    try:
        assert second.cache.gauges()["resident"] == capacity
        second.store(*range(10_000, 10_000 + capacity - 3))
        second.settle()
        assert second.found(range(capacity)) == [0, 1, 2]
    finally:
        second.cache.close()


def test_a_restart_keeps_how_often_blocks_were_used(tmp_path):
    given = {"policy": "lfu", "max_bytes": "512KiB"}
    first = make_player(tmp_path / "ssd", **given)
    capacity = first.cache.driver.capacity
    for _ in range(4):
        first.store(0, 1, 2)
        first.settle()
    first.store(*range(3, capacity))
    first.settle()
    first.cache.close()
    second = make_player(tmp_path / "ssd", **given)
    for number in range(1000, 1000 + 2 * capacity, 8):
        second.store(*range(number, number + 8))
        second.settle()
    assert second.found(range(capacity))[:3] == [0, 1, 2]
    second.cache.close()


def test_more_than_fits_is_evicted_and_bytes_stay_right(player):
    capacity = player.cache.driver.capacity
    for number in range(0, 3 * capacity, 20):
        player.store(*range(number, number + 20))
        player.settle()
    player.settle()
    found = player.found(range(3 * capacity + 20))
    assert len(found) == player.cache.gauges()["resident"] <= capacity
    assert count(player.cache, "evictions", "policy") > capacity


def test_another_namespace_finds_nothing_and_deletes_nothing(tmp_path):
    """T72: model, dtype or layout changed on the same root."""
    first = make_player(tmp_path / "ssd")
    first.store(1, 2)
    first.settle()
    first.cache.close()
    other = Namespace.of({**NAMESPACE.fields, "dtype": "fp16"})
    second = make_player(tmp_path / "ssd", namespace=other)
    assert second.found([1, 2]) == []
    second.cache.close()
    third = make_player(tmp_path / "ssd", size=PAYLOAD_BYTES + 1)
    assert third.found([1, 2]) == []
    third.cache.close()
    again = make_player(tmp_path / "ssd")
    assert again.found([1, 2]) == [1, 2]
    again.cache.close()


def test_one_namespace_has_one_process(player, tmp_path):
    with pytest.raises(AdapterError, match="served by another process"):
        open_cache(tmp_path / "ssd")


def test_a_random_hash_seed_is_refused_unless_ephemeral(tmp_path):
    random = Namespace.of({"hash_seed": "random"})
    with pytest.raises(AdapterError, match="PYTHONHASHSEED"):
        open_cache(tmp_path / "ssd", namespace=random)
    player = make_player(tmp_path / "ssd", namespace=random, ephemeral=True)
    player.store(1)
    player.settle()
    assert player.found([1]) == [1]
    player.cache.close()
    assert [path.name for path in (tmp_path / "ssd").iterdir()] == ["hotset.lock"]


def test_a_reset_forgets_here_and_for_later(player, tmp_path):
    player.store(1, 2)
    player.settle()
    player.store(3)
    player.cache.reset()
    player.settle()
    assert player.failed == {3}
    assert player.found(range(5)) == []
    player.store(4)
    player.settle()
    assert player.found(range(5)) == [4]
    player.cache.close()
    later = make_player(tmp_path / "ssd")
    assert later.found(range(5)) == []
    later.cache.close()


@pytest.mark.parametrize("max_bytes", [400_000, 402_000])
def test_a_restart_under_the_same_cap_trims_nothing(tmp_path, max_bytes):
    first = make_player(tmp_path / "ssd", max_bytes=max_bytes)
    capacity = first.cache.driver.capacity
    first.store(*range(capacity))
    first.settle()
    first.cache.close()
    second = make_player(tmp_path / "ssd", max_bytes=max_bytes)
    assert second.cache.driver.capacity == capacity
    assert second.cache.gauges()["resident"] == capacity
    second.cache.close()
