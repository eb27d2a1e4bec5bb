"""Request tags: what counts, what is refused, and that nothing breaks a request."""

import logging
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.adapter import tags as module
from hotset.adapter.tags import FIELDS, TagReader, Tags
from hotset.policies.request import SOURCE_TYPES

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=80),
    st.sampled_from(["1.5", "nan", "high", "\ud800", "a\nb", "user", "system", ""]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
KNOWN = [
    "source_type",
    "priority",
    "session",
    "ttl_s",
    "end_session",
    "tenant",
    "evoke_session",
]
OBJECTS = st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=9), JSON)
PARAMETERS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {}, optional={"hotset": OBJECTS | JSON, "evoke": OBJECTS | JSON}
    ),
)


def read(hotset=None, evoke=None, trusted=False, reader=None):
    reader = reader or TagReader(trusted)
    return reader.read({"hotset": hotset, "evoke": evoke}), reader


def assert_valid(tags):
    assert -1 <= tags.source_type < len(SOURCE_TYPES)
    assert module.MIN_PRIORITY <= tags.priority <= module.MAX_PRIORITY
    assert (tags.priority * module.PRIORITY_STEPS).is_integer()
    for name in (tags.session, tags.tenant):
        assert name is None or (0 < len(name) <= module.MAX_NAME and name.isprintable())
        (name or "").encode()
    if tags.ttl_s is not None:
        assert module.MIN_TTL_S <= tags.ttl_s <= module.MAX_TTL_S
    assert isinstance(tags.end_session, bool)


@settings(max_examples=400, deadline=None)
@given(sent=st.lists(PARAMETERS, max_size=6), trusted=st.booleans())
def test_any_json_gives_valid_tags(sent, trusted):
    """Also what is wrong is counted under one of few names, whatever clients send."""
    reader = TagReader(trusted)
    for parameters in sent:
        tags = reader.read(parameters)
        assert_valid(tags)
        if not trusted:
            assert tags.tenant is None
            assert not tags.end_session
    assert set(reader.invalid) <= set(FIELDS)


@settings(deadline=None)
@given(value=JSON, key=st.sampled_from(KNOWN[:-1]))
def test_a_wrong_tag_leaves_the_others_alone(value, key):
    good = {
        "source_type": "user",
        "priority": 2,
        "session": "s",
        "ttl_s": 60,
        "end_session": False,
        "tenant": "t",
    }
    expected, _ = read(good, trusted=True)
    assert expected == Tags(1, 2.0, "s", 60.0, False, "t")
    got, _ = read({**good, key: value}, trusted=True)
    changed = {key, "priority"} if value is True else {key}
    for name in set(good) - changed:
        assert getattr(got, name) == getattr(expected, name)


@pytest.mark.parametrize(
    ("sent", "priority"),
    [
        (1, 1.0),
        (1.5, 1.5),
        (0, 0.125),
        (1e-300, 0.125),
        (8, 8.0),
        (1e300, 8.0),
        (2.06, 2.0),
        (2.07, 2.125),
    ],
)
def test_priorities_are_clamped_and_rounded_to_eighths(sent, priority):
    tags, reader = read({"priority": sent})
    assert tags.priority == priority
    assert not reader.invalid


@pytest.mark.parametrize(
    "sent",
    [
        math.nan,
        math.inf,
        -math.inf,
        -1,
        -1e-9,
        "high",
        "1.5",
        True,
        [],
        {},
        10**400,
        "x" * 10_000,
    ],
)
def test_wrong_priorities_default_and_are_said_once(sent, caplog):
    reader = TagReader()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert reader.read({"hotset": {"priority": sent}}) == Tags()
    assert reader.invalid == {"priority": 3}
    assert len(caplog.records) == 1
    assert "priority is " in caplog.text
    assert len(caplog.records[0].getMessage()) < 250


def test_each_tag_is_said_once_for_itself(caplog):
    wrong = {
        "source_type": "User",
        "priority": None,
        "session": "",
        "ttl_s": 0,
        "end_session": 1,
        "tenant": "x" * 65,
        "sesion": "s",
        "another": 1,
    }
    with caplog.at_level(logging.WARNING):
        _, reader = read(wrong, trusted=True)
        read(wrong, reader=reader)
        reader.read({"hotset": 3, "evoke": "x"})
    once = {"hotset": 1, "evoke": 1}
    names = ("source_type", "session", "ttl_s", "end_session", "tenant", "unknown key")
    assert reader.invalid == dict.fromkeys(names, 2) | once
    assert len(caplog.records) == 8


@pytest.mark.parametrize("sent", [None, {}, [], 0, "", {"max_offload_tokens": 3}])
def test_no_tags_are_no_fault(sent):
    reader = TagReader()
    assert reader.read(sent) == Tags()
    assert not reader.invalid


def test_parameters_that_raise_are_a_fault_like_any_other(caplog):
    class Broken(dict):
        def get(self, key, default=None):
            raise RuntimeError("broken")

    reader = TagReader()
    assert reader.read(Broken(a=1)) == Tags()
    assert reader.read("text") == Tags()
    assert reader.invalid == {"hotset": 2}


def test_what_evokes_clients_send():
    sent = {"source_type": "user", "priority": 1.5, "evoke_session": "conversation-42"}
    tags, reader = read(evoke=sent)
    assert tags == Tags(source_type=1, priority=1.5, session="conversation-42")
    tags, _ = read(evoke={"priority": "2", "evoke_session": 42})
    assert tags == Tags(priority=2.0, session="42")
    for priority in ("nan", "inf", "-1", "high", True):
        assert read(evoke={"priority": priority})[0] == Tags()
    assert not reader.invalid


def test_our_own_key_goes_first_tag_by_tag():
    both, _ = read({"priority": 4}, {"priority": 2, "source_type": "system"})
    assert both == Tags(source_type=0, priority=4.0)
    wrong, reader = read({"priority": "x"}, {"priority": 2})
    assert wrong.priority == 2.0
    assert reader.invalid == {"priority": 1}


def test_only_trusted_tags_name_tenants_and_end_sessions():
    sent = {"session": "s", "tenant": "t", "end_session": True, "priority": 4}
    plain, reader = read(sent)
    assert plain == Tags(session="s", priority=4.0)
    assert not reader.invalid
    trusted, reader = read(sent, trusted=True)
    assert trusted == Tags(
        session="s", tenant="t", end_session=True, priority=module.MIN_PRIORITY
    )


def test_at_most_64_tenants():
    reader = TagReader(trusted=True)
    names = [
        read({"tenant": f"t{i}"}, reader=reader)[0].tenant
        for i in [*range(100), 0, 63, 64]
    ]
    assert names == [f"t{i}" for i in range(64)] + ["other"] * 36 + ["t0", "t63"] + [
        "other"
    ]
