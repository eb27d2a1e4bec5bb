"""The indexed heap against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotset.policies.heap import (
    heap_clear,
    heap_rebuild,
    heap_remove,
    heap_set,
    heap_take,
    make_heap,
)

CAPACITY = 12
SLOTS = st.integers(0, CAPACITY - 1)
KEYS = st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 1.0, 2.0, 1e300])
OPERATIONS = st.one_of(
    st.tuples(st.just("set"), SLOTS, KEYS, st.integers(-2, 2)),
    st.tuples(st.just("set"), SLOTS, KEYS, st.integers(-2, 2)),
    st.tuples(st.just("remove"), SLOTS),
    st.tuples(st.just("take"), st.integers(0, 5), st.sets(SLOTS, max_size=6)),
    st.tuples(st.just("rebuild"), KEYS),
    st.tuples(st.just("clear")),
)


def check(heap, model):
    """Every slot stands where `position` says, behind a smaller or equal parent."""
    size = int(heap.size[0])
    assert size == len(model)
    assert set(heap.order[:size].tolist()) == set(model)
    for place in range(size):
        slot = int(heap.order[place])
        assert heap.position[slot] == place
        assert (heap.key[slot], heap.tie[slot]) == model[slot]
        parent = int(heap.order[(place - 1) // 2]) if place else slot
        assert model[parent] <= model[slot]
    absent = set(range(CAPACITY)) - set(model)
    assert all(heap.position[slot] == -1 for slot in absent)


def take(heap, model, n, blocked):
    flags = np.zeros(CAPACITY, np.int32)
    flags[list(blocked)] = 1
    out = np.full(CAPACITY, -1, np.int32)
    found = heap_take(heap, n, flags, np.zeros(CAPACITY, np.int32), out)
    got = out[:found].tolist()
    free = sorted(value for slot, value in model.items() if slot not in blocked)
    # Equal (key, tie) pairs may come in any order; callers make ties unique.
    assert [model[slot] for slot in got] == free[:n]
    assert len(set(got)) == len(got)
    assert not set(got) & blocked
    for slot in got:
        del model[slot]


@given(st.lists(OPERATIONS, max_size=60))
def test_heap_equals_sorted_list(operations):
    heap, model = make_heap(CAPACITY), {}
    for verb, *arguments in operations:
        if verb == "set":
            slot, key, tie = arguments
            heap_set(heap, slot, key, tie)
            model[slot] = (key, tie)
        elif verb == "remove":
            heap_remove(heap, arguments[0])
            model.pop(arguments[0], None)
        elif verb == "take":
            take(heap, model, *arguments)
        elif verb == "rebuild":
            for slot, (key, tie) in model.items():
                heap.key[slot] = -key
                model[slot] = (-key, tie)
            heap_rebuild(heap)
        else:
            heap_clear(heap)
            model = {}
        check(heap, model)


def test_equal_keys_leave_by_tie():
    heap = make_heap(4)
    for slot, tie in ((0, 3), (1, 1), (2, 2), (3, 0)):
        heap_set(heap, slot, 1.0, tie)
    out = np.zeros(4, np.int32)
    none = np.zeros(4, np.int32)
    assert heap_take(heap, 4, none, np.zeros(4, np.int32), out) == 4
    assert out.tolist() == [3, 1, 2, 0]
