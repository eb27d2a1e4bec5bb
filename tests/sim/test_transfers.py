"""Links: bandwidth, latency, and who waits for whom."""

import math

import pytest
import simpy

from hotset.policies.errors import PolicyError
from hotset.sim.clockwork import Bell, EndOfInstant
from hotset.sim.transfers import LOAD, STORE, Link, LinkSpec


@pytest.fixture
def env():
    return simpy.Environment()


def moves(env, link, plan):
    """Run transfers, each (name, start, bytes, urgency); return the log of ends."""
    log = []

    def move(name, start_s, num_bytes, urgency):
        yield env.timeout(start_s)
        yield from link.transfer(num_bytes, urgency)
        log.append((name, env.now))

    for row in plan:
        env.process(move(*row))
    env.run()
    return log


def test_one_transfer_takes_its_bytes_and_the_latency(env):
    link = Link(env, LinkSpec(100.0, 0.5))
    assert moves(env, link, [("a", 1.0, 200, STORE)]) == [("a", 3.5)]
    assert (link.num_bytes, link.num_transfers, link.busy.total_s, link.wait_s) == (
        200,
        1,
        2.0,
        0.0,
    )
    assert LinkSpec(100.0, 0.5).seconds(200) == 2.5


def test_transfers_wait_in_turn_but_not_for_the_latency(env):
    link = Link(env, LinkSpec(100.0, 0.5))
    log = moves(env, link, [("a", 0, 100, STORE), ("b", 0, 100, STORE)])
    assert log == [("a", 1.5), ("b", 2.5)]
    assert (link.busy.total_s, link.wait_s) == (2.0, 1.0)


def test_loads_go_before_stores_that_wait_and_interrupt_none(env):
    link = Link(env, LinkSpec(100.0))
    plan = [
        ("store 1", 0.0, 100, STORE),
        ("store 2", 0.0, 100, STORE),
        ("load", 0.5, 100, LOAD),
    ]
    assert moves(env, link, plan) == [("store 1", 1.0), ("load", 2.0), ("store 2", 3.0)]


def test_a_link_without_end_takes_no_time(env):
    link = Link(env, LinkSpec(math.inf))
    assert moves(env, link, [("a", 1.0, 10**15, LOAD)]) == [("a", 1.0)]


@pytest.mark.parametrize("values", [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0)])
def test_bad_bandwidths(values):
    with pytest.raises(PolicyError, match="bytes_per_s"):
        LinkSpec(*values)


@pytest.mark.parametrize("latency_s", [-1.0, math.inf, math.nan])
def test_bad_latencies(latency_s):
    with pytest.raises(PolicyError, match="latency_s"):
        LinkSpec(1.0, latency_s)


def test_the_end_of_an_instant_comes_behind_what_it_starts(env):
    log = []

    def step():
        yield EndOfInstant(env, 1.0)
        log.append("step")

    def chain():
        yield env.timeout(1.0)
        for _ in range(3):
            yield env.timeout(0)
        log.append("chain")

    env.process(step())
    env.process(chain())
    env.run()
    assert log == ["chain", "step"]


def test_a_bell_wakes_once_and_only_who_waits(env):
    bell, log = Bell(env), []

    def sleeper():
        for _ in range(2):
            yield bell.wait()
            log.append(env.now)

    def ringer():
        bell.ring()  # nobody waits: nothing is kept
        for _ in range(2):
            yield env.timeout(1.0)
            bell.ring()
            bell.ring()

    env.process(ringer())
    env.process(sleeper())
    env.run()
    assert log == [1.0, 2.0]
