"""The "ssd" key: closed, with units; everything that is wrong is said at once."""

import pytest

from hotset.adapter.ssd.budget import WriteBudget
from hotset.adapter.ssd.config import SsdConfig

SAID = '"hotset": "ssd"'
LEAST = {"path": "/mnt/kv", "max_bytes": "300GiB"}


def read(**given):
    faults = []
    return SsdConfig.read({**LEAST, **given}, SAID, faults), faults


def test_two_keys_are_enough():
    config, faults = read()
    assert not faults
    assert config.max_bytes == 300 << 30 and config.min_free_bytes == 1 << 30
    assert config.mode == "write-through" and not config.ephemeral
    assert config.choice.describe() == "policy lru, admission always"
    assert config.describe().startswith("/mnt/kv, at most 322122547200 bytes")


def test_policies_and_rules_are_those_of_the_cpu_tier():
    config, faults = read(
        policy={"name": "marconi", "decay": 0.01}, admission="threshold:min_count=2"
    )
    assert not faults
    assert config.choice.policy.name == "marconi"
    assert config.choice.admission.name == "threshold"
    assert config.choice.admission_params.count == "lookup"


@pytest.mark.parametrize("cap", [0, -1, "250", True, 1.5e9, None, "1 GB/s", 1000])
def test_t62_a_cap_that_is_none(cap):
    config, faults = read(max_bytes=cap)
    assert config is None
    (fault,) = faults
    assert fault.startswith(f'{SAID}: "max_bytes" is {cap!r}: bytes from 65536')


def test_t78_a_typing_error_has_a_suggestion():
    config, faults = read(max_byte="1GiB")
    assert config is None
    assert faults == [f"{SAID} has no key 'max_byte'; did you mean 'max_bytes'?"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("path", ""),
        ("path", 7),
        ("min_free_bytes", -1),
        ("mode", "demoted"),
        ("writes_per_day_bytes", "lots"),
        ("queue_bytes", 0),
        ("threads", 1),
        ("threads", 8.0),
        ("load_deadline_s", 0),
        ("store_deadline_s", "1"),
        ("close_deadline_s", float("nan")),
        ("staging_share", 0.9),
        ("ephemeral", 1),
        ("policy", "lruu"),
        ("policy", "belady"),
        ("admission", "never"),
    ],
)
def test_values_have_ranges(key, value):
    config, faults = read(**{key: value})
    assert config is None
    (fault,) = faults
    assert fault.startswith(f'{SAID}: "{key}"')


def test_all_faults_are_said_at_once():
    faults = []
    assert SsdConfig.read({"mode": "x", "threads": 0}, SAID, faults) is None
    assert len(faults) == 4  # path, max_bytes, mode, threads


def test_a_value_that_is_no_object():
    faults = []
    assert SsdConfig.read("/mnt/kv", SAID, faults) is None
    assert faults == [f"{SAID} is '/mnt/kv': an object is needed"]


def test_the_budget_holds_in_any_day():
    """Spent as fast as it comes, in any window of 24 hours."""
    a_day, size = 24_000_000, 10_000
    budget = WriteBudget(a_day, 0.0)
    spent = []
    for step in range(3 * 288):
        now_s = step * 300.0
        number = budget.affords(size, now_s)
        budget.spend(number * size)
        spent.append(number * size)
    windows = [sum(spent[i : i + 288]) for i in range(len(spent) - 288)]
    assert max(windows) <= a_day
    assert min(windows[288:]) > 0.94 * a_day


def test_a_budget_goes_on_after_a_restart():
    budget = WriteBudget(24_000, 0.0)
    budget.spend(1000)
    later = WriteBudget(24_000, 50.0)
    later.restore(budget.level, away_s=0.0)
    assert later.affords(100, 50.0) == 0
    later.restore(budget.level, away_s=-5.0)  # a clock that was set back
    assert later.affords(100, 50.0) == 0
    later.restore(budget.level, away_s=1e9)
    assert later.affords(1000, 50.0) == 1
