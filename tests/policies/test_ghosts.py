"""Lists of evicted keys against Python lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.policies.ghosts import (
    ghost_add,
    ghost_drop,
    ghost_drop_oldest,
    ghost_find,
    ghost_renew,
    ghosts_clear,
    make_ghosts,
)
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.linked import NEWER

ENTRIES, LISTS = 6, 2
KEYS = st.one_of(st.integers(0, 9), st.integers(0, 3).map(lambda i: (1 << 62) + i))
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.integers(0, LISTS - 1)),
    st.tuples(st.just("drop"), KEYS),
    st.tuples(st.just("drop oldest"), st.integers(0, LISTS - 1)),
    st.tuples(st.just("renew"), KEYS),
    st.tuples(st.just("clear")),
)


def content(ghosts, which):
    """The keys of a list, oldest first."""
    sentinel = ENTRIES + which
    found, at = [], int(ghosts.links[sentinel, NEWER])
    while at != sentinel:
        found.append(int(ghosts.keys.key[at]))
        assert int(ghosts.which[at]) == which
        at = int(ghosts.links[at, NEWER])
    return found


def apply(ghosts, lists, verb, arguments):
    """Do one operation on both, where its conditions hold."""
    if verb == "clear":
        ghosts_clear(ghosts)
        lists[:] = [[] for _ in range(LISTS)]
        return
    if verb == "drop oldest":
        (which,) = arguments
        if lists[which]:
            ghost_drop_oldest(ghosts, which)
            del lists[which][0]
        return
    key = np.int64(arguments[0])
    home = next((which for which in lists if key in which), None)
    if verb == "add":
        if home is None and sum(map(len, lists)) < ENTRIES:
            entry = ghost_add(ghosts, arguments[1], key)
            assert ghost_find(ghosts, key) == entry
            lists[arguments[1]].append(int(key))
    elif home is not None:
        entry = ghost_find(ghosts, key)
        home.remove(key)
        if verb == "drop":
            ghost_drop(ghosts, entry)
        else:
            ghost_renew(ghosts, entry)
            home.append(int(key))


@settings(max_examples=200)
@given(st.lists(OPERATIONS, max_size=60))
def test_ghosts_equal_lists(operations):
    ghosts = make_ghosts(ENTRIES, LISTS)
    lists = [[] for _ in range(LISTS)]
    for verb, *arguments in operations:
        apply(ghosts, lists, verb, arguments)
        assert [content(ghosts, which) for which in range(LISTS)] == lists
        assert ghosts.size.tolist() == [len(keys) for keys in lists]
        for key in (*range(10), *((1 << 62) + i for i in range(4))):
            known = any(key in keys for keys in lists)
            assert (ghost_find(ghosts, key) != NO_ENTRY) is known
