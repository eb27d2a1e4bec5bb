"""A policy that fails or chooses impossible victims: the tier goes on with LRU.

`Faulty` is LRU by slot number whose kernels go wrong where its state says so.
"""

import logging
from typing import NamedTuple

import numpy as np
import pytest

from hotset.policies import PolicySpec
from hotset.policies.base import Params
from hotset.policies.driver import PolicyDriver
from hotset.policies.jit import kernel
from hotset.policies.verbs import Kernels, register_kernels

(
    FINE,
    TWICE,
    FREE_SLOT,
    BLOCKED_SLOT,
    OUT_OF_RANGE,
    NEGATIVE,
    TOO_MANY,
    RAISE_SELECT,
    RAISE_EVICT,
    RAISE_INSERT,
    RAISE_ADMIT,
    RAISE_USE,
    ADMIT_ONE_RAISE_EVICT,
) = range(13)
IMPOSSIBLE = [TWICE, FREE_SLOT, BLOCKED_SLOT, OUT_OF_RANGE, NEGATIVE, TOO_MANY]


class Faulty(NamedTuple):
    """What to do wrong."""

    fault: np.ndarray  # int64[1]


@kernel
def _fail_if(state, fault):
    if state.fault[0] == fault:
        raise ValueError("a bug in a policy")


@kernel
def _select(state, n, blocked, now, out):
    _fail_if(state, RAISE_SELECT)
    fault = state.fault[0]
    found = 0
    slot = 0
    while found < n:
        if blocked[slot] == 0 or fault == BLOCKED_SLOT:
            out[found] = slot
            found += 1
        slot += 1
    if fault == TWICE and n > 1:
        out[1] = out[0]
    if fault == FREE_SLOT:
        out[0] = blocked.shape[0] - 1
    if fault == OUT_OF_RANGE:
        out[n - 1] = blocked.shape[0]
    if fault == NEGATIVE:
        out[n - 1] = -1
    return n + 1 if fault == TOO_MANY else n


@kernel
def _on_evict(state, slots):
    _fail_if(state, RAISE_EVICT)
    _fail_if(state, ADMIT_ONE_RAISE_EVICT)


@kernel
def _on_insert(state, slots, keys, depths, now, request):
    _fail_if(state, RAISE_INSERT)


@kernel
def _admit(state, keys, depths, num_free, blocked, now, request):
    _fail_if(state, RAISE_ADMIT)
    return 1 if state.fault[0] == ADMIT_ONE_RAISE_EVICT else keys.shape[0]


@kernel
def _on_hit(state, slots, now, request):
    _fail_if(state, RAISE_USE)


register_kernels(
    Faulty,
    Kernels(
        admit=_admit,
        select=_select,
        on_evict=_on_evict,
        on_insert=_on_insert,
        on_hit=_on_hit,
        on_finish=_on_hit,
    ),
)


class NoParams(Params):
    """None."""


def make_tier(capacity=6):
    """A tier under the faulty policy, and the switch that turns its fault on."""
    state = Faulty(np.zeros(1, np.int64))
    spec = PolicySpec(
        name="faulty",
        summary="for tests",
        params=NoParams,
        make=lambda params, capacity, next_use=None: state,
    )
    return PolicyDriver(spec, NoParams(), capacity), state.fault


def store(driver, keys):
    """Store and complete; returns what `offer` gave."""
    request = driver.begin()
    driver.observe(request, keys)
    stored = driver.offer(request, keys)
    if stored is not None:
        driver.complete(stored.keys)
    driver.finish(request, keys)
    return stored


def use(driver, keys):
    request = driver.begin()
    driver.observe(request, keys)
    driver.hit(request, keys)
    driver.finish(request, keys)


def check_books(driver, keys):
    """The tier holds exactly these keys, each in a slot of its own."""
    assert len(driver) == len(keys)
    assert all(key in driver for key in keys)
    assert driver.num_free == driver.capacity - len(keys)
    assert len({driver.slot(key) for key in keys}) == len(keys)


def check_lru(driver, expected):
    """Everything leaves in this order, and the tier still takes blocks."""
    gone = []
    while len(driver):
        gone += driver.evict(1)
    assert gone == expected
    assert store(driver, [900, 901]).keys == [900, 901]
    check_books(driver, [900, 901])


@pytest.mark.parametrize("fault", IMPOSSIBLE)
def test_impossible_victims_of_an_eviction(fault, caplog):
    driver, switch = make_tier()
    store(driver, [1, 2])
    store(driver, [3, 4])
    store(driver, [5])  # the sixth slot stays free
    use(driver, [1, 2])
    driver.pin([2, 1])
    switch[0] = fault
    with caplog.at_level(logging.ERROR):
        assert driver.evict(2) == [4, 3]
    assert driver.fallen_back
    assert driver.num_faults == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "faulty" in caplog.text
    assert "lru" in caplog.text
    check_books(driver, [1, 2, 5])
    driver.unpin([2, 1])
    check_lru(driver, [5, 2, 1])


