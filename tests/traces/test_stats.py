import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.errors import TraceError
from hotset.traces.registry import read_trace
from hotset.traces.stats import ceiling, hit_runs, summarise

GOLDEN = {
    "conversation": {
        "sizes": (12031, 288500, 182790),
        "count": (105710, 288500, 0.36641, 0.37362, 0.39811),
        "drop": (105592, 276491, 0.38190, 0.37338, 0.39779),
        "distinct_drop": 170899,
    },
    "synthetic": {
        "sizes": (3993, 121877, 43924),
        "count": (77953, 121877, 0.63960, 0.65124, 0.86275),
        "drop": (77740, 117888, 0.65944, 0.65043, 0.86159),
        "distinct_drop": 40148,
    },
}


@pytest.mark.parametrize("name", GOLDEN)
def test_public_traces(public_traces, name):
    golden = GOLDEN[name]
    trace = read_trace(public_traces / f"mooncake_{name}.jsonl.gz")
    sizes = (trace.num_requests, trace.num_accesses, trace.num_blocks)
    assert sizes == golden["sizes"]
    assert trace.provenance.warnings == ()
    assert trace.accesses("drop").num_distinct == golden["distinct_drop"]
    for tail in ("count", "drop"):
        whole = ceiling(trace, tail)
        half = ceiling(trace, tail, trace.num_requests // 2)
        assert (
            whole.hit_blocks,
            whole.accesses,
            round(whole.block_hit_ratio, 5),
            round(whole.token_hit_ratio, 5),
            round(half.token_hit_ratio, 5),
        ) == golden[tail]


def naive_runs(rows):
    seen, runs = set(), []
    for row in rows:
        run = 0
        while run < len(row) and row[run] in seen:
            run += 1
        runs.append(run)
        seen.update(row)
    return runs


@given(st.data())
def test_runs_equal_a_set_that_forgets_nothing(make_trace, data):
    seen = 0
    rows = []
    for _ in range(data.draw(st.integers(1, 8))):
        row = []
        for _ in range(data.draw(st.integers(0, 5))):
            block = data.draw(st.integers(0, seen))
            if block not in row:
                row.append(block)
                seen = max(seen, block + 1)
        rows.append(row)
    trace = make_trace(rows)
    runs = naive_runs(rows)
    assert hit_runs(trace.accesses("count")).tolist() == runs
    first = data.draw(st.integers(0, len(rows) - 1))
    most = ceiling(trace, "count", first)
    assert most.hit_blocks == sum(runs[first:])
    assert most.accesses == sum(map(len, rows[first:]))
    assert most.input_tokens == trace.input_tokens[first:].sum()


def test_hit_tokens_stop_at_the_prompt_and_tails_stay_in_the_denominator(make_trace):
    trace = make_trace([[0, 1], [0, 1]], input_tokens=np.array([7, 7]))
    counted, dropped = ceiling(trace, "count"), ceiling(trace, "drop")
    assert (counted.hit_blocks, counted.hit_tokens) == (2, 7)
    assert (dropped.hit_blocks, dropped.hit_tokens) == (1, 4)
    assert counted.input_tokens == dropped.input_tokens == 14


def test_no_accesses(make_trace):
    most = ceiling(make_trace([[], []]), "drop")
    assert (most.token_hit_ratio, most.block_hit_ratio) == (0.0, 0.0)


@pytest.mark.parametrize("first", [-1, 2])
def test_window_outside_the_trace(make_trace, first):
    with pytest.raises(TraceError, match=r"allowed: 0\.\.1"):
        ceiling(make_trace([[0], [0]]), "drop", first)


def test_summary_is_json_and_counts(make_trace):
    trace = make_trace(
        [[0, 1], [0], []],
        arrival_s=np.array([0.0, 0.0, 5.0]),
        session=np.array([3, 3, -1]),
    )
    summary = summarise(trace)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["span_s"] == 5.0
    assert summary["distinct_timestamps"] == 2
    assert summary["sessions"] == 1
    assert summary["requests_without_session"] == 1
    assert summary["requests_without_blocks"] == 1
    assert summary["commonest_first_block_ratio"] == 2 / 3
    assert list(summary["tails"]) == ["drop", "count"]
    assert summary["input_tokens"]["max"] == 8
