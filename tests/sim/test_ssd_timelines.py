"""What the SSD tier does when, in small cases, and what holds in all of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import simpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import BLOCK_TOKENS, Forest, forests
from support.one_at_a_time import setups
from support.simulated import NO_TIME, Simulation, machine, run_config, ssd_config

from hotset.policies.errors import PolicyError
from hotset.sim.cost import CostModel
from hotset.sim.engines import ENGINES
from hotset.sim.ssd import DAY_S, MODES, WriteBudget
from hotset.sim.ssd_traffic import SsdLinks, SsdTraffic
from hotset.sim.transfers import LinkSpec
from hotset.sim.workload import Workload

A_SECOND_A_STEP = CostModel(token_s=0.125, decode_s=1.0)  # 8 tokens of prefill, or one
FIRST, OTHER = [0, 1, 2], [10, 11, 12, 13]


def simulate(paths, waits_s, cpu=4, ssd=50, mode="demote", links=None, **options):
    """Requests of one output token on a GPU of five blocks and a CPU tier of four.

    Behind request 0 (`FIRST`), request 1 (`OTHER`) leaves the GPU block 0 of it, and
    demotes chunk 2 in its first step of prefill, chunks 0 and 1 in its second.
    """
    number = {}
    dense = [[number.setdefault(b, len(number)) for b in path] for path in paths]
    workload = Workload(Forest(dense, waits_s=waits_s).trace())
    behind = {
        name: options.pop(name)
        for name in ("bytes_per_day", "queue_bytes", "admission_text")
        if name in options
    }
    spec = machine(
        workload,
        **{
            "cost": A_SECOND_A_STEP,
            "step_tokens": 8,
            "max_sequences": 8,
            "gpu_blocks": 6,
            "ssd": links or SsdLinks(NO_TIME, NO_TIME),
            **options,
        },
    )
    config = run_config("lru", cpu, engine="vllm-0.32")
    made = Simulation(
        workload, config, spec, ssd=ssd_config("lru", ssd, mode=mode, **behind)
    )
    return made.run()


def job_of(run, index):
    return next(job for job in run.jobs if job.index == index)


def test_a_demoted_chunk_comes_back_through_the_cpu_tier():
    """Request 2 finds block 0 on the GPU and chunks 1 and 2 on the SSD.

    It waits 8 s while these 8 bytes are read, then loads them for 2 s, and computes its
    last 4 tokens in half a second.
    """
    run = simulate(
        [FIRST, OTHER, [0, 1, 2, 3]],
        [0.0, 20.0, 40.0],
        links=SsdLinks(LinkSpec(1.0), LinkSpec(1.0)),
        load_link=LinkSpec(4.0),
    )
    job = job_of(run, 2)
    assert (job.gpu_tokens, job.ssd_tokens, job.hit_tokens) == (4, 8, 12)
    assert job.admitted_s - job.arrival_s == 8.0
    assert job.load_s == 2.0
    assert job.first_token_s - job.arrival_s == 10.5
    tier, ssd = run.tier, run.tier.ssd
    assert (ssd.counts.loaded, tier.counts.promoted) == (2, 2)
    # Beside request 0's chunks those that went for them, and for the one stored last.
    assert ssd.counts.stores == 6
    assert run.engine.ssd.read_link.num_bytes == 8
    assert run.engine.ssd.write_link.num_bytes == 24


def test_a_chunk_being_written_to_the_ssd_is_no_hit():
    """12 bytes take 12 s from request 1's first step on; request 2 comes meanwhile."""
    found = {}
    for wait_s in (3.0, 11.0, 15.0):
        run = simulate(
            [FIRST, OTHER, [0, 1, 2, 3]],
            [0.0, 20.0, wait_s],
            links=SsdLinks(NO_TIME, LinkSpec(1.0)),
        )
        found[wait_s] = job_of(run, 2).ssd_tokens
    # Chunk 2 alone is on the SSD before chunks 0 and 1 are: no prefix.
    assert found == {3.0: 0, 11.0: 0, 15.0: 8}


def test_a_chunk_being_written_through_keeps_its_place_in_the_cpu_tier():
    """While two of request 0's chunks are copied, request 1 finds two places.

    Half of the tier may be copied at a time, so the third chunk is not, nor are those
    of request 1.
    """
    for write, evictions, unstaged in ((NO_TIME, 3, 0), (LinkSpec(0.1), 1, 3)):
        run = simulate(
            [FIRST, OTHER],
            [0.0, 5.0],
            mode="write-through",
            links=SsdLinks(NO_TIME, write),
        )
        assert run.tier.counts.evictions == evictions
        assert (run.tier.counts.refused_offers > 0) == (unstaged > 0)
        counts = run.tier.ssd.counts
        assert counts.unstaged == unstaged
        assert counts.stores == run.tier.counts.stores - unstaged


