"""Simulated time where it is known by other means."""

import gc
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, forests
from support.simulated import Simulation, machine, run_config

from hotset.sim.cost import CostModel
from hotset.sim.job import Job
from hotset.sim.transfers import LinkSpec
from hotset.sim.workload import Workload

COST = CostModel(
    start_s=0.05,
    token_s=1e-3,
    pair_s=1e-6,
    decode_s=0.01,
    sequence_s=1e-3,
    context_s=1e-5,
)


def paths_workload(paths, **columns):
    """A workload of paths whose blocks go by any numbers."""
    number = {}
    dense = [
        [number.setdefault(block, len(number)) for block in path] for path in paths
    ]
    return Workload(Forest(dense, **columns).trace())


def test_one_request_alone_without_a_tier():
    """9 blocks and 2 tokens, 5 outputs: prefill in one step, then 4 decode steps."""
    workload = paths_workload([list(range(10))], short=[2], outputs=[5])
    done = Simulation(workload, None, machine(workload, cost=COST)).run().jobs[0]
    assert done.first_token_s == pytest.approx(COST.prefill_s(38), rel=1e-12)
    steps = [COST.decoding_s(1, 38 + i) for i in range(4)]
    end_s = COST.prefill_s(38) + sum(steps)
    assert done.num_computed == 38
    assert Simulation(workload, None, machine(workload, cost=COST)).run().times(
        "ends"
    ) == {0: pytest.approx(end_s, rel=1e-12)}


@pytest.mark.parametrize("step_tokens", [7, 16, 8192])
def test_ttft_behind_a_load_is_load_then_uncached_prefill(step_tokens):
    """The first 6 blocks come back from the CPU; the GPU has forgotten all but 2.

    Pool of 9: request 0 takes 7 blocks, request 1 takes 7 of its own, so that the two
    free ones and five of request 0's go; its head survives.
    """
    first = [0, 1, 2, 3, 4, 5, 6]
    paths = [first, list(range(10, 17)), [*first[:6], 30, 31]]
    workload = paths_workload(paths, waits_s=[100.0] * 3)
    spec = machine(
        workload,
        cost=COST,
        gpu_blocks=10,
        kv_bytes_per_token=100,
        load_link=LinkSpec(1000.0, 0.25),
        store_link=LinkSpec(1e6),
        step_tokens=step_tokens,
        max_sequences=1,
    )
    run = Simulation(workload, run_config("lru", 100, engine="vllm-0.32"), spec).run()
    done = run.jobs[2]
    assert (done.gpu_tokens, done.hit_tokens, done.num_computed) == (8, 24, 8)
    load_s = 16 * 100 / 1000.0 + 0.25
    expected = load_s + COST.prefill_s(8, 24)
    assert done.first_token_s - done.arrival_s == pytest.approx(expected, rel=1e-12)
    assert done.load_s == pytest.approx(load_s, rel=1e-12)


def poisson(rate, count, seed):
    rng = np.random.default_rng(seed)
    return rng.exponential(1 / rate, count).tolist()


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_mean_wait_of_an_m_d_1_queue(load):
    """Poisson arrivals, equal requests one at a time: W = load * D / (2 * (1 - load)).

    The 99 % interval of 20 batch means holds it, and reaches no further than 8 % of it
    at half load, 16 % at four fifths.
    """
    count, batches = 20_000, 20
    workload = paths_workload(
        [[i] for i in range(count)], waits_s=poisson(load, count, seed=7)
    )
    cost = CostModel(token_s=0.25)  # 4 tokens: a second each
    spec = machine(workload, cost=cost, max_sequences=1, step_tokens=4)
    jobs = Simulation(workload, None, spec).run().jobs
    waits = np.array([job.admitted_s - job.arrival_s for job in jobs])
    means = waits.reshape(batches, -1).mean(axis=1)
    expected = load / (2 * (1 - load))
    half = 2.861 * means.std(ddof=1) / np.sqrt(batches)  # t, 19 degrees, 99 %
    assert abs(waits.mean() - expected) < half
    assert half < (0.08 if load == 0.5 else 0.16) * expected


