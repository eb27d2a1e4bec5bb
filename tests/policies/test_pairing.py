"""Pairing heaps against sets of slots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotset.policies.pairing import (
    make_pairing,
    pairing_clear,
    pairing_insert,
    pairing_remove,
)

CAPACITY, HEAPS = 14, 3
SLOTS = st.integers(0, CAPACITY - 1)
OPERATIONS = st.one_of(
    st.tuples(
        st.just("insert"),
        SLOTS,
        st.integers(0, HEAPS - 1),
        st.sampled_from([0.0, 1, 2]),
    ),
    st.tuples(
        st.just("insert"), SLOTS, st.integers(0, HEAPS - 1), st.floats(-9.0, 9.0)
    ),
    st.tuples(st.just("remove"), SLOTS),
    st.tuples(st.just("pop"), st.integers(0, HEAPS - 1)),
)


def members(heaps, which):
    """All slots of a tree, checking that no child is before its parent."""
    found, ahead = [], [int(heaps.root[which])] if heaps.root[which] >= 0 else []
    while ahead:
        slot = ahead.pop()
        found.append(slot)
        child, before = int(heaps.child[slot]), slot
        while child >= 0:
            assert heaps.key[child] >= heaps.key[slot]
            assert heaps.back[child] == before
            ahead.append(child)
            before, child = child, int(heaps.sibling[child])
    return found


@given(st.lists(OPERATIONS, max_size=80))
def test_pairing_heaps_equal_sets(operations):
    heaps, where = make_pairing(CAPACITY, HEAPS), {}
    for verb, *arguments in operations:
        if verb == "insert":
            slot, which, key = arguments
            if slot not in where:
                pairing_insert(heaps, which, slot, key)
                where[slot] = (which, key)
        elif verb == "remove" and arguments[0] in where:
            which, _ = where.pop(arguments[0])
            pairing_remove(heaps, which, arguments[0])
        elif verb == "pop" and heaps.root[arguments[0]] >= 0:
            slot = int(heaps.root[arguments[0]])
            pairing_remove(heaps, arguments[0], slot)
            del where[slot]
        for which in range(HEAPS):
            mine = [slot for slot, (heap, _) in where.items() if heap == which]
            assert sorted(members(heaps, which)) == sorted(mine)
            if mine:
                least = min(where[slot][1] for slot in mine)
                assert heaps.key[heaps.root[which]] == least


def test_a_thousand_leave_in_order():
    rng = np.random.default_rng(3)
    keys = rng.permutation(1000).astype(float)
    heaps = make_pairing(1000, 1)
    for slot, key in enumerate(keys):
        pairing_insert(heaps, 0, slot, key)
    for slot in range(0, 1000, 3):
        pairing_remove(heaps, 0, slot)
    gone = []
    while heaps.root[0] >= 0:
        slot = int(heaps.root[0])
        gone.append(float(keys[slot]))
        pairing_remove(heaps, 0, slot)
    left = [float(key) for slot, key in enumerate(keys) if slot % 3]
    assert gone == sorted(left)
    pairing_insert(heaps, 0, 5, 1.0)
    pairing_clear(heaps)
    assert heaps.root[0] == -1