@pytest.mark.parametrize("fault", [f for f in IMPOSSIBLE if f != FREE_SLOT])
def test_impossible_victims_of_a_store(fault):
    driver, switch = make_tier()
    store(driver, [1, 2])
    store(driver, [3, 4])
    store(driver, [5, 6])
    use(driver, [1, 2])
    switch[0] = fault
    stored = store(driver, [1, 2, 7, 8])
    assert (stored.keys, stored.evicted) == ([7, 8], [4, 3])
    assert driver.num_faults == 1
    check_books(driver, [1, 2, 5, 6, 7, 8])
    assert store(driver, [9]).evicted == [6]
    assert driver.num_faults == 1


@pytest.mark.parametrize("fault", [RAISE_SELECT, RAISE_EVICT])
def test_an_eviction_that_raises(fault, caplog):
    driver, switch = make_tier()
    store(driver, [1, 2, 3])
    store(driver, [4, 5])
    switch[0] = fault
    with caplog.at_level(logging.ERROR):
        victims = driver.evict(2)
    assert len(set(victims)) == 2
    # The choice was made before on_evict failed, so it is the policy's: slots 0, 1.
    assert victims == ([3, 2] if fault == RAISE_SELECT else [1, 2])
    rest = [key for key in (1, 2, 3, 4, 5) if key not in victims]
    check_books(driver, rest)
    assert driver.num_faults == 1
    assert len(caplog.records) == 1
    assert "a bug in a policy" in caplog.text
    switch[0] = FINE
    check_lru(driver, [key for key in (3, 2, 1, 5, 4) if key in rest])


@pytest.mark.parametrize(
    "fault", [RAISE_SELECT, RAISE_EVICT, RAISE_INSERT, RAISE_ADMIT]
)
def test_a_store_that_raises(fault):
    driver, switch = make_tier()
    store(driver, [1, 2, 3])
    store(driver, [4, 5, 6])
    switch[0] = fault
    stored = store(driver, [10, 11])
    here = [k for k in (1, 2, 3, 4, 5, 6) if k not in stored.evicted] + stored.keys
    assert len(set(stored.evicted)) == len(stored.evicted) <= 2
    assert set(stored.evicted) <= {1, 2, 3, 4, 5, 6}
    assert stored.keys == [10, 11]
    check_books(driver, here)
    assert driver.num_faults == 1
    assert driver.fallen_back
    # From here on plain LRU, with the fault still on.
    again = store(driver, [20, 21, 22])
    assert len(again.evicted) == 3
    assert again.evicted == [k for k in (3, 2, 1, 6, 5, 4) if k in here][:3]
    assert driver.num_faults == 1


def test_victims_before_and_after_a_failure_are_all_told():
    """The policy wants one block and fails once its room is made; LRU stores both."""
    driver, switch = make_tier()
    store(driver, [1, 2, 3])
    store(driver, [4, 5, 6])
    switch[0] = ADMIT_ONE_RAISE_EVICT
    stored = store(driver, [10, 11])
    # Slot 0, the policy's choice, holds 1; the oldest in the LRU order is 3.
    assert (stored.keys, stored.evicted) == ([10, 11], [1, 3])
    check_books(driver, [2, 4, 5, 6, 10, 11])
    check_lru(driver, [2, 6, 5, 4, 11, 10])


def test_a_use_that_raises_once_is_logged_once(caplog):
    driver, switch = make_tier()
    store(driver, [1, 2])
    store(driver, [3])
    switch[0] = RAISE_USE
    with caplog.at_level(logging.ERROR):
        use(driver, [1, 2])
        use(driver, [1])
    assert driver.num_faults == 1
    assert len(caplog.records) == 1
    check_lru(driver, [3, 2, 1])


@pytest.mark.parametrize("name", ["store", "evict"])
def test_any_exception_is_caught(monkeypatch, name, caplog):
    """Whatever the native code raises, even before it has done anything."""
    from hotset.policies import guarded

    original = getattr(guarded, name)
    calls = []

    def fail_once(*arguments):
        calls.append(name)
        if len(calls) == 1:
            raise MemoryError("no room")
        return original(*arguments)

    driver, _ = make_tier()
    store(driver, [1, 2, 3])
    monkeypatch.setattr(guarded, name, fail_once)
    with caplog.at_level(logging.ERROR):
        if name == "store":
            assert store(driver, [4]).keys == [4]
            check_books(driver, [1, 2, 3, 4])
        else:
            assert driver.evict(1) == [3]
            check_books(driver, [1, 2])
    assert driver.fallen_back
    assert driver.num_faults == len(caplog.records) == 1


def test_a_tier_that_fell_back_survives_a_reset():
    driver, switch = make_tier()
    store(driver, [1, 2])
    switch[0] = RAISE_USE
    use(driver, [1])
    driver.reset()
    check_books(driver, [])
    store(driver, [5, 6])
    check_lru(driver, [6, 5])