def test_heads_outlive_tails_of_a_prompt_that_was_stored_in_parts():
    """Request 0's chunks are written in two parts; the SSD has one place too few."""
    run = simulate([FIRST, [10]], [0.0, 20.0], ssd=3, mode="write-through")
    ssd = run.tier.ssd
    assert ssd.counts.evictions == 1
    assert [key in ssd.driver for key in range(4)] == [True, True, False, True]


class Asked:
    """Tiers that have asked for two writes, of three chunks and of one."""

    def __init__(self, env):
        self.env = env
        self.log = []
        self.reads, self.writes = [], [[0, 1, 2], [3]]
        self.ssd = SimpleNamespace(chunk_bytes=64 << 20)

    def end_read(self, keys):
        self.log.append(("read", keys, self.env.now))

    def end_write(self, keys):
        self.log.append(("written", keys, self.env.now))


def test_reads_overtake_writes():
    """A chunk takes a second; a read waits for the chunk that is being written."""
    env = simpy.Environment()
    tiers, second = Asked(env), LinkSpec(64 << 20)
    traffic = SsdTraffic(env, SsdLinks(second, second), tiers, lambda: traffic.report())
    traffic.begin()
    env.run(until=0.5)
    tiers.reads.append([7])
    traffic.begin()
    env.run()
    # The two writes take turns.
    assert tiers.log == [
        ("read", [7], 2.0),
        ("written", [3], 3.0),
        ("written", [0, 1, 2], 5.0),
    ]
    assert traffic.read_link.wait_s == 0.5
    assert traffic.num_moving == 0


def test_a_read_of_a_chunk_pins_it():
    """The SSD holds three chunks: what is demoted takes the place of the third.

    Without a pin the policy would give up chunk 2, the one used longest ago.
    """
    run = simulate([FIRST, OTHER, [0, 1, 2, 3]], [0.0, 20.0, 20.0], ssd=3)
    assert job_of(run, 2).ssd_tokens == 8
    ssd = run.tier.ssd
    assert ssd.counts.loaded == 2
    assert 0 not in ssd.driver
    assert ssd.num_resident == 3


def test_what_the_ssd_has_is_taken_only_where_it_pays():
    outcomes = {}
    for speed in (100.0, 0.5):
        for choosy in (False, True):
            run = simulate(
                [FIRST, OTHER, [0, 1, 2, 3]],
                [0.0, 20.0, 40.0],
                links=SsdLinks(LinkSpec(speed), NO_TIME),
                loads_if_faster=choosy,
            )
            outcomes[speed, choosy] = job_of(run, 2).ssd_tokens
    assert outcomes == {
        (100.0, False): 8,
        (100.0, True): 8,
        (0.5, False): 8,
        (0.5, True): 0,
    }


def test_a_budget_of_writes_a_day():
    """An hour's share at once, the rest over the day; never more than all in a day."""
    budget = WriteBudget(2400.0)
    assert budget.left_bytes(0.0) == 100
    budget.spend(100)
    assert budget.left_bytes(0.0) == 0
    assert budget.left_bytes(DAY_S / 24) == pytest.approx(2300 / 24)
    assert budget.left_bytes(7 * DAY_S) == 100
    assert WriteBudget(None).left_bytes(5.0) == float("inf")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 40_000), st.integers(1, 300)), max_size=60))
def test_no_day_has_more_writes_than_the_budget(wishes):
    budget, now_s, written = WriteBudget(2400.0), 0.0, []
    for wait_s, wish in wishes:
        now_s += wait_s
        taken = min(wish, budget.left_bytes(now_s))
        budget.spend(taken)
        written.append((now_s, taken))
    for since_s, _taken in written:
        day = [of for at_s, of in written if since_s <= at_s < since_s + DAY_S]
        assert sum(day) <= 2400.0 + 1e-6


def test_what_the_budget_or_the_queue_refuses_is_counted():
    """Of the chunks demoted in two steps, one and two, so many may be written."""
    paths, waits_s = [FIRST, OTHER], [0.0, 20.0]
    run = simulate(paths, waits_s, bytes_per_day=24 * 5.0)
    counts = run.tier.ssd.counts
    assert (counts.stores, counts.refused_by_budget) == (1, 2)
    slow = SsdLinks(NO_TIME, LinkSpec(0.001))
    run = simulate(paths, waits_s, queue_bytes=8.0, links=slow)
    counts = run.tier.ssd.counts
    assert (counts.stores, counts.refused_by_queue) == (2, 1)
    # Of two chunks that leave at once, the head is written.
    assert [key in run.tier.ssd.driver for key in range(3)] == [True, False, True]
    for limits in ({"bytes_per_day": 24 * 3.0}, {"queue_bytes": 3.0}):
        with pytest.raises(PolicyError, match="a chunk has 4"):
            simulate(paths, waits_s, **limits)


