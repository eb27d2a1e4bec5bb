"""The search: seeded, inside the declared ranges, better than the defaults."""

import dataclasses
import math

import numpy as np
import pytest

from hotset.policies import POLICIES
from hotset.sim.search import _changed, search, tuned_fields

TUNED = [name for name in POLICIES.names() if tuned_fields(POLICIES.get(name))]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", TUNED)
def test_every_value_met_is_allowed(name):
    """Parameters check themselves when they are made; some change in each step."""
    spec = POLICIES.get(name)
    fields, chance, params = tuned_fields(spec), rng(1), spec.params()
    met = {field.name: set() for field in fields}
    for step in range(1000):
        params = _changed(params, fields, step % 2 == 0, chance)
        for field in fields:
            met[field.name].add(getattr(params, field.name))
    fixed = {f.name for f in dataclasses.fields(spec.params)} - set(met)
    assert all(getattr(params, f) == getattr(spec.params(), f) for f in fixed)
    for field in fields:
        choices = field.metadata["choices"]
        if choices is not None:
            assert met[field.name] == set(choices)
        elif not isinstance(field.default, bool):
            assert len(met[field.name]) >= 4, field.name


def test_a_wide_range_is_searched_in_every_order_of_magnitude():
    """A distance of 0 to 1,000,000 requests: drawn evenly, all would be above 1,000."""
    spec = POLICIES.get("guard")
    fields = [field for field in tuned_fields(spec) if field.name == "distance"]
    chance = rng(2)
    found = [_changed(spec.params(), fields, True, chance).distance for _ in range(600)]
    orders = {int(math.log10(value)) for value in found if value > 0}
    assert orders >= set(range(6))
    assert 0 in found


def toy(params):
    """Best at a distance of 500 and a growth of 4."""
    off = abs(math.log((params.distance + 1) / 501)) + abs(math.log(params.growth / 4))
    return -int(1000 * off)


def test_it_improves_on_the_defaults():
    spec = POLICIES.get("guard")
    found = search(spec, toy, 200, rng())
    assert toy(found) > toy(spec.params()) / 10
    assert search(spec, toy, 200, rng()) == found


def test_trials_are_counted_and_the_defaults_come_first():
    spec, judged = POLICIES.get("guard"), []

    def score(params):
        judged.append(params)
        return 0

    assert search(spec, score, 9, rng()) == spec.params()
    assert judged[0] == spec.params()
    assert 2 <= len(judged) <= 9
    assert len(set(judged)) == len(judged)
    judged.clear()
    assert search(spec, score, 1, rng()) == spec.params()
    assert judged == []
    unbounded = POLICIES.get("unbounded")
    assert search(unbounded, score, 9, rng()) == unbounded.params()
