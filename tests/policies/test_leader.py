"""`leader`: shadows that are true, a cache that follows them, a leader that changes."""

import dataclasses
import itertools

import pytest
from contract.replaying import make_replay
from contract.serving import make_driver, serve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_admission import naive_admission
from oracles.naive_policies import naive_policy
from strategies import BLOCK_TOKENS, capacities, forests
from support.changing_traffic import mixed

from hotset.policies import POLICIES
from hotset.policies.driver import PolicyDriver
from hotset.policies.leader import LEADER, SPEC, members_of
from hotset.sim.replay import Replay
from hotset.sim.workload import Workload

FOREVER = "leader:window=1000000"  # no test is as long: nobody else comes to lead
NUM_MEMBERS = len(members_of(1))
slow_settings = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def workloads(draw):
    forest = draw(forests(tags=True))
    workload = Workload(forest.trace(), tail=draw(st.sampled_from(["drop", "count"])))
    distinct = workload.blocks.num_distinct
    return workload, draw(capacities(workload.longest_blocks, distinct))


def replay_led_by(m, workload, capacity):
    """A replay in which member m leads from the start; and the policy's state."""
    made = []

    def make(params, size, next_use=None):
        made.append(SPEC.make(params, size, next_use))
        made[-1].numbers[LEADER] = m
        return made[-1]

    config = make_replay(workload, FOREVER, capacity).config
    policy = dataclasses.replace(SPEC, make=make)
    replay = Replay(workload, dataclasses.replace(config, policy=policy))
    return replay, made[-1]


def alone(m, workload, capacity):
    spec, params = members_of(capacity)[m]
    return make_replay(workload, spec.label(params), capacity)


def test_members_can_run_in_a_server():
    specs = [spec for spec, _ in members_of(100)]
    assert specs[0].name == "lru"
    assert not any(spec.offline or spec.unbounded for spec in specs)
    assert {spec.age_unit for spec in specs} == {"request", "key"}


@slow_settings
@given(workloads())
def test_shadows_hit_what_their_policies_hit_alone(setup):
    workload, capacity = setup
    replay, state = replay_led_by(0, workload, capacity)
    members = [alone(m, workload, capacity) for m in range(NUM_MEMBERS)]
    while not replay.is_done:
        for each in (replay, *members):
            each.advance(1)
        hits = [each.result().hit_blocks for each in members]
        assert state.hits.tolist() == hits


@pytest.mark.parametrize("m", range(NUM_MEMBERS))
@slow_settings
@given(workloads())
def test_whoever_leads_from_the_start_is_followed_exactly(m, setup):
    workload, capacity = setup
    replay, _ = replay_led_by(m, workload, capacity)
    member = alone(m, workload, capacity)
    while not replay.is_done:
        replay.advance(1)
        member.advance(1)
        assert replay.resident().tolist() == member.resident().tolist()
    mine, theirs = replay.result(), member.result()
    assert (mine.hit_tokens, mine.stores) == (theirs.hit_tokens, theirs.stores)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacity", [7, 16])
@pytest.mark.parametrize("text", ["leader:window=5,half_life=50", "leader"])
def test_equals_twin_where_the_leader_changes(text, capacity, seed):
    forest = mixed(seed)
    replay = make_replay(Workload(forest.trace()), text, capacity)
    twin = NaiveCache(
        naive_policy(text, forest.paths, capacity=capacity),
        naive_admission("always"),
        capacity,
        BLOCK_TOKENS,
    )
    leaders = []
    for r, path in enumerate(forest.paths):
        replay.advance(1)
        hit = twin.step(NaiveRequest(path, len(path) * BLOCK_TOKENS))
        assert int(replay.hit_tokens[r]) == hit, r
        assert replay.resident().tolist() == sorted(twin.resident), r
        leaders.append(twin.policy.leader)
    assert replay.result().stores == twin.stores
    assert sum(a != b for a, b in itertools.pairwise(leaders)) >= 1


def test_a_request_counts_once_however_often_it_is_told():
    """An engine tells of a request's blocks at each touch, or as they come."""
    made = []

    def make(params, size, next_use=None):
        made.append(SPEC.make(params, size, next_use))
        return made[-1]

    _, params = POLICIES.parse(FOREVER)
    driver = PolicyDriver(dataclasses.replace(SPEC, make=make), params, 8)
    for _ in range(3):
        request = driver.begin()
        driver.observe(request, [1, 2])
        driver.offer(request, [1, 2])
        driver.complete([1, 2])
        driver.observe(request, [1, 2])
        driver.observe(request, [3])
    # The first request finds nothing, the others two blocks.
    assert made[0].hits.tolist() == [4] * NUM_MEMBERS


def test_victims_when_everything_outside_the_shadow_is_pinned():
    """Blocks that the leader holds go where those that it does not cannot."""
    driver = make_driver(FOREVER, 4)
    serve(driver, [1, 2])
    driver.pin([1, 2])
    serve(driver, [3, 4])
    serve(driver, [5, 6])  # lru alone would keep these and 3, 4
    assert {1, 2, 5, 6} == {key for key in range(9) if key in driver}
    driver.unpin([1, 2])
    assert driver.evict(2) == [2, 1]


def test_reset_empties_the_shadows_too():
    driver = make_driver(FOREVER, 4)
    serve(driver, [1, 2, 3, 4])
    driver.reset()
    serve(driver, [5, 6])
    serve(driver, [7, 8])
    assert driver.evict(4) == [6, 5, 8, 7]
