import json

import numpy as np
import pytest

from hotset.traces.errors import RowErrors, TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.stats import hit_runs

GOOD = {
    "chat_id": 1,
    "parent_chat_id": -1,
    "timestamp": 61.114,
    "input_length": 33,
    "output_length": 2,
    "type": "text",
    "turn": 1,
    "hash_ids": [7, 8, 9],
}


@pytest.fixture
def read(tmp_path):
    def read(*rows, **arguments):
        texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / "t.jsonl"
        path.write_text("\n".join(texts))
        return read_trace(path, **arguments)

    return read


def row(chat, parent=-1, **changes):
    return {**GOOD, "chat_id": chat, "parent_chat_id": parent, **changes}


def test_units_and_columns(read):
    trace = read(row(1), row(2, timestamp=62.5, type="search"), row(3, timestamp=63))
    assert trace.provenance.format == "qwen-bailian"
    assert trace.arrival_s.tolist() == [61.114, 62.5, 63.0]
    assert trace.block_tokens == 16
    assert not trace.chained
    names = [trace.source_type_names[code] for code in trace.source_type]
    assert names == ["text", "search", "text"]


def test_parents_link_requests_into_sessions(read):
    trace = read(
        row(5, -1),
        row(9, 7),  # its parent comes later
        row(7, 5),
        row(4, -1),
        row(3, 99),  # its parent is not in the file
        row(2, 99),
        row(8, 3),
    )
    assert trace.session.tolist() == [0, 0, 0, 1, 2, 3, 2]
    (warning,) = trace.provenance.warnings
    assert warning.startswith("rows whose parent_chat_id is not in the file: 2;")


def test_parents_in_a_circle_are_one_session(read):
    assert read(row(1, 2), row(2, 1), row(3, 3)).session.tolist() == [0, 0, 1]


def test_ids_stand_for_blocks_not_for_prefixes(read):
    ids = [[1, 2, 3], [4, 2, 3], [1, 2, 5]]
    trace = read(*(row(n, hash_ids=each) for n, each in enumerate(ids)))
    assert trace.block_ids.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 6]
    assert not trace.provenance.warnings


def test_an_id_twice_in_a_request(read):
    """A walk from the head: the second 1 is another block, stored once each."""
    trace = read(row(1, hash_ids=[1, 2, 1]), row(2, hash_ids=[1, 2, 1]))
    assert trace.block_ids.tolist() == [0, 1, 2, 0, 1, 2]
    assert hit_runs(trace.accesses("count")).tolist() == [0, 3]


def test_a_padded_last_block_is_no_reuse_and_no_warning(read):
    """The hash of a padded block is another in the next turn, whose block is full."""
    trace = read(
        row(1, hash_ids=[1, 2, 30], input_length=40),
        row(2, 1, hash_ids=[1, 2, 31, 4], input_length=64),
    )
    assert hit_runs(trace.accesses("drop")).tolist() == [0, 2]
    assert np.diff(trace.accesses("drop").offsets).tolist() == [2, 4]
    assert not trace.provenance.warnings


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hash_ids": [1]}, "hash_ids"),
        ({"hash_ids": [1, 2, 3, 4]}, "hash_ids"),
        ({"timestamp": "1"}, "timestamp"),
        ({"chat_id": None}, "chat_id"),
        ({"chat_id": 1.5}, "chat_id"),
        ({"parent_chat_id": []}, "parent_chat_id"),
        ({"type": 5}, "type"),
        ({"type": "x" * 300}, "type"),
        ({"block_size": 64}, "block_size"),
        ({"input_length": 0}, "input_length"),
    ],
)
def test_wrong_rows(read, changes, field):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, {**GOOD, **changes})
    (error,) = caught.value.rows
    assert (error.line, error.field) == (2, field)


def test_types_are_few(read):
    rows = [row(n, type=str(n)) for n in range(260)]
    with pytest.raises(RowErrors, match="at most 256 different texts"):
        read(*rows)


def test_no_ids_at_all(read):
    with pytest.raises(TraceError, match="no reuse information"):
        read(row(1, hash_ids=[]))


def test_rows_out_of_order(read):
    rows = [row(n, timestamp=t) for n, t in enumerate([10, 5, 7])]
    trace = read(*rows)
    assert trace.arrival_s.tolist() == [5, 7, 10]
    assert trace.provenance.warnings[0].startswith("rows earlier than the row before")
    with pytest.raises(TraceError, match="rows earlier than the row before them: 1"):
        read(*rows, options=ReadOptions(no_sort=True))
    assert read(*rows[1:], options=ReadOptions(no_sort=True)).num_requests == 2
