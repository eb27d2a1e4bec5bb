"""Names and parameters as a user writes them, and what is said of wrong ones."""

import dataclasses

import pytest

from hotset.policies import ADMISSIONS, POLICIES, PolicyError, PolicySpec
from hotset.policies.base import Params, param
from hotset.policies.driver import PolicyDriver
from hotset.policies.registry import Registry
from hotset.policies.verbs import Kernels, register_kernels


@pytest.mark.parametrize("registry", [POLICIES, ADMISSIONS])
def test_every_name_parses_to_its_defaults(registry):
    for name in registry.names():
        spec, params = registry.parse(name)
        assert spec.name == name
        assert params == spec.params()
        assert spec.summary


def test_the_registered_names():
    names = ["lru", "fifo", "marconi", "relevance", "belady", "unbounded"]
    assert POLICIES.names()[:6] == names
    assert ADMISSIONS.names()[:2] == ["always", "threshold"]


@pytest.mark.parametrize("registry", [POLICIES, ADMISSIONS])
def test_a_label_parses_back(registry):
    for name in registry.names():
        spec = registry.get(name)
        for field in dataclasses.fields(spec.params):
            values = list(field.metadata["choices"] or [field.metadata["low"]])
            if isinstance(field.default, bool):
                values = [True, False]
            for value in values:
                params = dataclasses.replace(spec.params(), **{field.name: value})
                assert registry.parse(spec.label(params)) == (spec, params)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lur", "unknown policy 'lur'; did you mean 'lru'?"),
        ("marcony", "unknown policy 'marcony'; did you mean 'marconi'?"),
        ("", "unknown policy ''; known: adaptive, arc, belady, fifo"),
        ("zzz", "unknown policy 'zzz'; known: adaptive, arc, belady, fifo"),
        ("LRU", "unknown policy 'LRU'"),
        ("marconi:decai=1", "no parameter 'decai'; did you mean 'decay'?"),
        ("unbounded:x=1", "policy unbounded has no parameter 'x'; it has none"),
        ("unbounded:1", "'1' is not key=value"),
        ("lru:vllm-0.32", "'vllm-0.32' is not key=value"),
        ("lru:", "'' is not key=value"),
        ("marconi:decay=-1", "policy marconi: decay=-1.0: allowed is 0 to 100"),
        ("marconi:decay=100.5", "decay=100.5: allowed is 0 to 100"),
        ("marconi:decay=nan", "decay=nan: allowed is 0 to 100"),
        ("marconi:decay=inf", "decay=inf: allowed is 0 to 100"),
        ("marconi:decay=-inf", "decay=-inf: allowed is 0 to 100"),
        ("marconi:decay=", "decay=: a number is needed"),
        ("marconi:decay=high", "decay=high: a number is needed"),
        ("marconi:tracker_size=1.5", "tracker_size=1.5: a whole number is needed"),
        ("marconi:tracker_size=0", "tracker_size=0: allowed is 1 to 1e+08"),
        ("marconi:reuse=square", "reuse='square': allowed are linear, log, none"),
        ("marconi:decay=1,decay=2", "decay is given twice"),
        ("marconi:decay=1,2", "'2' is not key=value"),
        ("marconi:decay=1,", "'' is not key=value"),
        ("lru:order=tail", "order='tail': allowed are auto, tail-first"),
        ("belady:bypass=maybe", "bypass=maybe: allowed are true and false"),
        ("relevance:half_life=0.5", "half_life=0.5: allowed is 1 to 1e+09"),
    ],
)
def test_wrong_policies_say_what_is_right(text, message):
    with pytest.raises(PolicyError) as caught:
        POLICIES.parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("treshold", "unknown admission 'treshold'; did you mean 'threshold'?"),
        ("threshold:0", "min_count=0: allowed is 1 to 1000"),
        ("threshold:2,count=never", "count='never': allowed are auto, lookup, offer"),
        ("threshold:2,3", "'3' is not key=value"),
        ("threshold:min_count=2,min_count=3", "min_count is given twice"),
        ("always:2", "admission always has no parameters"),
    ],
)
def test_wrong_admissions_say_what_is_right(text, message):
    with pytest.raises(PolicyError) as caught:
        ADMISSIONS.parse(text)
    assert message in str(caught.value)


def test_forms_that_are_right():
    assert ADMISSIONS.parse("threshold:3")[1].min_count == 3
    assert ADMISSIONS.parse("threshold:3,count=lookup")[1].count == "lookup"
    assert POLICIES.parse("lru:order=vllm-0.32")[1].order == "vllm-0.32"
    assert POLICIES.parse(" lru : order = tail-first ")[1].order == "tail-first"
    assert POLICIES.parse("belady:bypass=False")[1].bypass is False
    assert POLICIES.parse("marconi:decay=1e-3")[1].decay == 0.001


def test_parameters_are_checked_when_built_as_well():
    params = POLICIES.get("marconi").params
    for wrong in (float("nan"), float("inf"), -1, "1", None, True):
        with pytest.raises(PolicyError, match="decay"):
            params(decay=wrong)
    with pytest.raises(PolicyError, match="tracker_size"):
        params(tracker_size=2.0)
    with pytest.raises(PolicyError, match="bypass"):
        POLICIES.get("belady").params(bypass=1)


def test_a_name_is_registered_once():
    @dataclasses.dataclass(frozen=True)
    class OneParams(Params):
        size: int = param(1, "a size", low=1)

    registry = Registry("policy")
    spec = PolicySpec("one", "for tests", OneParams, make=lambda *_: None)
    registry.add(spec)
    with pytest.raises(ValueError, match="'one' is registered already"):
        registry.add(spec)
    assert registry.parse("one:size=7")[1].size == 7
    with pytest.raises(PolicyError, match="size=0: allowed is 1 or more"):
        registry.parse("one:size=0")


def test_a_state_type_has_one_set_of_kernels():
    state = POLICIES.get("lru").make(POLICIES.get("lru").params(), 2)
    with pytest.raises(ValueError, match="LruState has kernels already"):
        register_kernels(type(state), Kernels())


def test_tiers_that_cannot_be_built():
    for name in ("belady", "unbounded"):
        spec, params = POLICIES.parse(name)
        with pytest.raises(PolicyError, match=f"{name} cannot run in a server"):
            PolicyDriver(spec, params, 4)
    spec, params = POLICIES.parse("lru")
    for capacity in (0, -1):
        with pytest.raises(PolicyError, match="at least 1 is needed"):
            PolicyDriver(spec, params, capacity)
