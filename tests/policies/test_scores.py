"""Scores that policies state, against the formulas of their documentation."""

import math

import pytest
from contract.serving import make_driver, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_admission import NaiveAlways
from oracles.naive_policies import naive_policy
from strategies import forests

from hotset.policies.request import SOURCE_TYPES

score_settings = settings(max_examples=40)


def pair(data, text):
    """A driver and a twin that served the same requests; both fit all of them."""
    forest = data.draw(forests(max_requests=30, tags=True))
    capacity = data.draw(st.integers(12, 30))
    twin = NaiveCache(naive_policy(text, forest.paths), NaiveAlways(), capacity, 4)
    driver = make_driver(text, capacity)
    for r, path in enumerate(forest.paths):
        code, priority = forest.sources[r], forest.priorities[r]
        serve(driver, path, source_type=code, priority=priority)
        source = SOURCE_TYPES[code] if code >= 0 else None
        twin.step(NaiveRequest(path, 1, source=source, priority=priority))
    assert {key for key in twin.resident if key in driver} == twin.resident
    return driver, twin


@pytest.mark.parametrize(
    "text",
    [
        "marconi",
        "marconi:reuse=log,decay=0.3",
        "marconi:reuse=none,decay=2.5,depth_weight=0.4",
        "marconi:decay=0.01,depth_weight=3,tracker_size=7",
    ],
)
@score_settings
@given(data=st.data())
def test_marconi_scores_are_the_product(text, data):
    """Kept as a logarithm without the part that all share; stated as the product."""
    driver, twin = pair(data, text)
    keys = sorted(twin.resident)
    for key, score in zip(keys, driver.scores(keys).tolist(), strict=True):
        expected = twin.policy.worth(key, twin.now)
        assert math.isclose(score, expected, rel_tol=1e-12), key


@pytest.mark.parametrize(
    "text", ["relevance", "relevance:half_life=1,floor_rule=clamp,tracker_size=5"]
)
@score_settings
@given(data=st.data())
def test_relevance_scores_are_the_formula(text, data):
    driver, twin = pair(data, text)
    keys = sorted(twin.resident)
    expected = [twin.policy.score(key, twin.now) for key in keys]
    assert driver.scores(keys).tolist() == expected


def test_scores_of_policies_without_any_are_zero():
    for name in ("lru", "fifo"):
        driver = make_driver(name, 4)
        serve(driver, [1, 2])
        assert driver.scores([1, 2]).tolist() == [0.0, 0.0]
