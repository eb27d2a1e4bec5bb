"""Identities of keys, batches of them, and the map to slots."""

import numpy as np
import pytest
from contract.serving import make_driver
from hypothesis import given
from hypothesis import strategies as st

from hotset.policies.keys import KeyBatch, KeyMap, fold, in_order_of
from hotset.policies.slots import make_slots

MASK = (1 << 63) - 1


def plain_fold(key):
    if isinstance(key, int):
        return key & MASK
    head, end = int.from_bytes(key[:8], "big"), int.from_bytes(key[-4:], "big")
    return (head ^ (end * 0x9E3779B1 if len(key) >= 12 else 0)) & MASK


@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1)),
        st.lists(st.integers(-(2**80), 2**80)),
        st.lists(st.binary(min_size=36, max_size=36)),
        st.lists(st.binary(max_size=40)),
        st.lists(st.one_of(st.integers(), st.binary(max_size=12), st.booleans())),
    )
)
def test_fold_is_the_plain_rule(keys):
    folded = fold(keys)
    assert folded.tolist() == [plain_fold(key) for key in keys]
    assert folded.dtype == np.int64
    # Machine code is called without a look at the types of arguments.
    assert folded.flags.writeable
    assert folded.flags.c_contiguous


@given(st.binary(min_size=32, max_size=32), st.integers(2, 64))
def test_keys_of_many_groups_are_many_blocks(block_hash, groups):
    """One hash under each group, as vLLM keeps the blocks of a hybrid model."""
    keys = [block_hash + group.to_bytes(4, "big") for group in range(groups)]
    assert len(set(fold(keys).tolist())) == groups


@given(
    st.lists(st.integers(0, 30), unique=True, max_size=20),
    st.lists(st.integers(0, 30), unique=True, max_size=20),
    st.data(),
)
def test_a_batch_finds_what_a_list_finds(keys, resident, data):
    """Whatever was stored, evicted and stored elsewhere since it was made."""
    driver = make_driver("lru", 12)
    batch = KeyBatch.of(keys)
    for turn in range(3):
        some = resident[turn * 3 : turn * 3 + 8]
        driver.complete(driver.offer(driver.begin(), some).keys)
        assert driver._map.look_up(batch).tolist() == driver._map.look_up(keys).tolist()
        if len(driver):
            driver.evict(data.draw(st.integers(1, len(driver))))
    assert driver._map.look_up(batch).tolist() == driver._map.look_up(keys).tolist()


def test_a_batch_grows_and_is_cut():
    batch = KeyBatch.of([b"%036d" % i for i in range(3)])
    batch.extend([b"%036d" % i for i in range(3, 5)])
    assert len(batch) == 5
    assert batch.folded.tolist() == fold(batch.keys).tolist()
    assert batch.behind(3).keys == batch.keys[3:]
    part = batch.part(batch.keys[1:2], np.array([1]))
    assert part.folded.tolist() == fold(batch.keys)[1:2].tolist()
    part.slots[0] = 7
    assert batch.slots.tolist() == [-1] * 5


def test_the_map_goes_both_ways():
    keys = KeyMap(make_slots(4))
    keys.put(["a", "b"], np.array([7, 8]), np.array([2, 0], np.int32))
    assert keys.look_up(["b", "c", "a"]).tolist() == [0, -1, 2]
    assert keys.keys_in(np.array([0, 2], np.int32)) == ["b", "a"]
    assert keys.forget(np.array([2], np.int32)) == ["a"]
    assert keys.look_up(["a", "b"]).tolist() == [-1, 0]
    with pytest.raises(KeyError):
        keys.find(["a"])


def test_keys_of_a_set_go_by_their_slots():
    slots = np.array([5, 1, 3], np.int32)
    assert in_order_of({1, 2, 3}, slots).tolist() == [1, 3, 5]
    assert in_order_of([1, 2, 3], slots).tolist() == [5, 1, 3]
