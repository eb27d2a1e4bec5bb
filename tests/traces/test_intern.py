import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.intern import Codes, densify, intern_ids, narrow, prefix_hashes

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


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_prefix_is_a_block_of_its_own_whatever_the_hash_says(rows, collides):
    raw = np.array([code for row in rows for code in row], np.int64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    prefixes = [tuple(row[: at + 1]) for row in rows for at in range(len(row))]
    numbers = {}
    expected = [numbers.setdefault(prefix, len(numbers)) for prefix in prefixes]
    with pytest.MonkeyPatch.context() as patch:
        if collides:
            patch.setattr(
                "hotset.traces.intern.prefix_hashes",
                lambda values, _: values % np.uint64(2),
            )
        found = intern_ids(raw, offsets, chained=False)
    assert found.ids.tolist() == expected
    assert found.num_blocks == len(numbers)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=6), min_size=1))
def test_hashes_of_prefixes_equal_their_naive_twin(rows):
    def mixed(value):
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    expected = []
    for row in rows:
        total = 0
        for depth, value in enumerate(row):
            total = (total + mixed(value) * (mixed(depth) | 1)) % 2**64
            expected.append(total)
    values = np.array([value for row in rows for value in row], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    assert prefix_hashes(values, offsets).tolist() == expected
