import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.traces.errors import RowErrors, TraceError
from hotset.traces.generate import generate
from hotset.traces.model import Trace
from hotset.traces.registry import read_trace
from hotset.traces.write import write_trace

ROW = {"timestamp": 5, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ROW, "session_id"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("broken") / "t"


@pytest.fixture(scope="module")
def packed(path):
    """Small valid files of every form."""
    trace = generate("chat", 5, 1)
    files = {}
    for ending in (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"):
        target = path.with_name(f"valid{ending}")
        write_trace(trace, target)
        files[ending] = target.read_bytes()
    return files


def reads_or_refuses(path, data, format=None):
    """Nothing but a trace or one clear error comes of any bytes."""
    path.write_bytes(data)
    for on_bad_row in ("strict", "skip"):
        try:
            trace = read_trace(path, format, on_bad_row, max_reject_share=1.0)
        except TraceError as error:
            assert str(error).startswith(str(path))
            assert all(line.isprintable() for line in str(error).split("\n"))
            assert isinstance(error, RowErrors) or "\n" not in str(error)
        else:
            assert isinstance(trace, Trace)


@given(st.binary(max_size=300), st.sampled_from([None, "mooncake", "parquet"]))
@settings(max_examples=150)
def test_random_bytes(path, data, format):
    reads_or_refuses(path, data, format)


@given(
    st.dictionaries(st.sampled_from([*ROW, "session_id", "x"]), json_values),
    st.sampled_from(["", "\n", "\r\n", "\x00", "\ufeff", "}"]),
)
@settings(max_examples=200)
def test_rows_of_the_wrong_types(path, changes, junk):
    lines = [json.dumps(ROW), json.dumps({**ROW, **changes}) + junk, json.dumps(ROW)]
    reads_or_refuses(path, "\n".join(lines).encode(), "mooncake")


@given(st.data(), st.sampled_from([".jsonl", ".jsonl.gz", ".jsonl.zst"]))
@settings(max_examples=200)
def test_bytes_changed_removed_and_inserted(path, packed, data, ending):
    content = bytearray(packed[ending])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 3))
        content[at : at + length] = data.draw(st.binary(max_size=3))
    reads_or_refuses(path, bytes(content))


@given(st.floats(0, 1), st.sampled_from([".jsonl", ".jsonl.gz", ".parquet"]))
@settings(max_examples=60)
def test_files_cut_anywhere(path, packed, share, ending):
    content = packed[ending]
    reads_or_refuses(path, content[: int(share * len(content))])


@given(st.data())
@settings(max_examples=60)
def test_parquet_with_a_flipped_bit(path, packed, data):
    content = bytearray(packed[".parquet"])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    reads_or_refuses(path, bytes(content))


def test_a_gzip_of_zeros_is_read_in_bounded_pieces(path):
    reads_or_refuses(path, gzip.compress(b"\0" * 50_000_000))
