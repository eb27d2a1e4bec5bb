"""The search space: every value is allowed, what is found can be asked for again."""

import dataclasses

import optuna
import pytest
from support.tuning import plan

from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.errors import PolicyError
from hotset.sim.candidate import candidate, from_configuration, from_json
from hotset.sim.tune_plan import first_candidates, make_space

SERVABLE = [
    name
    for name in POLICIES.names()
    if not (POLICIES.get(name).offline or POLICIES.get(name).unbounded)
]


@pytest.mark.parametrize("name", SERVABLE)
def test_what_is_chosen_is_allowed_and_can_be_asked_for(name):
    space = make_space([name], ADMISSIONS.names())
    space = dataclasses.replace(space, most_keys=5000)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3))
    for _ in range(40):
        chosen = space.choose(study.ask())  # the parameters check themselves
        assert from_json(chosen.as_json()) == chosen
        values = space.values_of(chosen)
        assert space.choose(optuna.trial.FixedTrial(values)) == chosen
        size = getattr(chosen.admission_params, "max_tracker_size", 1)
        count = getattr(chosen.admission_params, "min_count", 2)
        assert size <= 5000 or count == 1
    assert space.values_of(candidate(name)) is not None


def test_what_lies_outside_cannot_be_asked_for():
    space = make_space(["guard"], ["always"])
    assert space.values_of(candidate("marconi")) is None
    assert space.values_of(candidate("guard", "threshold:2")) is None
    assert space.values_of(candidate("guard:memory=2")) is None
    assert space.values_of(candidate("guard:distance=0")) == {
        "policy": "guard",
        "guard.distance is 0": True,
        "guard.growth": 2.0,
        "admission": "always",
    }


def test_ends_and_neighbours():
    space = make_space(["guard", "marconi"], ["always", "threshold"])
    found = candidate("guard:distance=1000000,growth=3.5", "threshold:4")
    assert space.at_bounds(found) == ["guard.distance=1e+06 of 0 to 1e+06"]
    moved = [(name, value) for name, value, _ in space.neighbours(found)]
    assert moved == [
        ("guard.distance", 500_000),
        ("guard.growth", 1.75),
        ("guard.growth", 7.0),
        ("threshold.min_count", 2),
        ("threshold.min_count", 8),
        ("threshold.max_tracker_size", 32_000),
        ("threshold.max_tracker_size", 128_000),
    ]
    for name, value, other in space.neighbours(found):
        spec, _, field = name.partition(".")
        params = other.params if spec == "guard" else other.admission_params
        assert getattr(params, field) == value
    # Off is not the end of a range that is too narrow.
    assert space.at_bounds(candidate("marconi")) == []


def test_digest_covers_what_may_be_chosen():
    digests = {
        make_space(policies, rules).digest()
        for policies in ([], ["guard"], ["guard", "marconi"])
        for rules in (["always"], ["always", "threshold"])
    }
    assert len(digests) == 6


def test_first_candidates_are_in_order():
    names = ["weighted", "marconi", "guard", "relevance", "adaptive"]
    current = candidate("arc", "threshold:2")
    asked = plan(names, ("always", "threshold"), current=current)
    assert [each.label for each in first_candidates(asked)] == [
        "lru",
        "adaptive",
        "relevance",
        "marconi",
        "arc + threshold",
        "weighted",
        "guard",
    ]
    # What gains are measured from is always there.
    only = plan(["guard"], ("threshold",))
    assert first_candidates(only)[0].label == "lru"


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"policy": "guard:distance=3", "admission": "threshold:3"},
         "guard:distance=3 + threshold:min_count=3"),
        ({"policy": {"name": "guard", "distance": 3}}, "guard:distance=3"),
        ({"hotset": {"policy": "marconi"}, "store_threshold": 2},
         "marconi + threshold"),
        ({"kv_connector_extra_config": {"eviction_policy": "arc"}}, "arc"),
        ({"eviction_policy": "hotset-sieve"}, "sieve"),
        ({"cpu_bytes_to_use": 1, "store_threshold": 4, "max_tracker_size": 9},
         "lru + threshold:min_count=4,max_tracker_size=9"),
    ],
)  # fmt: skip
def test_current_configurations(values, label):
    assert from_configuration(values, "x").label == label


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "x: an object is needed"),
        ({"other": 1}, "x: no policy or admission in it"),
        ({"policy": "gard"}, "did you mean 'guard'"),
        ({"evoke": {}, "cpu_bytes_to_use": 1}, "hotset export --from"),
        ({"kv_connector": "SimpleCPUOffloadConnector"}, "hotset export --from"),
        ({"eviction_policy": "mine"}, "'mine'"),
        ({"kv_connector_extra_config": 3}, "no object"),
    ],
)
def test_what_is_no_configuration(values, said):
    with pytest.raises(PolicyError, match=said):
        from_configuration(values, "x")
