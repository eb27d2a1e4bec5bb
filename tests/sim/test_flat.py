"""Every access by itself: the trace that is made, and what a hit is then."""

import dataclasses

import numpy as np
import pytest
from contract.replaying import run
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import BLOCK_TOKENS, Forest, forests

from hotset.policies.errors import PolicyError
from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import engine
from hotset.sim.flat import flatten
from hotset.sim.study import make_study, run_study
from hotset.sim.workload import Workload, beginning


def test_one_request_for_each_access():
    trace = Forest([[0, 1], [], [0, 1, 2]], short=[0, 0, 1]).trace()
    flat = flatten(trace, "count")
    assert flat.block_ids.tolist() == [0, 1, 0, 1, 2]
    assert flat.request_offsets.tolist() == [0, 1, 2, 3, 4, 5]
    assert flat.arrival_s.tolist() == [1.0, 1.0, 3.0, 3.0, 3.0]
    assert flat.input_tokens.tolist() == [4, 4, 4, 4, 3]
    # Without the partial last block, which nobody asks for then.
    assert flatten(trace, "drop").block_ids.tolist() == [0, 1, 0, 1]


def test_tags_go_with_the_accesses():
    forest = Forest([[0, 1], [2]], sources=[1, -1], priorities=[2.0, float("nan")])
    flat = flatten(forest.trace(), "drop")
    assert flat.source_type.tolist() == [1, 1, -1]
    np.testing.assert_array_equal(flat.priority, [2.0, 2.0, np.nan])


def test_parts_of_traces_whose_blocks_have_names():
    """Names are of all blocks and sessions; a part has fewer of both."""
    forest = Forest([[0, 1], [2], [3]], short=[1, 0, 0], sessions=[0, 1, 2])
    trace = dataclasses.replace(
        forest.trace(),
        block_names=np.array([70, 71, 72, 73]),
        session_names=np.array([7, 8, 9]),
    )
    assert flatten(trace, "drop").num_blocks == 3
    assert beginning(trace, 2).num_blocks == 3


def test_a_block_behind_a_gap_is_a_hit():
    # One slot: 0 and 1 take turns; the last two are 1 and 1.
    trace = Forest([[0, 1], [0], [0, 1]]).trace()
    prefix = run(Workload(trace), "lru:order=tail-first", 1)
    flat = run(Workload(flatten(trace, "drop")), "lru:order=tail-first", 1)
    # With the prefix rule 0 stays protected: it hits twice. By itself: 0 1 0* 0 1,
    # where only the access behind an equal one hits.
    assert (prefix.hit_blocks, flat.hit_blocks) == (2, 1)


@settings(max_examples=60, deadline=None)
@given(forests(), st.integers(1, 30))
def test_lru_is_a_list_of_keys(forest, capacity):
    keys = [key for path in forest.paths for key in path]
    if not keys:
        return
    newest, hits = [], 0
    for key in keys:
        hits += key in newest
        newest = [key, *(other for other in newest if other != key)][:capacity]
    workload = Workload(flatten(forest.trace(), "count"), "count")
    assert run(workload, "lru", capacity).hit_blocks == hits


def study(**settings_of):
    settings_of = {"engine": engine("none"), "flat": True, **settings_of}
    capacities = [parse_capacity("2")]
    return make_study(["lru"], "always", capacities=capacities, **settings_of)


def test_the_result_says_so():
    result = run_study(Forest([[0, 1], [0, 1]]).trace(), study()).as_json()
    assert result["settings"]["flat"] is True
    assert "prefix" in result["definitions"]["flat"]
    assert result["trace"]["requests"] == 2
    assert result["runs"][0]["requests"] == result["runs"][0]["accesses"] == 4
    assert result["runs"][0]["hit_blocks"] == 2
    assert result["runs"][0]["hit_tokens"] == 2 * BLOCK_TOKENS


@pytest.mark.parametrize(
    "wrong",
    [{"engine": engine("vllm-0.33")}, {"gpu_blocks": 8}, {"chunk_tokens": 8}],
)
def test_not_behind_an_engine(wrong):
    with pytest.raises(PolicyError, match="--flat: not with"):
        study(**wrong)


def test_nothing_to_access():
    with pytest.raises(PolicyError, match="no full block"):
        run_study(Forest([[0]], short=[1]).trace(), study())