@st.composite
def crowds(draw):
    """Traffic that comes in crowds, on machines in which everything takes time."""
    setup = draw(setups())
    forest = draw(forests(max_requests=30, tags=True))
    per_chunk = draw(st.integers(1, 2))
    workload = Workload(forest.trace(), chunk_tokens=per_chunk * BLOCK_TOKENS)
    trace = workload.trace
    need = -(-(trace.input_tokens + np.maximum(trace.output_tokens, 1) - 1) // 4)
    speeds = st.sampled_from([0.5, 30.0, 1e9])
    return {
        **setup,
        "workload": workload,
        "capacity": draw(st.integers(1, 20)) * per_chunk,
        "gpu_blocks": int(need.max()) + 1 + draw(st.sampled_from([0, 2, 9])),
        "links": SsdLinks(LinkSpec(draw(speeds), 0.1), LinkSpec(draw(speeds), 0.1)),
        "cpu_link": LinkSpec(draw(speeds)),
        "ssd": draw(st.integers(1, 30)) * per_chunk,
        "mode": draw(st.sampled_from(MODES)),
        "is_async": draw(st.booleans()),
        "choosy": draw(st.booleans()),
        "queue_bytes": draw(st.sampled_from([None, 16.0])),
        "sequences": draw(st.integers(1, 4)),
    }


@pytest.mark.parametrize("text", ["lru", "guard:distance=3", "adaptive", "tinylfu"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(crowds(), st.sampled_from(["lru", "arc", "guard", "gdsf"]))
def test_every_crowd_gets_through(text, setup, ssd_text):
    """No request waits for ever, nothing stays pinned, and the sources add up."""
    workload = setup["workload"]
    spec = machine(
        workload,
        cost=A_SECOND_A_STEP,
        gpu_blocks=setup["gpu_blocks"],
        step_tokens=max(setup["step_tokens"], setup["sequences"]),
        max_sequences=setup["sequences"],
        offers_at_end=ENGINES[setup["engine"]].offers_at_end,
        load_link=setup["cpu_link"],
        store_link=setup["cpu_link"],
        ssd=setup["links"],
        is_async=setup["is_async"],
        loads_if_faster=setup["choosy"],
    )
    run = Simulation(
        workload,
        run_config(text, setup["capacity"], setup["admission"], setup["engine"]),
        spec,
        ssd=ssd_config(
            ssd_text, setup["ssd"], mode=setup["mode"], queue_bytes=setup["queue_bytes"]
        ),
        max_steps=100_000,
    ).run()
    assert len(run.jobs) == workload.trace.num_requests
    for job in run.jobs:
        assert 0 <= job.ssd_tokens <= job.hit_tokens - job.gpu_tokens
        assert job.hit_tokens <= job.input_tokens
    arrives, ends = run.times("arrives"), run.times("ends")
    total_s = sum(ends[r] - arrives[r] for r in arrives)
    assert run.engine.present.total_s == pytest.approx(total_s, rel=1e-9)
    tier = run.tier
    assert tier.driver.num_evictable == len(tier.driver) <= tier.driver.capacity
    ssd = tier.ssd
    assert ssd.driver.num_evictable == len(ssd.driver) <= ssd.driver.capacity
    counts, behind = tier.counts, ssd.counts
    assert counts.stores + counts.promoted - counts.evictions == len(tier.driver)
    assert behind.stores - behind.evictions == len(ssd.driver)
    assert behind.loaded == counts.promoted
    traffic = run.engine.ssd
    chunk_bytes = workload.chunk_tokens
    assert traffic.read_link.num_bytes == behind.loaded * chunk_bytes
    assert traffic.write_link.num_bytes == behind.stores * chunk_bytes
    assert not tier.driver.fallen_back
    assert not ssd.driver.fallen_back


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(crowds())
def test_an_ssd_that_takes_nothing_changes_nothing(setup):
    workload = setup["workload"]
    logs = []
    for ssd in (None, ssd_config("lru", setup["ssd"], "threshold:1000", mode="demote")):
        spec = machine(
            workload,
            cost=A_SECOND_A_STEP,
            gpu_blocks=setup["gpu_blocks"],
            step_tokens=max(setup["step_tokens"], setup["sequences"]),
            max_sequences=setup["sequences"],
            load_link=setup["cpu_link"],
            store_link=setup["cpu_link"],
            is_async=setup["is_async"],
        )
        config = run_config("lru", setup["capacity"], "always", setup["engine"])
        logs.append(Simulation(workload, config, spec, ssd=ssd).run().log)
    assert logs[0] == logs[1]
