"""The curve of LRU against replay, as integers, at every capacity."""

import numpy as np
import pytest
from contract.replaying import make_replay
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, forests

from hotset.sim.mrc import lru_curve
from hotset.sim.workload import Workload
from hotset.traces.registry import read_trace


def replayed(workload, capacity, warmup):
    """Hit blocks, tokens and requests of a replay of LRU, and what was measured."""
    replay = make_replay(workload, "lru", capacity, warmup=warmup)
    result = replay.run()
    hits = replay.hit_tokens[result.measured_from_request :]
    return (
        (result.hit_blocks, result.hit_tokens, int((hits > 0).sum())),
        (result.requests, result.accesses, result.input_tokens),
    )


def on_curve(curve, capacity):
    counts = curve.counts(capacity)
    return (
        tuple(counts[f"hit_{what}"] for what in ("blocks", "tokens", "requests")),
        (curve.requests, curve.accesses, curve.input_tokens),
    )


def compare(workload, curve, capacities, warmup):
    for capacity in capacities:
        assert on_curve(curve, capacity) == replayed(workload, capacity, warmup), (
            capacity
        )


def is_forest(paths):
    parents = {}
    return all(
        parents.setdefault(block, parent) == parent
        for path in paths
        for parent, block in zip([None, *path], path, strict=False)
    )


@settings(max_examples=150)
@given(
    forest=forests(max_requests=40),
    tail=st.sampled_from(["drop", "count"]),
    warmup=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_every_capacity_of_a_forest(forest, tail, warmup):
    """Requests are longer than the smallest of them."""
    workload = Workload(forest.trace(), tail)
    curve = lru_curve(workload, warmup)
    assert curve.first_capacity == 1
    compare(workload, curve, range(1, workload.chunks.num_distinct + 3), warmup)


@st.composite
def tangles(draw):
    """Requests whose blocks stand behind any others, each once in a request."""
    path = st.lists(st.integers(0, 11), max_size=6, unique=True)
    drawn = draw(st.lists(path, min_size=1, max_size=30))
    numbers = {}
    paths = [[numbers.setdefault(i, len(numbers)) for i in path] for path in drawn]
    return Forest(paths=paths)


@settings(max_examples=150)
@given(tangle=tangles(), warmup=st.sampled_from([0.0, 0.5]))
def test_from_the_longest_request_on_where_the_trace_is_no_forest(tangle, warmup):
    workload = Workload(tangle.trace())
    curve = lru_curve(workload, warmup)
    longest = 1 if is_forest(tangle.paths) else max(map(len, tangle.paths))
    assert curve.first_capacity == longest
    most = workload.chunks.num_distinct + 3
    compare(workload, curve, range(longest, most), warmup)


def test_below_the_longest_request_no_forest_bends_the_curve():
    """Why the curve begins there: 0 and 1 are met in both orders.

    With room for two, the first request leaves 0 and 1. The second finds 1 behind the
    missing 2 and keeps it, so it stores 2 alone; the stack's two topmost would be 2, 0.
    """
    workload = Workload(Forest(paths=[[0, 1], [2, 0, 1], [2, 0]]).trace())
    curve = lru_curve(workload)
    assert curve.first_capacity == 3
    assert replayed(workload, 2, 0.0)[0][0] == 0
    assert on_curve(curve, 3) == replayed(workload, 3, 0.0)


@settings(max_examples=60)
@given(forest=forests(max_requests=30), chunk=st.sampled_from([1, 2, 3]))
def test_chunks_of_blocks(forest, chunk):
    workload = Workload(forest.trace(), chunk_tokens=4 * chunk)
    curve = lru_curve(workload)
    for capacity in range(1, workload.chunks.num_distinct + 2):
        found = replayed(workload, capacity * chunk, 0.0)
        assert on_curve(curve, capacity) == found


@pytest.mark.parametrize("tail", ["drop", "count"])
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_mooncake_traces(name, tail, public_traces):
    trace = read_trace(public_traces / f"mooncake_{name}.jsonl.gz")
    workload = Workload(trace, tail)
    distinct = workload.chunks.num_distinct
    capacities = [1, 2, 7, 100, 300, *(distinct * p // 1000 for p in (5, 20, 100, 333))]
    compare(workload, lru_curve(workload, 0.5), [*capacities, distinct], 0.5)


@pytest.mark.slow
def test_agentic_traces(public_traces):
    workload = Workload(read_trace(public_traces / "agentic"))
    distinct = workload.chunks.num_distinct
    curve = lru_curve(workload)
    compare(workload, curve, [10, 1000, distinct // 100, distinct // 5], 0.0)
    growth = np.diff(curve.hit_blocks)
    assert (growth >= 0).all()
