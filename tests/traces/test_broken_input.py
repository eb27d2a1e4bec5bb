"""No input, however broken, gives a traceback, hangs, or is silently shortened."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import trace_files

from hotset.traces.errors import ArgumentError, RowErrors, TraceError
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.registry import FORMATS, read_trace

FORMAT_NAMES = [spec.name for spec in FORMATS]
FILES = [
    *("jsonl", "csv", "mooncake", "bailian", "conversation", "tar", "chat"),
    *("sharegpt", "burstgpt", "azure", ".jsonl.gz", ".jsonl.zst", ".parquet"),
    "recording",
]
ROWS = {
    "jsonl": trace_files.GENERIC,
    "mooncake": {**trace_files.MOONCAKE, "delay": 4},
    "bailian": trace_files.BAILIAN,
    "recording": trace_files.RECORDING,
    "conversation": trace_files.CONVERSATION,
    "chat": trace_files.CHAT,
    "sharegpt": trace_files.SHAREGPT,
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["t", "type", "requests", "role", "value", "usage"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("broken") / "t"


class Files(dict):
    """Files by name; hypothesis prints arguments, and their bytes are many."""

    def __repr__(self):
        return f"Files({', '.join(self)})"


@pytest.fixture(scope="module")
def files(path):
    made = Files(trace_files.valid_files(path.parent))
    assert set(made) == set(FILES)
    assert {format for _, format, _ in made.values()} == set(FORMAT_NAMES)
    return made


def reads_or_refuses(path, data, format=None, options=None):
    """Nothing but a trace or one clear error comes of any bytes."""
    path.write_bytes(data)
    for on_bad_row in ("strict", "skip"):
        try:
            trace = read_trace(
                path,
                format,
                on_bad_row,
                max_reject_share=1.0,
                options=options or ReadOptions(),
            )
        except TraceError as error:
            if not isinstance(error, ArgumentError):
                assert str(error).startswith(str(path))
            assert all(line.isprintable() for line in str(error).split("\n"))
            assert isinstance(error, RowErrors) or "\n" not in str(error)
        else:
            assert isinstance(trace, Trace)
            if on_bad_row == "strict":
                said = any("left out" in text for text in trace.provenance.warnings)
                assert said or not trace.provenance.rows_rejected


@pytest.mark.parametrize("name", FILES)
def test_the_files_to_break_are_whole(path, files, name):
    data, format, options = files[name]
    path.write_bytes(data)
    found = read_trace(path, format, options=options)
    assert found.provenance.format == format
    if name not in ("jsonl", "csv"):
        assert read_trace(path, options=options).equals(found)


@given(st.binary(max_size=300), st.sampled_from([None, *FORMAT_NAMES]), st.data())
@settings(max_examples=300)
def test_random_bytes(path, files, data, format, draw):
    options = draw.draw(st.sampled_from([options for _, _, options in files.values()]))
    reads_or_refuses(path, data, format, options)


def replaced(value, at, new):
    """Copy of a JSON value in which the item at a place, counted down, is another."""
    if at == 0:
        return new, -1
    at -= 1
    if isinstance(value, dict):
        items = []
        for key, item in value.items():
            item, at = (item, at) if at < 0 else replaced(item, at, new)
            items.append((key, item))
        return dict(items), at
    if isinstance(value, list):
        copy = []
        for item in value:
            item, at = (item, at) if at < 0 else replaced(item, at, new)
            copy.append(item)
        return copy, at
    return value, at


@pytest.mark.parametrize("name", ROWS)
@given(
    st.integers(0, 25),
    json_values,
    st.sampled_from(["", "\n", "\r\n", "\x00", "\ufeff", "}", ":1}"]),
)
@settings(max_examples=150)
def test_values_of_the_wrong_types(path, files, name, at, value, junk):
    row = ROWS[name]
    _, format, options = files[name]
    lines = [json.dumps(row), json.dumps(replaced(row, at, value)[0]) + junk]
    reads_or_refuses(path, "\n".join([*lines, lines[0]]).encode(), format, options)


@pytest.mark.parametrize("name", FILES)
@given(st.data())
@settings(max_examples=100)
def test_bytes_changed_removed_and_inserted(path, files, name, data):
    content, format, options = files[name]
    broken = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken)))
        length = data.draw(st.integers(0, 3))
        broken[at : at + length] = data.draw(st.binary(max_size=3))
    reads_or_refuses(path, bytes(broken), format, options)


# Formats in which a file that ends early is always noticed: their ends are marked.
MARKED = ["conversation", "tar", "sharegpt", ".jsonl.gz", ".jsonl.zst", ".parquet"]


@pytest.mark.parametrize("name", FILES)
def test_files_cut_anywhere(path, files, name):
    content, format, options = files[name]
    path.write_bytes(content)
    whole = read_trace(path, format, options=options)
    step = max(1, len(content) // 300)
    for length in range(0, len(content), step):
        reads_or_refuses(path, content[:length], format, options)
        if name in MARKED:
            try:
                found = read_trace(path, format, options=options)
            except TraceError:
                continue
            assert found.equals(whole), f"cut at {length} of {len(content)}"


@given(st.data())
@settings(max_examples=60)
def test_parquet_with_a_flipped_bit(path, files, data):
    content = bytearray(files[".parquet"][0])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    reads_or_refuses(path, bytes(content))


def test_a_gzip_of_zeros_is_read_in_bounded_pieces(path):
    reads_or_refuses(path, gzip.compress(b"\0" * 50_000_000))


@pytest.mark.parametrize("text", ["[" * 1_000_000, '["' + "\\" * 1_000_000, "[{" * 9])
def test_arrays_without_end_are_refused_in_linear_time(path, files, text):
    _, format, options = files["sharegpt"]
    reads_or_refuses(path, text.encode(), format, options)
