"""evoke-vllm's configuration: its keys, its variables, and what it never used."""

import pytest

from hotset.adapter.config import read_config
from hotset.adapter.evoke import asks_for_evoke, evoke_policy
from hotset.policies import POLICIES, PolicyError

README = {
    "cpu_bytes_to_use": 32 * 1024**3,
    "block_size": 256,
    "store_threshold": 2,
    "offload_prompt_only": True,
    "evoke": {
        "w_recency": 0.5,
        "w_reuse": 0.5,
        "recency_half_life": 64,
        "source_floors": {"system": 0.6, "user": 0.6, "assistant": 0.5},
    },
}


def read(extra_config, environment=()):
    faults = []
    policy = evoke_policy(extra_config, dict(environment), faults)
    return (None if policy is None else policy[0].label(policy[1])), faults


def test_the_configuration_of_its_readme_is_ours_as_it_is():
    config = read_config(README, {})
    assert config.describe() == "policy relevance, admission threshold"
    assert config.params == POLICIES.parse("relevance")[1]


def test_every_key_has_its_parameter():
    given = {
        "w_recency": 0.25,
        "w_reuse": "0.75",
        "recency_half_life": 10,
        "w_attention": 0,
        "w_coherence": 0.0,
        "source_floors": {"document": 0.9},
    }
    label, faults = read({"evoke": given, "max_tracker_size": 500})
    assert faults == []
    assert (
        POLICIES.parse(label)[1]
        == POLICIES.parse(
            "relevance:w_recency=0.25,w_reuse=0.75,half_life=10,floor_document=0.9,"
            "floor_system=0,floor_user=0,floor_assistant=0,tracker_size=500"
        )[1]
    )


def test_variables_override_the_keys():
    environment = {
        "EVOKE_W_RECENCY": "0.125",
        "EVOKE_RECENCY_HALF_LIFE": "0",
        "EVOKE_FLOOR_USER": "0.25",
        "EVOKE_W_ATTENTION": "0",
        "EVOKE_UNRELATED": "x",
    }
    label, faults = read({"evoke": {"w_recency": 0.5}}, environment)
    assert faults == []
    assert label == "relevance:w_recency=0.125,half_life=1.0,floor_user=0.25"


@pytest.mark.parametrize("name", ["w_attention", "w_coherence"])
def test_what_it_never_used_is_refused_with_the_reason(name):
    for value in (0.2, "0.2", -1):
        label, (fault,) = read({"evoke": {name: value}})
        assert label is None
        assert (
            f'"evoke": "{name}" is {value!r}: vLLM\'s CPU tier has no signal' in fault
        )
        assert "allowed is 0" in fault
    label, (fault,) = read({"evoke": {}}, {f"EVOKE_{name.upper()}": "1"})
    assert f"the variable EVOKE_{name.upper()} is '1'" in fault


def test_everything_wrong_is_said_at_once():
    given = {"w_recensy": 1, "w_reuse": [], "source_floors": {"tool": 0.5, "user": "x"}}
    label, faults = read({"evoke": given}, {"EVOKE_FLOOR_PLANNER": "1"})
    assert label is None
    assert len(faults) == 5
    text = "\n".join(faults)
    assert "no key 'w_recensy'; did you mean 'w_recency'?" in text
    assert '"evoke": "w_reuse" is []: a number is needed' in text
    assert "'tool': floors are for system, user, assistant, document" in text
    assert "the variable EVOKE_FLOOR_PLANNER: floors are for" in text
    assert "'user' is 'x': a number is needed" in text


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ([1], '"evoke" is [1]: an object is needed'),
        ({"w_recency": 1.5}, "w_recency=1.5: allowed is 0 to 1"),
        ({"w_recency": float("nan")}, "w_recency=nan: allowed is 0 to 1"),
        ({"recency_half_life": float("inf")}, "half_life=inf: allowed is 1 to"),
        ({"source_floors": 3}, '"source_floors" is 3: an object is needed'),
        ({"source_floors": {"user": 2}}, "floor_user=2.0: allowed is 0 to 1"),
        ({"w_reuse": True}, '"w_reuse" is True: a number is needed'),
    ],
)
def test_values_out_of_range(given, fault):
    label, faults = read({"evoke": given})
    assert label is None
    assert any(fault in line for line in faults), faults


def test_who_chooses_the_policy():
    variable = {"EVOKE_W_REUSE": "0.25"}
    assert not asks_for_evoke({}, {"EVOKE_UNRELATED": "1", "EVOKE_FLOOR_": "1"})
    assert asks_for_evoke({}, {"EVOKE_FLOOR_USER": "1"})
    assert read_config({}, {}).policy.name == "lru"
    assert read_config({"evoke": {}}, {}).policy.name == "relevance"
    assert read_config({}, variable).params.w_reuse == 0.25
    named = {"hotset": {"policy": "marconi"}}
    assert read_config(named, variable).policy.name == "marconi"
    with pytest.raises(PolicyError, match='"evoke" and "hotset": "policy" both choose'):
        read_config({**named, "evoke": {}}, {})


def test_faults_of_both_keys_come_together():
    with pytest.raises(PolicyError) as raised:
        read_config({"hotset": {"polcy": 1}, "evoke": {"w_attention": 1}}, {})
    assert "did you mean 'policy'" in str(raised.value)
    assert "allowed is 0" in str(raised.value)


def test_a_half_life_is_read_as_the_original_reads_it():
    """Its whole part, at least 1."""
    for given, used in ((64.9, 64.0), ("10.5", 10.0), (0.3, 1.0)):
        label, faults = read({"evoke": {"recency_half_life": given}})
        assert faults == []
        assert POLICIES.parse(label)[1].half_life == used
    label, faults = read({"evoke": {}}, {"EVOKE_RECENCY_HALF_LIFE": "nan"})
    assert label is None
    assert "half_life=nan" in faults[0]


def test_no_floors_are_the_default_ones():
    assert read({"evoke": {"source_floors": None}}) == read({"evoke": {}})


def test_everything_wrong_with_its_numbers_is_said_at_once():
    given = {"w_recency": 2, "w_reuse": -1, "source_floors": {"user": 3}}
    _, faults = read({"evoke": given})
    assert len(faults) == 3
