import pytest

from hotset.traces.stats import summarise


@pytest.fixture
def trace(make_trace):
    """Four requests of three sessions; block 0 comes back after 1, 4 and 7 s."""
    return make_trace(
        [[0, 1], [0, 2, 3], [0, 1], [0]],
        arrival_s=[0.0, 1.0, 5.0, 12.0],
        session=[0, 1, 0, 2],
        output_tokens=[0, 9, 0, 0],
    )


def test_reuse(trace):
    reuse = summarise(trace)["profile"]["reuse"]
    assert reuse["accesses_used_before"] == 4
    # Uses before: block 0 by 1, 4 and 7 s, block 1 by 5 s.
    assert [reuse["time_s"][name] for name in ("p1", "p50", "p99")] == [1, 4, 5]
    # Distinct in between: {1}; {2, 3}; {0, 2, 3}; {1}.
    found = reuse["distance_blocks"]
    assert [found[name] for name in ("p1", "p50", "p99")] == [1, 1, 2]
    assert reuse["distance_sample_one_in"] == 1


def test_over_time(trace):
    shape = summarise(trace)["profile"]["over_time"]
    assert shape["width_s"] == 0.2
    busy = {at: n for at, n in enumerate(shape["accesses"]) if n}
    assert busy == {0: 2, 5: 3, 25: 2, 59: 1}
    assert sum(shape["requests"]) == 4
    assert {at: n for at, n in enumerate(shape["new_blocks"]) if n} == {0: 2, 5: 2}
    assert shape["distinct_blocks"] == shape["accesses"]


def test_distinct_blocks_of_a_part_count_once(make_trace):
    at = [0.0, 0.001, 0.002, 60.0]
    shape = summarise(make_trace([[0], [0], [1], [0]], arrival_s=at))["profile"]
    over_time = shape["over_time"]
    assert (over_time["accesses"][0], over_time["distinct_blocks"][0]) == (3, 2)
    assert over_time["distinct_blocks"][-1] == 1


def test_clock_context_and_turns(trace):
    shape = summarise(trace, max_context=12)["profile"]
    assert shape["timestamps"] == {
        "distinct": 4,
        "smallest_step_s": 1.0,
        "median_step_s": 4.0,
        "most_requests_at_once": 1,
    }
    # Four tokens a block: only the second request has 12 + 9 tokens.
    assert shape["over_context"]["requests"] == 1
    assert shape["over_context"]["request_ratio"] == 0.25
    assert shape["turns_per_session"]["mean"] == 4 / 3
    assert shape["turns_per_session"]["max"] == 2


def test_a_trace_at_one_time_without_reuse_or_sessions(make_trace):
    shape = summarise(make_trace([[0], [1]], arrival_s=[3.0, 3.0]))["profile"]
    assert shape["over_time"] is None
    assert shape["turns_per_session"] is None
    assert shape["reuse"]["time_s"] is None
    assert shape["timestamps"]["median_step_s"] is None


def test_no_ceiling_without_block_ids(make_trace):
    summary = summarise(make_trace([[], []]))
    assert summary["tails"]["drop"]["ceiling"] is None
    assert summary["profile"]["reuse"]["distance_blocks"] is None
