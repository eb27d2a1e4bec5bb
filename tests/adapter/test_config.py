"""The "hotset" key: forms, defaults, and everything wrong said at once."""

import pytest
from support.tuned import tuned

from hotset.adapter.config import read_config
from hotset.adapter.stock_keys import stock_faults
from hotset.policies import PolicyError


def test_forms_of_a_policy():
    text = read_config({"hotset": {"policy": "marconi:decay=0.5,reuse=log"}})
    table = read_config(
        {"hotset": {"policy": {"name": "marconi", "decay": 0.5, "reuse": "log"}}}
    )
    assert text == table
    assert text.params.decay == 0.5
    assert text.describe() == ("policy marconi:reuse=log,decay=0.5, admission always")


def test_defaults_are_lru_and_vllms_own_threshold():
    assert read_config({}).describe() == "policy lru, admission always"
    stock = read_config({"store_threshold": 3, "max_tracker_size": 100})
    assert stock.admission_params.min_count == 3
    assert stock.admission_params.max_tracker_size == 100
    assert read_config({"store_threshold": 1}).admission.name == "always"
    ours = read_config({"store_threshold": 3, "hotset": {"admission": "always"}})
    assert ours.admission.name == "always"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"polcy": "lru"}, ["did you mean 'policy'"]),
        ({"policy": "lruu"}, ["did you mean 'lru'"]),
        ({"policy": "belady"}, ["cannot run in a server"]),
        ({"policy": "unbounded"}, ["cannot run in a server"]),
        (
            {"trusted_tags": 1, "allow_hybrid": "yes"},
            ['"trusted_tags" is 1: true or', "\"allow_hybrid\" is 'yes': true or"],
        ),
        ({"policy": 3}, ["a name or an object with a name"]),
        ({"policy": {"decay": 1}}, ["a name or an object with a name"]),
        ({"policy": {"name": "marconi", "decay": True}}, ["a number is needed"]),
        ({"policy": {"name": "marconi", "decay": float("nan")}}, ["0 to 100"]),
        (
            {"policy": {"name": "marconi", "decay": "x", "reuse": "lgo", "typo": 3}},
            ["decay=x: a number", "reuse='lgo': allowed", "no parameter 'typo'"],
        ),
        ([], ["an object is needed"]),
        (
            {"x": 1, "policy": "lru:order=lifo", "admission": "threshold:0"},
            ["no key 'x'", "allowed are auto", "allowed is 1 to 1000"],
        ),
    ],
)
def test_everything_wrong_is_said_at_once(given, said):
    with pytest.raises(PolicyError) as raised:
        read_config({"hotset": given})
    lines = str(raised.value).splitlines()
    assert len(lines) == len(said)
    for part in said:
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("hotsett", 'did you mean "hotset"?'),
        ("Hotset", 'did you mean "hotset"?'),
        ("HOTSET", 'did you mean "hotset"?'),
        ("evok", 'did you mean "evoke"?'),
        ("policy", "belongs into it"),
        ("policy_file", "belongs into it"),
        ("record", "belongs into it"),
    ],
)
def test_keys_that_were_meant_for_us_are_not_passed_over(beside, said):
    with pytest.raises(PolicyError) as raised:
        read_config({"cpu_bytes_to_use": 1, beside: {"policy": "marconi"}})
    (line,) = str(raised.value).splitlines()
    assert beside in line
    assert said in line


def test_other_keys_are_vllms_business():
    others = ("spec_name", "block_size", "secondary_tiers", "backpressure", "offload")
    assert read_config(dict.fromkeys(others, 1)).policy.name == "lru"


def test_a_watch_needs_a_file():
    with pytest.raises(PolicyError, match='is for a "policy_file"'):
        read_config({"hotset": {"watch_s": 5}})


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"offload_prompt_onyl": True}, 'did you mean "offload_prompt_only"?'),
        ({"offload_prompt_only": "no"}, "is 'no': true or false"),
        ({"blocks_per_chunks": 2}, 'did you mean "blocks_per_chunk"?'),
    ],
)
def test_vllms_own_keys_that_would_do_nothing(extra, said):
    (fault,) = stock_faults({"cpu_bytes_to_use": 1 << 30, **extra}, True)
    assert said in fault


def test_faults_of_a_policy_file_name_the_file(tmp_path):
    path = tmp_path / "tuned.json"
    path.write_text(tuned("marconi:decay=x", "threshold:0"))
    with pytest.raises(PolicyError) as raised:
        read_config({"hotset": {"policy_file": str(path)}})
    lines = str(raised.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f'"hotset": "policy_file": {path}: ') for line in lines)
