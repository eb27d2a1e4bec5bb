"""What holds for every registered policy in a replay, offline ones included."""

import dataclasses

import numpy as np
import pytest
from contract.replaying import make_replay, run
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, capacities, forests

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.engines import ENGINES
from hotset.sim.workload import Workload

replay_settings = settings(max_examples=40, deadline=None)


@st.composite
def workloads(draw):
    """A workload and a capacity for it."""
    workload = Workload(draw(forests(tags=True)).trace(), tail="count")
    distinct = workload.blocks.num_distinct
    return workload, draw(capacities(workload.longest_blocks, distinct))


@replay_settings
@given(workloads(), st.sampled_from(sorted(ADMISSIONS.names())))
def test_nobody_beats_the_optimum_and_the_optimum_not_the_ceiling(setup, admission):
    workload, capacity = setup
    best = run(workload, "belady", capacity).hit_blocks
    ceiling = run(workload, "unbounded", capacity).hit_blocks
    assert best <= ceiling
    for name in POLICIES.names():
        if name != "unbounded":
            hits = run(workload, name, capacity, admission).hit_blocks
            assert hits <= best, (name, capacity, workload.blocks)


@replay_settings
@given(workloads())
def test_with_room_for_everything_all_policies_are_unbounded(setup):
    workload, _ = setup
    room = max(workload.blocks.num_distinct, 1)
    ceiling = run(workload, "unbounded", 1)
    for name in POLICIES.names():
        result = run(workload, name, room)
        assert result.hit_blocks == ceiling.hit_blocks, name
        assert result.hit_tokens == ceiling.hit_tokens, name
        assert result.evictions == 0, name


@replay_settings
@given(workloads(), st.sampled_from(sorted(ADMISSIONS.names())))
def test_counts_are_whole_numbers_that_add_up(setup, admission):
    workload, capacity = setup
    for name in POLICIES.names():
        replay = make_replay(workload, name, capacity, admission)
        result = replay.run()
        for field in dataclasses.fields(result):
            if field.type == "int":
                assert type(getattr(result, field.name)) is int, field.name
        assert result.requests == workload.trace.num_requests
        assert result.accesses == len(workload.blocks.ids)
        assert result.input_tokens == int(workload.trace.input_tokens.sum())
        assert 0 <= result.hit_blocks <= result.accesses
        assert 0 <= result.hit_tokens <= result.input_tokens
        # What is stored was missed, and is still there or was evicted.
        assert result.stores <= result.accesses - result.hit_blocks
        assert result.stores - result.evictions == len(replay.resident())
        assert result.hit_tokens == int(replay.hit_tokens.sum())
        assert result.refused_stores == result.gpu_hit_tokens == 0


@replay_settings
@given(workloads(), st.data())
def test_names_of_blocks_do_not_matter(setup, data):
    """The same requests under other ids, in another order of numbering."""
    workload, capacity = setup
    distinct = workload.blocks.num_distinct
    names = np.array(data.draw(st.permutations(range(distinct))), np.int64)
    other = Workload(workload.trace, tail="count")
    other.chunks = other.chunks._replace(
        ids=names[other.chunks.ids].astype(other.chunks.ids.dtype)
    )
    for name in POLICIES.names():
        for admission in ADMISSIONS.names():
            mine = run(workload, name, capacity, admission)
            assert mine == run(other, name, capacity, admission), name


@replay_settings
@given(workloads(), st.data())
def test_the_window_splits_the_counts(setup, data):
    """Counts behind a warm-up are those of all requests less those before it."""
    workload, capacity = setup
    share = data.draw(st.sampled_from([0.0, 0.25, 0.5, 0.9]))
    for name in POLICIES.names():
        whole = make_replay(workload, name, capacity)
        part = make_replay(workload, name, capacity, warmup=share).run()
        whole.advance(part.measured_from_request)
        before = whole.result()
        after = whole.run()
        for count in ("requests", "accesses", "hit_blocks", "hit_tokens", "stores"):
            expected = getattr(after, count) - getattr(before, count)
            assert getattr(part, count) == expected, (name, count)


@pytest.mark.parametrize("name", POLICIES.names())
@pytest.mark.parametrize("engine_name", ENGINES)
def test_steps_of_any_length_give_one_result(name, engine_name):
    """Replaying in slices is replaying at once, and twice is the same."""
    rng = np.random.default_rng(11)
    paths, known = [[0]], 1
    for _ in range(80):
        path = paths[-1 - int(rng.integers(0, min(len(paths), 6)))]
        grow = int(rng.integers(0, 4))
        paths.append([*path[: int(rng.integers(0, 8))], *range(known, known + grow)])
        known += grow
    workload = Workload(Forest(paths).trace())
    options = {"engine": engine_name, "gpu_blocks": 9 if engine_name != "none" else 0}
    whole = run(workload, name, 12, **options)
    sliced = make_replay(workload, name, 12, **options)
    while not sliced.is_done:
        sliced.advance(int(rng.integers(1, 9)))
    assert sliced.result() == whole
    assert run(workload, name, 12, **options) == whole
    assert whole.hit_tokens > 0
