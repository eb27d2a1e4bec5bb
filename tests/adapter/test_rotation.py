"""A recording in several files: the newest traffic, bounded, each file whole."""

import gzip
import itertools
import json
import os
import shutil
from types import SimpleNamespace

import pytest
from support.recordings import ended, nothing_but, record

from hotset.adapter import record_rotation
from hotset.adapter.config import read_config
from hotset.adapter.record_rotation import RotatedFiles
from hotset.policies import PolicyError
from hotset.traces import read_trace
from hotset.traces.record import HEAD

BYTES = 60_000


def requests(count, first=0):
    return [ended(f"p{i}", 3000, at=float(i)) for i in range(first, first + count)]


def finished(folder):
    """The finished files, the oldest first."""
    return sorted(folder.glob("trace-*"))


def times(folder):
    """The time of every row in all files, in their order."""
    kept = []
    for path in [*finished(folder), folder / "trace.jsonl"]:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        kept += [json.loads(line)["timestamp"] for line in text.splitlines()]
    return kept


def size(folder):
    return sum(p.stat().st_size for p in folder.iterdir() if p.suffix != ".key")


def test_no_byte_too_many_at_any_moment(tmp_path, monkeypatch):
    sizes = []

    def copy(source, target, length):
        shutil.copyfileobj(source, target, length)
        target.flush()
        sizes.append(size(tmp_path))

    monkeypatch.setattr(record_rotation, "shutil", SimpleNamespace(copyfileobj=copy))
    files = RotatedFiles(tmp_path / "trace.jsonl", BYTES, 4)
    for number in range(400):
        assert files.append([HEAD + b"%d}\n" % number + b" " * (number % 7000)]) == 1
        sizes.append(size(tmp_path))
    files.close()
    assert max(sizes) <= BYTES
    assert len(sizes) > 405  # and files were compressed meanwhile


def test_the_newest_traffic_is_kept(tmp_path):
    recorder = record(tmp_path / "trace.jsonl", requests(400), max_bytes=BYTES, files=4)
    nothing_but(recorder, recorded=400)
    kept = times(tmp_path)
    gaps = [round(b - a) for a, b in itertools.pairwise(kept)]
    assert gaps == [1000] * len(gaps)  # the last ones, none missing
    assert 15 < len(kept) < 400
    assert len(finished(tmp_path)) == 3
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_each_file_is_a_recording(tmp_path):
    record(tmp_path / "trace.jsonl", requests(100), max_bytes=BYTES, files=4)
    paths = [*finished(tmp_path), tmp_path / "trace.jsonl"]
    traces = [read_trace(path) for path in paths]
    assert {trace.provenance.format for trace in traces} == {"recording"}
    assert sum(trace.num_requests for trace in traces) == len(times(tmp_path))


def test_the_same_rows_give_the_same_bytes(tmp_path):
    rows = tmp_path / "rows"
    packed = []
    for _ in range(2):
        rows.write_bytes(b"a row\n" * 100)
        rows.chmod(0o600)
        record_rotation._compress(rows)
        packed.append((tmp_path / "rows.gz").read_bytes())
    assert packed[0] == packed[1]
    assert gzip.decompress(packed[0]) == b"a row\n" * 100


def test_numbers_go_on_after_a_restart(tmp_path):
    path = tmp_path / "trace.jsonl"
    for run in range(3):
        record(path, requests(60, 60 * run), max_bytes=BYTES, files=3)
    numbers = [int(path.name[6:12]) for path in finished(tmp_path)]
    assert numbers == [numbers[0], numbers[0] + 1]
    assert numbers[0] > 3
    assert times(tmp_path) == sorted(times(tmp_path))


def test_what_a_crash_left_is_cleared_or_kept_whole(tmp_path):
    """A torn compressed file goes; rows put aside and not compressed yet stay."""
    path = tmp_path / "trace.jsonl"
    record(path, requests(3), max_bytes=BYTES, files=3)
    os.rename(path, tmp_path / "trace-000007.jsonl")
    torn = tmp_path / ".trace-000007.jsonl.gz.part"
    torn.write_bytes(b"half")
    record(path, requests(3, 3), max_bytes=BYTES, files=3)
    assert not torn.exists()
    assert finished(tmp_path) == [tmp_path / "trace-000007.jsonl"]
    assert len(times(tmp_path)) == 6


def test_files_of_others_are_left_alone(tmp_path):
    others = [
        "trace-1.jsonl",
        "trace-000001.txt",
        "other-000001.jsonl",
        "trace.jsonl.x",
    ]
    for name in others:
        (tmp_path / name).write_text("precious")
    record(tmp_path / "trace.jsonl", requests(200), max_bytes=BYTES, files=2)
    for name in others:
        assert (tmp_path / name).read_text() == "precious"


def test_what_cannot_be_compressed_stays_as_it_is(tmp_path, caplog, monkeypatch):
    def no_space(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record_rotation.shutil, "copyfileobj", no_space)
    recorder = record(tmp_path / "trace.jsonl", requests(200), max_bytes=BYTES, files=3)
    nothing_but(recorder, recorded=200)
    assert [path.suffix for path in finished(tmp_path)] == [".jsonl"] * 2
    assert size(tmp_path) <= BYTES
    assert not list(tmp_path.glob(".*"))
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text


def test_a_row_larger_than_a_file_is_left_out(tmp_path):
    recorder = record(
        tmp_path / "trace.jsonl",
        [ended("a", 100), ended("b", 50_000), ended("c", 100)],
        max_bytes=3 * 8192,
        files=2,
    )
    nothing_but(recorder, recorded=2, full=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"files": 0}, '"files" is 0: a whole number from 1 to 1000'),
        ({"files": True}, '"files" is True'),
        ({"files": 2.0}, '"files" is 2.0'),
        ({"files": 1001}, '"files" is 1001'),
        ({"files": 9, "max_bytes": 40_000}, "from 40960 on are needed"),
    ],
)
def test_the_number_of_files_in_the_configuration(given, said):
    with pytest.raises(PolicyError, match=r"(is|are) needed") as raised:
        read_config({"hotset": {"record": {"path": "t.jsonl", **given}}})
    assert said in str(raised.value)


def test_failing_writes_drop_no_file(tmp_path, monkeypatch):
    """A disk that is full for a while costs the rows of that while, nothing else."""
    files = RotatedFiles(tmp_path / "trace.jsonl", BYTES, 4)
    row = HEAD + b"1}\n" + b" " * 3000
    for _ in range(40):
        files.append([row])
    before = {path: path.read_bytes() for path in finished(tmp_path)}
    before[files.path] = files.path.read_bytes()
    assert len(before) == 4

    def no_space(fd, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", no_space)
        for _ in range(12):
            with pytest.raises(OSError):
                files.append([row] * 20)
    after = {path: path.read_bytes() for path in before}
    assert after == before
    assert files.append([row]) == 1
    files.close()
