"""The order in sorted runs against a sorted list."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.policies.runs import (
    holds,
    make_runs,
    runs_clear,
    runs_rebuild,
    runs_remove,
    runs_set,
    runs_set_aside,
    runs_take,
)

CAPACITY = 8
slots = st.integers(0, CAPACITY - 1)
few_keys = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])
blocked_sets = st.sets(slots)
steps = st.one_of(
    st.tuples(st.just("set"), slots, few_keys),
    st.tuples(st.just("aside"), slots, few_keys),
    st.tuples(st.just("remove"), slots),
    st.tuples(st.just("take"), st.integers(1, CAPACITY), blocked_sets),
    st.tuples(st.just("negate")),
    st.tuples(st.just("clear")),
)


def take(runs, model, n, blocked):
    flags = np.zeros(CAPACITY, np.int32)
    flags[list(blocked)] = 1
    out = np.zeros(CAPACITY, np.int32)
    found = runs_take(runs, n, flags, out)
    free = sorted((value, slot) for slot, value in model.items() if slot not in blocked)
    expected = [slot for _, slot in free[:n]]
    assert out[:found].tolist() == expected
    for slot in expected:
        del model[slot]


@given(st.lists(steps, max_size=60))
@settings(max_examples=300)
def test_order_is_that_of_a_sorted_list(script):
    runs, model = make_runs(CAPACITY), {}
    for tie, (name, *arguments) in enumerate(script):
        if name == "set":
            slot, key = arguments
            runs_set(runs, slot, key, tie)
            model[slot] = (key, tie)
        elif name == "aside":
            slot, key = arguments
            if slot in model:
                runs_set_aside(runs, slot, key)
                model[slot] = (key, model[slot][1])
        elif name == "remove":
            runs_remove(runs, arguments[0])
            model.pop(arguments[0], None)
        elif name == "take":
            take(runs, model, *arguments)
        elif name == "negate":
            for slot, (key, own) in model.items():
                runs.key[slot] = -key
                model[slot] = (-key, own)
            runs_rebuild(runs)
        else:
            runs_clear(runs)
            model.clear()
        assert {slot for slot in range(CAPACITY) if holds(runs, slot)} == set(model)
    take(runs, model, CAPACITY, set())
    assert not model


def test_more_may_stand_aside_than_there_is_room_for():
    capacity = 3000
    runs = make_runs(capacity)
    for slot in range(capacity):
        runs_set(runs, slot, float(slot % 7), slot)
    for slot in range(capacity):
        runs_set_aside(runs, slot, float(slot % 11))
    out = np.zeros(capacity, np.int32)
    assert runs_take(runs, capacity, np.zeros(capacity, np.int32), out) == capacity
    assert out.tolist() == sorted(range(capacity), key=lambda slot: (slot % 11, slot))


def test_blocks_in_order_stand_in_one_run():
    runs = make_runs(100)
    for slot in range(100):
        runs_set(runs, slot, float(slot // 10), slot)
    assert runs.fronts.size[0] == 1
    for slot in range(50):
        runs_set(runs, slot, float(slot), 100 + slot)
    assert runs.fronts.size[0] == 2
