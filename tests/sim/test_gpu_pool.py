"""The GPU's blocks under overlapping requests."""

from hypothesis import given
from hypothesis import strategies as st

from hotset.sim.gpu_pool import GpuPool


def fill(pool, keys, extra=0):
    """Hold a prompt's full blocks, and some without a hash behind them."""
    hits = pool.lookup(keys, len(keys))
    held = pool.share(keys[:hits])
    held += pool.take(len(keys) - hits + extra)
    pool.name(held[hits : len(keys)], keys[hits:])
    return held


def test_heads_survive_longest_and_what_has_no_hash_goes_first():
    pool = GpuPool(8)
    pool.release(fill(pool, [1, 2, 3], extra=1), 3)
    pool.release(fill(pool, [4, 5]), 2)  # the block without a hash, and a fresh one
    assert pool.cached() == {1, 2, 3, 4, 5}
    held = pool.take(3)  # two fresh ones, then the oldest: the first prompt's tail
    assert pool.cached() == {1, 2, 4, 5}
    pool.release(held, 0)
    assert pool.num_free == 7


def test_a_block_is_free_when_its_last_holder_is_done():
    pool = GpuPool(4)
    first = fill(pool, [1, 2])
    second = fill(pool, [1, 2], extra=1)
    assert first == second[:2]
    assert pool.num_free == 0
    pool.release(first, 2)
    assert pool.num_free == 0
    assert pool.num_queued([1, 2]) == 0
    pool.release(second, 2)
    assert pool.num_free == 3
    assert pool.num_queued([1, 2]) == 2


def test_copies_are_found_in_the_order_in_which_they_came():
    pool = GpuPool(6)
    original = fill(pool, [1])
    copy = pool.take(1)
    pool.name(copy, [1])
    assert pool.share([1]) == original
    pool.release(original, 1)
    pool.release(original, 1)
    pool.take(4)  # three fresh ones, then the original
    assert pool.share([1]) == copy


@given(st.data())
def test_books_balance(data):
    """No block is lost, held by no one and missing in the queue, or cached twice."""
    pool = GpuPool(data.draw(st.integers(2, 12)))
    running = []
    for _ in range(data.draw(st.integers(1, 30))):
        keys = data.draw(st.sampled_from([[1], [1, 2], [1, 2, 3], [4], [4, 5, 6, 7]]))
        extra = data.draw(st.integers(0, 1))
        hits = pool.lookup(keys, len(keys))
        need = len(keys) - hits + extra + pool.num_queued(keys[:hits])
        if need <= pool.num_free:
            running.append((fill(pool, keys, extra), len(keys)))
        elif running:
            pool.release(*running.pop(data.draw(st.integers(0, len(running) - 1))))
        held = {place for places, _ in running for place in places}
        assert len(held) + pool.num_free == pool.num_usable
        for key in pool.cached():
            assert pool.lookup([key], 1) == 1
    for places, hashed in running:
        pool.release(places, hashed)
    assert pool.num_free == pool.num_usable


def test_a_pool_takes_memory_for_the_blocks_that_were_used():
    pool = GpuPool(1 << 62)
    pool.release(fill(pool, [1, 2, 3], extra=1), 3)
    assert pool.num_free == (1 << 62) - 1
    assert len(pool._key) == 4
    # The block without a hash comes first, then those never used.
    assert pool.take(2) == [3, 4]
    assert pool.cached() == {1, 2, 3}
