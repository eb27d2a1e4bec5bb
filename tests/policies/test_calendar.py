"""The order of a calendar against a sorted list."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.policies.calendar import (
    calendar_clear,
    calendar_rebuild,
    calendar_remove,
    calendar_set,
    calendar_set_aside,
    calendar_take,
    holds,
    make_calendar,
)

CAPACITY = 12
slots = st.integers(0, CAPACITY - 1)
few_keys = st.one_of(
    st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]),
    st.floats(-40.0, 40.0),
    st.floats(allow_nan=False, allow_infinity=False),
)
widths = st.sampled_from([1e-9, 0.25, 1.0, 10.0, 1e6])
blocked_sets = st.sets(slots)
steps = st.one_of(
    st.tuples(st.just("set"), slots, few_keys),
    st.tuples(st.just("aside"), slots, few_keys),
    st.tuples(st.just("remove"), slots),
    st.tuples(st.just("take"), st.integers(1, CAPACITY), blocked_sets),
    st.tuples(st.just("negate")),
    st.tuples(st.just("clear")),
)


def take(calendar, model, n, blocked):
    flags = np.zeros(CAPACITY, np.int32)
    flags[list(blocked)] = 1
    out = np.zeros(CAPACITY, np.int32)
    found = calendar_take(calendar, n, flags, out)
    free = sorted((value, slot) for slot, value in model.items() if slot not in blocked)
    expected = [slot for _, slot in free[:n]]
    assert out[:found].tolist() == expected
    for slot in expected:
        del model[slot]


@given(st.lists(steps, max_size=60), widths)
@settings(max_examples=300)
def test_order_is_that_of_a_sorted_list(script, width):
    calendar, model = make_calendar(CAPACITY, width), {}
    for tie, (name, *arguments) in enumerate(script):
        if name == "set":
            slot, key = arguments
            calendar_set(calendar, slot, key, tie)
            model[slot] = (key, tie)
        elif name == "aside":
            slot, key = arguments
            if slot in model:
                calendar_set_aside(calendar, slot, key)
                model[slot] = (key, model[slot][1])
        elif name == "remove":
            calendar_remove(calendar, arguments[0])
            model.pop(arguments[0], None)
        elif name == "take":
            take(calendar, model, *arguments)
        elif name == "negate":
            for slot, (key, own) in model.items():
                calendar.key[slot] = -key
                model[slot] = (-key, own)
            calendar_rebuild(calendar)
        else:
            calendar_clear(calendar)
            model.clear()
        assert {slot for slot in range(CAPACITY) if holds(calendar, slot)} == set(model)
    take(calendar, model, CAPACITY, set())
    assert not model


def test_more_may_stand_aside_than_there_is_room_for():
    capacity = 3000
    calendar = make_calendar(capacity, 1.0)
    for slot in range(capacity):
        calendar_set(calendar, slot, float(slot % 7), slot)
    for slot in range(capacity):
        calendar_set_aside(calendar, slot, float(slot % 11))
    out = np.zeros(capacity, np.int32)
    assert (
        calendar_take(calendar, capacity, np.zeros(capacity, np.int32), out) == capacity
    )
    assert out.tolist() == sorted(range(capacity), key=lambda slot: (slot % 11, slot))


def test_only_days_out_of_order_go_through_the_heap():
    calendar = make_calendar(100, 10.0)
    out, blocked = np.zeros(100, np.int32), np.zeros(100, np.int32)
    for slot in range(100):
        calendar_set(calendar, slot, float(slot), slot)
    assert calendar_take(calendar, 5, blocked, out) == 5
    assert calendar.heap.size[0] == 0
    calendar_set(calendar, 0, 6.5, 100)
    assert calendar_take(calendar, 2, blocked, out) == 2
    assert out[:2].tolist() == [5, 6]
    assert calendar.heap.size[0] == 4
