"""Profiles: the bundled ones, and what is wrong with others."""

import json
import re

import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.profile import bundled_profiles, load_profile

GOOD = """
name = "x"
summary = "a machine"
estimated = false
[model]
kv_bytes_per_token = 1000
[gpu]
pool_tokens = 4096
step_tokens = 512
max_sequences = 8
[cost]
start_s = 0.0
token_s = 1e-4
pair_s = 0
decode_s = 0.01
sequence_s = 0
context_s = 0
[links.cpu]
load_bytes_per_s = 1e9
store_bytes_per_s = 1e9
"""


def read(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_profile(str(path))


@pytest.mark.parametrize("name", bundled_profiles())
def test_bundled_profiles(name):
    profile = load_profile(name)
    assert profile.name == name
    assert profile.engine(512, 512).gpu_blocks == profile.pool_tokens // 512 + 1
    assert profile.is_estimated == bool(profile.arithmetic)


def test_estimates_are_what_their_arithmetic_says():
    """Each line is evaluated: its names and units are comments in the formula."""
    profile = load_profile("h100x8-70b-fp8")
    flops, bytes_per_s = 8 * 1979e12 * 0.5, 8 * 3.35e12 * 0.7
    expected = {
        "start_s": 80 * 2 * 20e-6 + 2e-3,
        "token_s": 2 * 70.6e9 / flops,
        "pair_s": 4 * 64 * 128 * 80 / (8 * 989e12 * 0.5),
        "decode_s": 70.6e9 / bytes_per_s + 80 * 2 * 10e-6 + 2e-3,
        "sequence_s": 1e-5,
        "context_s": 2 * 80 * 8 * 128 * 2 / bytes_per_s,
    }
    for name, value in expected.items():
        assert getattr(profile.cost, name) == pytest.approx(value, rel=1e-3), name
        assert any(line.startswith(name) for line in profile.arithmetic)
    assert profile.kv_bytes_per_token == 2 * 80 * 8 * 128 * 2
    room = 8 * 80e9 * 0.9 - 70.6e9 - 8 * 4e9
    assert profile.pool_tokens == int(room / 327_680) // 512 * 512


def test_a_profile_of_one_s_own(tmp_path):
    profile = read(tmp_path, GOOD)
    assert profile.cpu.load.bytes_per_s == 1e9
    assert not profile.is_async


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("estimated = false", "estimated = true", "shows its arithmetic"),
        ("estimated = false", "", "estimated is None"),
        (
            "pool_tokens",
            "pool_token",
            "has no 'pool_token'; did you mean 'pool_tokens'",
        ),
        ("1e-4", "-1e-4", "token_s is -0.0001: a number from 0 to"),
        ("step_tokens = 512", "step_tokens = 0.5", "step_tokens is 0.5"),
        ("[links.cpu]", "[links.gpu]", "has no 'gpu'; did you mean 'cpu'"),
        (
            "load_bytes_per_s = 1e9",
            "load_bytes_per_s = 0",
            "bytes_per_s is 0: a number from 1 to",
        ),
        ("[model]", "[model", "not TOML"),
        ("decode_s = 0.01", "", r"decode_s is None: a number from 0"),
        ("decode_s = 0.01", "decode_s = inf", r"\[cost\] decode_s is inf: a number"),
        ("decode_s = 0.01", "decode_s = nan", "decode_s is nan: a number"),
        ("decode_s = 0.01", "decode_s = 1e308", r"decode_s is 1e\+308: a number"),
        ("decode_s = 0.01", "decode_s = true", "decode_s is True: a number"),
        ("store_bytes_per_s = 1e9", "store_bytes_per_s = -inf", "_per_s is -inf"),
        ("store_bytes_per_s = 1e9", "store_bytes_per_s = 1e-9", "_per_s is 1e-09"),
        ("_token = 1000", "_token = 1000000000000", "from 1 to 67,108,864 is needed"),
        ("pool_tokens = 4096", "pool_tokens = " + "9" * 5000, "not TOML"),
        ("[gpu]", "[gpus]", "has no 'gpus'; did you mean 'gpu'"),
        ("estimated = false", "estimated = false\narithmetic = 5", "arithmetic is 5"),
        (
            "estimated = false",
            "estimated = true\narithmetic = [5]",
            r"is \[5\]: a list",
        ),
        ('name = "x"', "name = 5", "name is 5: a line of text"),
        ('name = "x"', 'name = "x\\ny"', "a line of text is needed"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, old, new, message):
    with pytest.raises(PolicyError, match=message) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_fault(tmp_path):
    assert read(tmp_path, "\ufeff" + GOOD).name == "x"


def test_a_link_may_take_no_time(tmp_path):
    text = GOOD.replace("store_bytes_per_s = 1e9", "store_bytes_per_s = inf")
    profile = read(tmp_path, text)
    assert profile.cpu.store.seconds(1 << 60) == 0.0
    told = json.loads(json.dumps(profile.as_json(), allow_nan=False))
    assert told["cpu"]["store"]["bytes_per_s"] is None
    assert told["cpu"]["load"]["bytes_per_s"] == 1e9


def test_unknown_names():
    with pytest.raises(PolicyError, match=re.escape("did you mean 'h100x8-70b-fp8'?")):
        load_profile("h100x8-70b")


def test_a_step_needs_room_for_every_sequence(tmp_path):
    with pytest.raises(PolicyError, match="no room for 8 sequences"):
        read(tmp_path, GOOD).engine(16, 16, step_tokens=4)
    with pytest.raises(PolicyError, match="holds no block"):
        read(tmp_path, GOOD).engine(8192, 8192)
