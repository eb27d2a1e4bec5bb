"""Rows that are checked many at once are read like rows that are checked one by one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import trace_files

from hotset.traces.errors import TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace

CHAINED = ReadOptions(time_unit="ms", block_tokens=512, chained=True)
NAMES = {
    "mooncake": ("timestamp", "input_length", "output_length", "hash_ids"),
    "qwen-bailian": ("timestamp", "input_length", "output_length", "hash_ids"),
    "recording": ("timestamp", "input_length", "output_length", "hash_ids"),
    "jsonl": ("time", "input", "output", "ids"),
}
SMALL_BLOCKS = ("qwen-bailian", "recording")
RECORDED = {"hotset_record": 1, "block_size": 16}
READERS = {
    "mooncake": "mooncake",
    "qwen-bailian": "qwen_bailian",
    "recording": "recorded",
    "jsonl": "declared",
}

times = st.sampled_from(
    [0, 3, 3.5, 2**53 + 1, 2**63, -1, True, None, "3", 1e300, 2**70]
)
counts = st.sampled_from(
    [1, 1, 17, 512, 513, 2**31, 0, -1, 655.0, 5.5, True, None, "5"]
)
ids = st.lists(
    st.sampled_from([1, 2, 3, 1, 2, 0, 2**62, 2**64, -1, True, 1.0, "1", None]),
    max_size=3,
)
extra = {
    "session_id": st.sampled_from([None, 1, "a", 2**70, 1.5, True, "x" * 257, {}]),
    "session": st.sampled_from([None, 1, "a", 2**70, 1.5, True, "x" * 257, {}]),
    "chat_id": st.sampled_from([5, "a", 6, None, 1.5, -1]),
    "parent_chat_id": st.sampled_from([-1, -1, 5, "a", 9, None, False]),
    "hotset_record": st.sampled_from([1, 2, True, None]),
    "delay": st.sampled_from([0, 7, 1.5, -1, None, "x"]),
    "block_size": st.sampled_from([512, 16, 512.0, None, [], "512"]),
    "type": st.sampled_from([None, "text", "image", 5, "y" * 257]),
    "more": st.sampled_from(
        [0, -1, "a:b", '":', "{", "a b :", [1], {"a": 1}, True, None]
    ),
}


@st.composite
def texts(draw, format):
    """Lines of a file, most of them right."""
    time, input_, output, name = NAMES[format]
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        number = draw(st.integers(1, 40))
        row = {time: number, input_: 16 * number, output: 1, name: []}
        size = -(-16 * number // (16 if format in SMALL_BLOCKS else 512))
        row[name] = [draw(st.integers(0, 3)) for _ in range(size)]
        row |= {"chat_id": number} if format == "qwen-bailian" else {}
        row |= RECORDED if format == "recording" else {}
        strange = {time: times, input_: counts, output: counts, name: ids, **extra}
        for key in draw(st.lists(st.sampled_from(sorted(strange)), max_size=2)):
            row[key] = draw(strange[key])
        for key in draw(st.lists(st.sampled_from(sorted(row)), max_size=1)):
            if draw(st.booleans()):
                del row[key]
        line = json.dumps(row, separators=draw(st.sampled_from([(",", ":"), None])))
        rows.append(draw(st.sampled_from([line] * 6 + broken(line))))
    return "\n".join(rows)


def broken(line):
    """Lines that only look like the line."""
    return [
        line.replace(":", " :"),
        line[:-1] + ',"output_length" :0,"output":0}',
        line[:-1] + ',"hash_ids":[{}\n{}]}',
        f"{line},{line}",
        line + " ",
        " " + line,
        line[:-1],
        "[]",
    ]


def outcome(path, format, on_bad_row):
    """All that comes of reading."""
    options = CHAINED if format == "jsonl" else ReadOptions()
    try:
        trace = read_trace(
            path, format, on_bad_row, max_reject_share=1.0, options=options
        )
    except TraceError as error:
        return str(error)
    columns = {
        name: None if (column := getattr(trace, name)) is None else column.tolist()
        for name in (
            *("block_ids", "request_offsets", "arrival_s", "input_tokens"),
            *("output_tokens", "session", "source_type", "block_names"),
            "session_names",
        )
    }
    return columns, trace.source_type_names, trace.provenance


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("batch") / "t.jsonl"


@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("on_bad_row", ["strict", "skip"])
@given(st.data())
@settings(max_examples=250)
def test_many_at_once_are_read_like_one_by_one(path, format, on_bad_row, data):
    path.write_text(data.draw(texts(format)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"hotset.traces.{READERS[format]}.flat_rows", lambda raws: None)
        expected = outcome(path, format, on_bad_row)
    assert outcome(path, format, on_bad_row) == expected


ROWS = {
    "mooncake": trace_files.MOONCAKE,
    "qwen-bailian": trace_files.BAILIAN,
    "recording": trace_files.RECORDING,
    "jsonl": {**trace_files.GENERIC, "ids": [1]},
}


@pytest.mark.parametrize("format", ROWS)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"model": "llama-3", "stream": True, "ttft": -0.25, "who": None},
        {"at": "2024-01-01T10:00:00Z", "url": "http://x?y=1"},
        {"session_id": "0f3c-aaaa", "session": "0f3c-aaaa"},
        {"tags": ["a", "b"], "turn": 3},
    ],
)
def test_usual_rows_are_checked_at_once(tmp_path, monkeypatch, format, more):
    rows = [{**ROWS[format], **more}] * 3
    if format == "mooncake":
        later = {**rows[0], "delay": 5, "timestamp": None}
        rows = [rows[0], later, {**later, "session_id": rows[0]["session_id"]}]

    def never(self, raw):
        raise AssertionError(f"checked on its own: {raw}")

    holder = "DeclaredRows" if format == "jsonl" else "_Rows"
    monkeypatch.setattr(f"hotset.traces.{READERS[format]}.{holder}.add", never)
    path = tmp_path / "t.jsonl"
    path.write_bytes(trace_files.lines(*rows))
    options = (
        ReadOptions(time_unit="ms", block_tokens=40) if format == "jsonl" else None
    )
    found = read_trace(path, format, options=options or ReadOptions())
    assert found.num_requests == 3
