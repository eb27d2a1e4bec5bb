"""Bounds and warnings of a study that no setting may break."""

import pytest

from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import ENGINES, engine
from hotset.sim.study import make_study, run_study
from hotset.traces.generate import generate
from hotset.traces.registry import read_trace


def study(trace, *policies, capacity="20%", **settings):
    settings.setdefault("engine", engine("none"))
    made = make_study(
        policies, "always", capacities=[parse_capacity(capacity)], **settings
    )
    return run_study(trace, made)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("chunk_tokens", [512, 1024, 4096])
def test_nothing_exceeds_the_ceiling(name, chunk_tokens):
    """Also where a GPU tier serves blocks within a chunk."""
    trace = generate("chat", 300, 1)
    for gpu_blocks in (0, 50, 400):
        result = study(
            trace,
            "lru",
            "unbounded",
            capacity="100%",
            engine=engine(name),
            gpu_blocks=gpu_blocks,
            chunk_tokens=chunk_tokens,
        )
        for run in result.runs:
            assert run.hit_tokens <= result.ceiling.hit_tokens
            assert run.hit_blocks <= result.ceiling.hit_blocks
            assert run.accesses == result.ceiling.accesses


def test_warning_of_a_cache_that_holds_all_counts_chunks():
    """546 blocks are 273 chunks of two: one less than there may be."""
    trace = generate("chat", 300, 1)
    result = study(trace, "lru", capacity="100%", chunk_tokens=1024)
    holds_all = (
        result.runs[0].capacity_blocks // 2 >= result.workload.chunks.num_distinct
    )
    warned = any("nothing is evicted" in text for text in result.warnings)
    assert warned == holds_all
    assert warned == (result.runs[0].evictions == 0)


def test_a_capacity_beyond_all_memory_is_no_fault():
    result = study(read_trace("sample"), "lru", "relevance", capacity="9" * 18)
    for run in result.runs:
        assert run.capacity_blocks == 10**18 - 1
        assert run.evictions == 0
        assert run.hit_tokens == result.ceiling.hit_tokens


def test_the_same_run_is_not_shown_twice():
    result = study(read_trace("sample"), "lru", "lru:order=auto", "fifo")
    assert [run.policy for run in result.runs] == ["lru", "fifo"]
