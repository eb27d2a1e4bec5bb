import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.intern import Codes, densify, intern_ids, narrow

rows_of_ids = st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=12)
integers = st.integers(-(2**63), 2**63 - 1)


def first_appearance(keys):
    codes = {}
    return [codes.setdefault(key, len(codes)) for key in keys]


def csr(rows):
    sizes = [len(row) for row in rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return np.array([i for row in rows for i in row], np.int64), offsets


@given(st.lists(st.one_of(st.integers(-5, 5), integers)))
def test_densify_numbers_by_first_appearance(values):
    codes, count = densify(np.array(values, np.int64))
    assert codes.tolist() == first_appearance(values)
    assert count == len(set(values))


@given(rows_of_ids)
def test_unchained_ids_are_interned_behind_their_parents(rows):
    interned = intern_ids(*csr(rows), chained=False)
    keys = [tuple(row[: i + 1]) for row in rows for i in range(len(row))]
    assert interned.ids.tolist() == first_appearance(keys)
    assert interned.num_blocks == len(set(keys))
    assert interned.num_unchained == 0


@given(rows_of_ids)
def test_chained_ids_fall_back_where_the_chain_is_broken(rows):
    interned = intern_ids(*csr(rows), chained=True)
    parents = {}
    for row in rows:
        for parent, child in zip([None, *row], row, strict=False):
            parents.setdefault(child, set()).add(parent)
    broken = sum(len(found) > 1 for found in parents.values())
    assert interned.num_unchained == broken
    keys = [tuple(row[: i + 1]) for row in rows for i in range(len(row))]
    assert interned.ids.tolist() == first_appearance(keys)


def test_an_id_twice_in_a_request_is_two_blocks():
    interned = intern_ids(*csr([[1, 2, 1], [1, 2, 1]]), chained=False)
    assert interned.ids.tolist() == [0, 1, 2, 0, 1, 2]


def test_strings_and_integers_never_mix():
    codes = Codes()
    assert [codes.code(x) for x in ("1", 1, "1", 2**70)] == [0, 1, 0, 2]
    assert len(codes) == 3


def test_narrow_keeps_what_does_not_fit():
    assert narrow(np.array([2**31 - 1])).dtype == np.int32
    assert narrow(np.array([2**31])).dtype == np.int64
