import gzip
import json
import os

import pytest

from hotset.traces import mooncake
from hotset.traces.errors import TraceError
from hotset.traces.registry import FORMATS, FormatRegistry, read_trace, sample_path

GOOD = {"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [7]}


def test_names():
    assert FORMATS.get("mooncake") is mooncake.SPEC
    with pytest.raises(
        TraceError, match=r"allowed: parquet, .*mooncake, .*; did you mean moo"
    ):
        FORMATS.get("Moncake")
    with pytest.raises(TraceError, match=r"allowed: [a-z, -]+$"):
        FORMATS.get("xyz")
    with pytest.raises(ValueError, match="registered twice"):
        FormatRegistry((mooncake.SPEC, mooncake.SPEC))


@pytest.mark.parametrize(
    "head",
    [
        json.dumps(GOOD),
        "\ufeff\r\n\n" + json.dumps(GOOD),
        "broken\n" + json.dumps(GOOD),
        '{"input_length": 1, "hash_ids": [1, 2, 3',
    ],
)
def test_mooncake_is_detected(head):
    assert FORMATS.detect("t", head.encode()).name == "mooncake"


@pytest.mark.parametrize(
    "content", [b"\x00\xff" * 50, b"a,b\n1,2\n", b"{}\n", b"[1]", b"\n\n", b"PAR2"]
)
def test_unknown_content_lists_the_formats(tmp_path, content):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"known formats: parquet, .*mooncake"):
        read_trace(path)


def test_detection_through_compression(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert read_trace(path).provenance.format == "mooncake"


def test_a_stated_format_is_not_second_guessed(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(json.dumps(GOOD).encode())
    with pytest.raises(TraceError, match="Parquet file is corrupt"):
        read_trace(path, "parquet")


def test_sample_is_a_name_unless_a_file_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = read_trace("sample")
    assert trace.num_requests == 2000
    assert trace.provenance.path == "sample"
    assert sample_path().stat().st_size < 300_000
    (tmp_path / "sample").mkdir()
    assert read_trace("sample").num_requests == 2000
    (tmp_path / "sample").rmdir()
    (tmp_path / "sample").write_text(json.dumps(GOOD))
    assert read_trace("sample").num_requests == 1


@pytest.mark.parametrize(
    "options",
    [
        {"on_bad_row": "ignore"},
        {"max_reject_share": 1.5},
        {"max_reject_share": float("nan")},
        {"format": "nope"},
    ],
)
def test_wrong_arguments(options):
    with pytest.raises(TraceError, match="allowed"):
        read_trace("sample", **options)


def test_reject_file_never_replaces_the_trace(tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps(GOOD))
    with pytest.raises(TraceError, match="the same file as the trace"):
        read_trace(path, on_bad_row="skip", rejects=f"{tmp_path}/./t")
    assert path.read_text() == json.dumps(GOOD)


def test_reject_file_is_there_even_if_empty(tmp_path):
    path = tmp_path / "t"
    path.write_text(json.dumps(GOOD))
    rejects = tmp_path / "rejects"
    rejects.write_text("of an earlier run")
    read_trace(path, on_bad_row="skip", rejects=rejects)
    assert rejects.read_text() == ""


def test_reject_file_is_not_left_by_a_failed_read(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode())[:-2])
    with pytest.raises(TraceError, match="cut short"):
        read_trace(path, on_bad_row="skip", rejects=tmp_path / "rejects")
    assert os.listdir(tmp_path) == ["t"]
