"""The noise floor: worked cases, a naive twin, groups."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Forest

from hotset.sim.noise import Groups, make_groups, noise_floor, sum_by_group


def trace_of(sessions):
    made = Forest(paths=[[0]] * len(sessions)).trace()
    object.__setattr__(made, "session", np.array(sessions, np.int64))
    return made


def test_sessions_are_the_groups_where_all_are_known():
    groups = make_groups(trace_of([5, 7, 5, 9, 7]), 1)
    assert groups.kind == "sessions"
    assert groups.input_tokens.tolist() == [4, 8, 4]
    hits = np.array([1, 2, 4, 8])
    assert sum_by_group(groups, hits).tolist() == [2, 9, 4]


@pytest.mark.parametrize(("count", "blocks"), [(3, 3), (50, 50), (1000, 50)])
def test_else_consecutive_requests(count, blocks):
    groups = make_groups(trace_of([0] * 5 + [-1] * count), 5)
    assert groups.kind == "blocks of requests"
    assert (np.diff(groups.of_request) >= 0).all()
    assert len(groups.input_tokens) == blocks
    sizes = np.bincount(groups.of_request)
    assert sizes.max() - sizes.min() <= 1


def floor_of(tokens, gains):
    one = np.array(gains, np.int64)
    groups = Groups("sessions", np.arange(len(gains)), np.array(tokens, np.int64))
    return noise_floor(groups, one, np.zeros_like(one))


def test_worked_case():
    """Gains 1 and 3 of 1,000 tokens each, 1 off the mean: 2 * sqrt(2 * 2) / 2000."""
    assert floor_of([1000, 1000], [1, 3]) == pytest.approx(0.002)
    # Gains in proportion to the tokens are no noise at all.
    assert floor_of([1000, 3000], [2, 6]) == 0.0
    assert floor_of([10, 10], [0, 10]) == 0.005
    assert floor_of([1000], [5]) == 0.005


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(-(10**6), 10**6)), min_size=2)
)
def test_equals_the_formula_in_floats(groups):
    tokens, gains = np.array(groups, np.float64).T
    off = gains - gains.sum() / tokens.sum() * tokens
    count = len(groups)
    error = math.sqrt(count / (count - 1) * (off**2).sum()) / tokens.sum()
    found = floor_of(*zip(*groups, strict=True))
    assert found == pytest.approx(min(2 * error, 0.005), rel=1e-6, abs=1e-12)
