"""Linked lists of slots against Python lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_all_newest,
    link_newest,
    make_links,
    move_newest,
    unlink,
    unlink_oldest,
)

CAPACITY = 10
SLOTS = st.integers(0, CAPACITY - 1)
OPERATIONS = st.one_of(
    st.tuples(st.just("link"), SLOTS, st.integers(0, 1)),
    st.tuples(st.just("link all"), st.lists(SLOTS, unique=True), st.integers(0, 1)),
    st.tuples(st.just("unlink"), SLOTS),
    st.tuples(st.just("move"), SLOTS),
    st.tuples(
        st.just("take"),
        st.integers(0, 5),
        st.sets(SLOTS, max_size=5),
        st.integers(0, 1),
    ),
    st.tuples(st.just("clear")),
)


def content(links, which, step):
    """The slots of a list, walked from its sentinel."""
    sentinel = CAPACITY + which
    found, slot = [], int(links[sentinel, step])
    while slot != sentinel:
        found.append(slot)
        slot = int(links[slot, step])
    return found


def in_list(lists, slot):
    return next((which for which, slots in enumerate(lists) if slot in slots), None)


def take(links, lists, n, blocked, which):
    flags = np.zeros(CAPACITY, np.int32)
    flags[list(blocked)] = 1
    out = np.full(CAPACITY, -1, np.int32)
    found = unlink_oldest(links, CAPACITY + which, n, flags, out)
    expected = [slot for slot in lists[which] if slot not in blocked][:n]
    assert out[:found].tolist() == expected
    lists[which] = [slot for slot in lists[which] if slot not in expected]


def apply(links, lists, verb, arguments):
    if verb == "link" and in_list(lists, arguments[0]) is None:
        slot, which = arguments
        link_newest(links, CAPACITY + which, slot)
        lists[which].append(slot)
    elif verb == "link all":
        slots, which = arguments
        slots = [slot for slot in slots if in_list(lists, slot) is None]
        link_all_newest(links, CAPACITY + which, np.array(slots, np.int32))
        lists[which] += reversed(slots)  # the first one newest
    elif verb in ("unlink", "move") and in_list(lists, arguments[0]) is not None:
        slot = arguments[0]
        which = in_list(lists, slot)
        lists[which].remove(slot)
        if verb == "unlink":
            unlink(links, slot)
        else:
            move_newest(links, CAPACITY + which, slot)
            lists[which].append(slot)
    elif verb == "take":
        take(links, lists, *arguments)
    elif verb == "clear":
        clear_links(links, CAPACITY)
        lists[:] = [[], []]


@given(st.lists(OPERATIONS, max_size=60))
def test_links_equal_lists(operations):
    links, lists = make_links(CAPACITY, 2), [[], []]
    for verb, *arguments in operations:
        apply(links, lists, verb, arguments)
        for which in (0, 1):
            assert content(links, which, NEWER) == lists[which]
            assert content(links, which, OLDER) == lists[which][::-1]
