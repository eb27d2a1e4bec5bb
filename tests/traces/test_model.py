from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.errors import TraceError

ROWS = [[0, 1, 2], [0, 1, 3], []]


def test_counts_and_dtypes(make_trace):
    trace = make_trace(ROWS)
    assert (trace.num_requests, trace.num_accesses, trace.num_blocks) == (3, 6, 4)
    assert trace.block_ids.dtype == np.int32
    assert trace.request_offsets.dtype == np.int64


def test_frozen_and_read_only(make_trace):
    trace = make_trace(ROWS)
    with pytest.raises(FrozenInstanceError):
        trace.block_tokens = 1
    with pytest.raises(ValueError, match="read-only"):
        trace.block_ids[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        trace.accesses("drop").ids[0] = 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"block_tokens": 0}, "block_tokens"),
        ({"arrival_s": np.array([0.0, 2.0, 1.0])}, "request 2: arrival_s"),
        ({"arrival_s": np.array([0.0, np.nan, 1.0])}, "request 1: arrival_s: got nan"),
        ({"arrival_s": np.array([0.0, 1.0])}, "request_offsets|input_tokens"),
        ({"input_tokens": np.array([12, 0, 1])}, "request 1"),
        ({"input_tokens": np.array([8, 12, 1])}, "request 0: block_ids: got 3"),
        ({"input_tokens": np.array([12, 12, 1.5])}, "input_tokens"),
        ({"output_tokens": np.array([1, 1, -1])}, "request 2: output_tokens"),
        ({"session": np.array([0, -2, 0])}, "request 1: session"),
        ({"block_ids": np.array([0, 2, 1, 0, 1, 3])}, r"block_ids\[1\]: got 2"),
        ({"block_ids": np.array([1, 0, 2, 0, 1, 3])}, r"block_ids\[0\]: got 1"),
        ({"block_ids": np.array([0, 1, 2, -1, 1, 3])}, r"block_ids\[3\]: got -1"),
        ({"block_ids": np.array([[0]])}, "dimensions"),
        ({"request_offsets": np.array([0, 3, 2, 6])}, "request_offsets"),
        ({"request_offsets": np.array([0, 3, 6, 7])}, "request_offsets"),
        ({"id_scope": "file"}, "id_scope"),
        ({"source_type": np.array([0, 1, -1]), "source_type_names": ("a",)}, "code"),
        ({"tenant_names": ("a",)}, "tenant_names"),
        ({"tenant": np.array([0, 0, 0]), "tenant_names": ("a", "a")}, "twice"),
        ({"priority": np.array([0.0, np.inf, 0.0])}, "request 1: priority"),
        ({"ttl_s": np.array([1.0, 0.0, np.nan])}, "request 1: ttl_s"),
        ({"end_session": np.array([True])}, "end_session"),
    ],
)
def test_invalid_is_refused(make_trace, columns, message):
    with pytest.raises(TraceError, match=message):
        make_trace(ROWS, **columns)


def test_no_requests_is_refused(make_trace):
    with pytest.raises(TraceError, match="at least one"):
        make_trace([])


def test_tail_rules_renumber_densely(make_trace):
    # Request 0's last block is partial: dropped, id 1 is free for the next.
    trace = make_trace([[0, 1], [0, 2]], input_tokens=np.array([7, 8]))
    dropped, counted = trace.accesses("drop"), trace.accesses("count")
    assert dropped.offsets.tolist() == [0, 1, 3]
    assert dropped.ids.tolist() == [0, 0, 1]
    assert dropped.num_distinct == 2
    assert counted.ids.tolist() == [0, 1, 0, 2]
    assert counted.num_distinct == 3
    with pytest.raises(TraceError, match="drop, count"):
        trace.accesses("keep")


def test_floor_formats_have_no_phantom_block(make_trace):
    trace = make_trace([[0, 1]], input_tokens=np.array([11]))
    assert trace.accesses("drop").ids.tolist() == [0, 1]
    assert trace.accesses("count").ids.tolist() == [0, 1]


def test_no_accesses_at_all(make_trace):
    trace = make_trace([[], []])
    for tail in ("drop", "count"):
        assert trace.accesses(tail).num_distinct == 0


def test_equals_looks_at_every_column(make_trace):
    tags = {"priority": np.array([np.nan, 1.0, 2.0])}
    assert make_trace(ROWS, **tags).equals(make_trace(ROWS, **tags))
    assert not make_trace(ROWS, **tags).equals(make_trace(ROWS))
    assert not make_trace(ROWS).equals(make_trace(ROWS, chained=False))
    assert not make_trace(ROWS).equals(make_trace([[0, 1, 2], [0, 1, 2], []]))


def test_a_block_twice_in_a_request_is_refused(make_trace):
    for rows, at in (([[0, 1], [0, 0]], 1), ([[0, 1, 2, 3], [3, 1], [2, 0, 2]], 2)):
        with pytest.raises(
            TraceError, match=f"request {at}: block_ids: got block . tw"
        ):
            make_trace(rows)
    # At several depths, but in no request twice.
    assert make_trace([[0, 1, 2], [2, 0], [], [1]]).num_blocks == 3


@given(st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=6))
def test_a_block_twice_is_found_wherever_it_is(make_trace, rows):
    numbers = {}
    rows = [[numbers.setdefault(i, len(numbers)) for i in row] for row in rows]
    twice = [at for at, row in enumerate(rows) if len(set(row)) < len(row)]
    for part in (1, 3, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hotset.traces.model_checks._CHECKED_AT_ONCE", part)
            if twice:
                with pytest.raises(TraceError, match=f"request {twice[0]}: block_ids"):
                    make_trace(rows)
            else:
                make_trace(rows)
