"""Bounds of a gain against a plain computation, and what they mean."""

import numpy as np
import pytest

from hotset.sim.bootstrap import DRAWS, Gain, gain_of_ratio, gain_of_ttft
from hotset.sim.noise import Groups


def groups(of_request):
    of_request = np.asarray(of_request)
    return Groups("sessions", of_request, np.bincount(of_request))


def drawn(count, seed):
    rng = np.random.default_rng([seed, count])
    return [[int(rng.random() * count) for _ in range(count)] for _ in range(DRAWS)]


def test_a_ratio_against_plain_loops():
    rng = np.random.default_rng(5)
    of_request = rng.integers(0, 12, 200)
    weights = rng.integers(1, 1000, 200).astype(float)
    one, other = (rng.integers(0, 500, 200).astype(float) for _ in range(2))
    found = gain_of_ratio(groups(of_request), weights, one, other, 3)
    ratios = []
    for sample in drawn(12, 3):
        more = whole = 0
        for group in sample:
            members = of_request == group
            more += int((one - other)[members].sum())
            whole += int(weights[members].sum())
        ratios.append(more / whole)
    assert found.value == (one - other).sum() / weights.sum()
    assert found.lower == pytest.approx(np.quantile(ratios, 0.01), rel=1e-12)
    assert found.upper == pytest.approx(np.quantile(ratios, 0.99), rel=1e-12)


def test_ttft_against_plain_loops():
    rng = np.random.default_rng(6)
    of_request = rng.integers(0, 9, 120)
    one, other = rng.exponential(1.0, 120), rng.exponential(1.5, 120)
    found = gain_of_ttft(groups(of_request), one, other, 2)
    gains = []
    for sample in drawn(9, 2):
        slow = []
        for values in (one, other):
            many = sorted(v for g in sample for v in values[of_request == g])
            rank = int(np.ceil(0.95 * len(many) - 1e-9)) - 1
            slow.append(many[rank])
        gains.append((slow[1] - slow[0]) / slow[1])
    assert found.lower == pytest.approx(np.quantile(gains, 0.01), abs=1e-12)
    assert found.upper == pytest.approx(np.quantile(gains, 0.99), abs=1e-12)


def test_equal_runs_have_no_gain():
    values, weights = np.arange(50.0), np.full(50, 60.0)
    of = groups(np.arange(50) // 2)
    assert gain_of_ratio(of, weights, values, values, 0) == Gain(0, 0, 0)
    assert gain_of_ttft(of, values, values, 0) == Gain(0, 0, 0)


def test_one_group_tells_nothing():
    of = groups(np.zeros(9, int))
    found = gain_of_ratio(of, np.ones(9), np.ones(9), np.zeros(9), 0)
    assert (found.value, found.lower, found.upper) == (1.0, -1.0, 1.0)
    assert gain_of_ttft(of, np.ones(9), np.ones(9) * 2, 0).lower == -1.0


def test_many_groups_are_drawn_in_parts():
    """The bounds of a mean of many are those of the normal distribution."""
    rng = np.random.default_rng(1)
    one = rng.random(20_000)
    found = gain_of_ratio(
        groups(np.arange(20_000)), np.ones(20_000), one, np.zeros(20_000), 0
    )
    error = one.std() / np.sqrt(20_000)
    assert found.lower == pytest.approx(one.mean() - 2.326 * error, abs=0.2 * error)
    assert found.upper == pytest.approx(one.mean() + 2.326 * error, abs=0.2 * error)


def test_the_lower_bound_holds_as_often_as_it_says():
    """Of 400 samples with a known gain about one in a hundred is above it."""
    rng = np.random.default_rng(8)
    above = 0
    for seed in range(400):
        gain = rng.normal(0.02, 0.1, 60)
        found = gain_of_ratio(
            groups(np.arange(60)), np.ones(60), gain, np.zeros(60), seed
        )
        above += found.lower > 0.02
    assert above <= 16