@settings(max_examples=30, deadline=None)
@given(forests(max_requests=30), st.integers(2, 6), st.sampled_from([3, 8, 64]))
def test_littles_law_is_an_identity(forest, sequences, step_tokens):
    """Requests present, integrated over time, are the sum of all times in the system.

    So are those that wait, load and run, taken from the log of what happened.
    """
    workload = Workload(forest.trace())
    spec = machine(
        workload,
        cost=COST,
        gpu_blocks=30,
        max_sequences=min(sequences, step_tokens),
        step_tokens=step_tokens,
    )
    run = Simulation(workload, None, spec).run()
    arrives, ends = run.times("arrives"), run.times("ends")
    total_s = sum(ends[r] - arrives[r] for r in arrives)
    assert run.engine.present.total_s == pytest.approx(total_s, rel=1e-9)
    area, present, before = 0.0, 0, 0.0
    for time_s, what, _index in run.log:
        area += present * (time_s - before)
        before = time_s
        present += {"arrives": 1, "ends": -1}.get(what, 0)
    assert present == 0
    assert area == pytest.approx(total_s, rel=1e-9)
    assert len(run.jobs) == workload.trace.num_requests


def test_more_capacity_under_lru_is_never_slower_without_contention():
    rng = np.random.default_rng(3)
    paths, known = [], 0
    for _ in range(60):
        back = paths[int(rng.integers(0, len(paths)))] if paths else []
        path = [*back[: int(rng.integers(0, 9))], *range(known, known + 3)]
        known += 3
        paths.append(path)
    workload = paths_workload(paths, waits_s=[1000.0] * 60)

    def ttfts(capacity):
        spec = machine(
            workload,
            cost=CostModel(token_s=1e-3, pair_s=1e-6),
            gpu_blocks=14,
            kv_bytes_per_token=100,
            load_link=LinkSpec(1e6),
            store_link=LinkSpec(1e6),
        )
        config = run_config("lru", capacity, engine="vllm-0.32")
        jobs = Simulation(workload, config, spec).run().jobs
        return np.array([job.first_token_s - job.arrival_s for job in jobs])

    by_size = [ttfts(capacity) for capacity in (1, 20, 60, 200)]
    for small, large in itertools.pairwise(by_size):
        assert (large <= small + 1e-9).all()
    assert by_size[-1].mean() < 0.8 * by_size[0].mean()


def test_t42_a_larger_gpu_does_not_hide_what_the_cpu_holds():
    """The tier is consulted on every request, whatever the GPU has room for."""
    paths = [[0, 1, 2, 3], [10, 11, 12, 13], [0, 1, 2, 3, 4]]
    for gpu_blocks, gpu_tokens in ((7, 8), (100, 16)):
        workload = paths_workload(paths, waits_s=[10.0] * 3)
        config = run_config("lru", 50, engine="vllm-0.32")
        spec = machine(workload, gpu_blocks=gpu_blocks)
        jobs = Simulation(workload, config, spec).run().jobs
        assert jobs[2].hit_tokens == 16
        assert jobs[2].gpu_tokens == gpu_tokens


def test_memory_is_bounded_by_what_is_in_flight():
    """A request is let go at its end, and so is all that the engine knew of it."""
    rng = np.random.default_rng(5)
    paths = [[int(rng.integers(0, 40)), 100 + i] for i in range(400)]
    workload = paths_workload(paths, waits_s=poisson(20.0, 400, 6))
    spec = machine(
        workload,
        cost=CostModel(token_s=0.005, decode_s=0.001),
        gpu_blocks=12,
        kv_bytes_per_token=1,
        load_link=LinkSpec(4000.0),
        store_link=LinkSpec(4000.0),
    )
    run = Simulation(workload, run_config("lru", 30, engine="vllm-0.33"), spec)

    def count():
        gc.collect()
        return sum(isinstance(each, Job) for each in gc.get_objects())

    before, extra = count(), []

    def note(job):
        if job.index % 80 == 0:
            extra.append(count() - before - run.engine.batcher.num_unfinished)

    run.engine._on_done = note
    run.run()
    assert len(extra) == 5
    # Beside those under way, those whose stores are not over, or whom events name.
    assert max(extra) < 12
