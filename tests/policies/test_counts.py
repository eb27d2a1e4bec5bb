"""Bounded tables of counts against dicts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.naive_admission import HotTracker, RecentTracker

from hotset.policies.counts import (
    count_hot,
    count_of,
    count_offer,
    count_recent,
    count_up_to,
    counts_clear,
    counts_halve,
    make_counts,
)

# Small ids, ids that differ in high bits only, and the widest ones.
IDS = st.one_of(
    st.integers(0, 11),
    st.integers(0, 5).map(lambda i: i << 31),
    st.integers(0, 5).map(lambda i: (1 << 63) - 1 - i),
)
BOUNDS = st.integers(1, 9)
table_settings = settings(max_examples=150)


def check(table, counts, seen, bound):
    assert table.numbers[0] == len(counts) <= bound
    for key in seen:
        assert count_of(table, key) == counts.get(key, 0), key


@table_settings
@given(BOUNDS, st.lists(IDS, max_size=60))
def test_count_recent_equals_an_ordered_dict(bound, keys):
    table, model = make_counts(bound), RecentTracker(bound)
    for key in keys:
        model.see(key)
        assert count_recent(table, key) == model.of(key)
        check(table, model.counts, set(keys), bound)


@table_settings
@given(BOUNDS, st.lists(IDS, max_size=60))
def test_count_hot_equals_a_dict(bound, keys):
    table, model = make_counts(bound), HotTracker(bound)
    for key in keys:
        model.see(key)
        assert count_hot(table, key) == model.counts.get(key, 0)
        check(table, model.counts, set(keys), bound)


@table_settings
@given(BOUNDS, st.lists(st.lists(IDS, unique=True, max_size=12), max_size=12))
def test_count_offer_equals_an_ordered_dict(bound, offers):
    table, model = make_counts(bound), RecentTracker(bound)
    seen = {key for keys in offers for key in keys}
    for keys in offers:
        model.offer(keys)
        count_offer(table, np.array(keys, np.int64))
        check(table, model.counts, seen, bound)


@table_settings
@given(BOUNDS, st.lists(IDS, max_size=30), st.lists(IDS, max_size=30))
def test_a_cleared_table_is_a_new_one(bound, before, after):
    used, fresh = make_counts(bound), make_counts(bound)
    for key in before:
        count_recent(used, key)
    counts_clear(used)
    for key in after:
        assert count_recent(used, key) == count_recent(fresh, key)
    for key in before + after:
        assert count_of(used, key) == count_of(fresh, key)


def test_an_offer_longer_than_the_table_counts_its_first_keys():
    # Bound 3, offer of 5: three are counted, none of them at another's cost.
    table = make_counts(3)
    for _ in range(2):
        count_offer(table, np.arange(5, dtype=np.int64))
    assert [count_of(table, key) for key in range(5)] == [2, 2, 2, 0, 0]


def test_an_offer_spares_what_it_knows():
    # 7 and 8 are there, 7 older. The offer knows 7, so the new 9 takes 8's place.
    table = make_counts(2)
    count_offer(table, np.array([7], np.int64))
    count_offer(table, np.array([8], np.int64))
    count_offer(table, np.array([9, 7], np.int64))
    assert [count_of(table, key) for key in (7, 8, 9)] == [2, 0, 1]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_many_keys_keep_their_counts(dtype):
    rng = np.random.default_rng(17)
    table, model = make_counts(500), RecentTracker(500)
    for key in rng.zipf(1.3, 4000).clip(0, 2000).astype(dtype):
        count_recent(table, key)
        model.see(int(key))
    for key in range(2001):
        assert count_of(table, key) == model.of(key), key


@table_settings
@given(BOUNDS, st.lists(st.one_of(IDS, st.just("halve")), max_size=60))
def test_counts_up_to_a_most_and_halved(bound, keys):
    table, model = make_counts(bound), RecentTracker(bound)
    for key in keys:
        if key == "halve":
            counts_halve(table)
            for known in model.counts:
                model.counts[known] //= 2
        else:
            count_up_to(table, key, 3)
            model.see(key)
            model.counts[key] = min(model.counts[key], 3)
        seen = {key for key in keys if key != "halve"}
        check(table, model.counts, seen, bound)
