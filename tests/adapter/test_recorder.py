"""The recorder without vLLM: whole rows, bounds, samples, failures that stay inside."""

import fcntl
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from support.recordings import BLOCK, ended, nothing_but, record

from hotset.adapter.config import read_config
from hotset.adapter.record_file import RecordFile, read_secret
from hotset.adapter.recorder import OUTCOMES, RecordConfig, Recorder
from hotset.adapter.units import read_bytes
from hotset.policies import PolicyError
from hotset.traces import read_trace
from hotset.traces.record import HEAD


def rows(path):
    text = path.read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def test_what_is_written_is_what_is_read(tmp_path):
    path = tmp_path / "trace.jsonl"
    requests = [
        ended("a", 100, at=1.0, session="s-1", source_type=1, loaded=2, stored=1),
        ended("b", 64, output=70, at=3.0),
        # Came before the one above, ended after it.
        ended("a", 160, at=2.0, session="s-1", priority=2.0, ttl_s=60.0),
        ended("short", 20, at=4.0, tenant="t", end_session=True),
    ]
    nothing_but(record(path, requests), recorded=4)
    trace = read_trace(path)
    assert trace.block_tokens == BLOCK
    assert trace.input_tokens.tolist() == [100, 160, 64, 20]
    assert trace.output_tokens.tolist() == [4, 4, 70, 4]
    assert np.diff(trace.arrival_s).round(3).tolist() == [1.0, 1.0, 1.0]
    assert trace.session.tolist() == [0, 0, -1, -1]
    assert trace.source_type_names == ("user",)
    assert trace.source_type.tolist() == [0, -1, -1, -1]
    # 3 blocks, the same and 2 more, 2 of another prompt, none.
    assert trace.block_ids.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]
    assert trace.request_offsets.tolist() == [0, 3, 8, 10, 10]
    assert (trace.provenance.format, trace.provenance.warnings) == ("recording", ())
    first, second, third, last = rows(path)
    assert (first["loaded_blocks"], first["stored_blocks"]) == (2, 1)
    assert len(second["output_hash_ids"]) == 2
    assert (third["priority"], third["ttl_s"]) == (2.0, 60.0)
    assert last["end_session"] is True


def test_no_name_and_no_hash_is_readable(tmp_path):
    path = tmp_path / "trace.jsonl"
    request = ended("a", 100, session="alice", tenant="acme")
    record(path, [request])
    text = path.read_text()
    assert "alice" not in text and "acme" not in text
    for block in request.hashes:
        assert block.hex()[:12] not in text
        assert str(int.from_bytes(block[:8], "big") >> 1) not in text
    for file in (path, tmp_path / "trace.jsonl.key"):
        assert file.stat().st_mode & 0o777 == 0o600
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["trace.jsonl", "trace.jsonl.key"]


def test_runs_follow_one_another_in_one_file(tmp_path):
    """Ids mean the same in both: the key stays."""
    path = tmp_path / "trace.jsonl"
    for run in range(2):
        record(path, [ended("a", 100, at=float(run))])
    first, second = rows(path)
    assert first["hash_ids"] == second["hash_ids"]
    assert second["timestamp"] > first["timestamp"]


def test_it_stops_at_its_size(tmp_path, caplog):
    path = tmp_path / "trace.jsonl"
    requests = [ended(f"p{i}", 3000) for i in range(40)]
    recorder = record(path, requests, max_bytes=20_000)
    assert path.stat().st_size <= 20_000
    kept = rows(path)
    assert 5 < len(kept) < 40
    nothing_but(recorder, recorded=len(kept), full=40 - len(kept))
    assert "has its 20000 bytes and stops" in caplog.text
    again = record(path, requests[:1], max_bytes=20_000)
    nothing_but(again, full=1)


@pytest.mark.parametrize("cut", [1, 5, 200])
def test_a_row_that_was_cut_off_is_left_out_and_cut_away(tmp_path, cut):
    """As a crash leaves it: read without it, and continued without it."""
    path = tmp_path / "trace.jsonl"
    record(path, [ended("a", 1000), ended("b", 1000)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    trace = read_trace(path)
    left_out = cut > 1  # without its line end alone a row is whole
    assert trace.num_requests == 2 - left_out
    assert ("cut off" in "".join(trace.provenance.warnings)) == left_out
    record(path, [ended("c", 1000)])
    first = whole[: whole.index(b"\n") + 1]
    assert path.read_bytes().startswith(first + HEAD)
    assert len(rows(path)) == 2


def test_a_killed_process_leaves_whole_rows(tmp_path):
    """It is killed while it writes, with no chance to close anything."""
    path = tmp_path / "trace.jsonl"
    code = f"""
        import itertools
        from hotset.adapter.recorder import Ended, RecordConfig, Recorder
        from hotset.adapter.tags import Tags
        recorder = Recorder(RecordConfig({str(path)!r}), 32)
        print("ready", flush=True)
        for i in itertools.count():
            hashes = [b"%d:%d" % (i % 50, block) for block in range(62)]
            recorder.note(Ended(float(i), 2000, 4, hashes, Tags(), 0, 0))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline() == b"ready\n"
        while not path.exists() or path.stat().st_size < 50_000:
            assert process.poll() is None
        process.kill()
    whole = read_trace(path).num_requests
    assert whole >= 10
    record(path, [ended("after", 100)])
    assert len(rows(path)) == whole + 1


def test_a_full_disk_loses_rows_and_no_more(tmp_path, caplog):
    """Writes fail for a while: each row is whole or not there."""
    path = tmp_path / "trace.jsonl"
    file = RecordFile(path, 1 << 20)
    assert file.append([HEAD + b"1}\n"]) == 1
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        for _ in range(2):
            with pytest.raises(OSError):
                file.append([HEAD + b"2" * 8000 + b"}\n"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.append([HEAD + b"3}\n"]) == 1
    file.close()
    assert path.read_bytes() == HEAD + b"1}\n" + HEAD + b"3}\n"


def test_failing_writes_are_logged_once_and_counted(tmp_path, caplog, monkeypatch):
    path = tmp_path / "trace.jsonl"
    recorder = Recorder(RecordConfig(str(path)), BLOCK)

    def no_space(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    for i in range(20):
        recorder.note(ended(f"p{i}", 100))
    recorder.close()
    nothing_but(recorder, failed=20)
    errors = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "No space left" in errors[0].getMessage()


@pytest.mark.parametrize("kind", ["no folder", "a folder", "another file", "a pipe"])
def test_a_bad_path_records_nothing_and_disturbs_nobody(tmp_path, caplog, kind):
    path = tmp_path / "trace.jsonl"
    if kind == "no folder":
        path = tmp_path / "none" / "trace.jsonl"
    elif kind == "a folder":
        path.mkdir()
    elif kind == "another file":
        path.write_text("precious\n")
    else:
        os.mkfifo(path)
    nothing_but(record(path, [ended("a", 100)] * 3), failed=3)
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    if kind == "another file":
        assert path.read_text() == "precious\n"


def test_a_damaged_key_is_refused(tmp_path, caplog):
    (tmp_path / "trace.jsonl.key").write_bytes(b"short")
    nothing_but(record(tmp_path / "trace.jsonl", [ended("a", 100)]), failed=1)
    assert "no key of 32 bytes" in caplog.text


def test_processes_that_share_a_path_have_files_of_their_own(tmp_path):
    path = tmp_path / "trace.jsonl"
    first = Recorder(RecordConfig(str(path)), BLOCK)
    second = Recorder(RecordConfig(str(path)), BLOCK)
    for recorder in (first, second):
        recorder.note(ended("a", 100))
        recorder.close()
    assert second.path == tmp_path / "trace.1.jsonl"
    (one,), (other,) = rows(first.path), rows(second.path)
    assert one["hash_ids"] == other["hash_ids"]
    with path.open("rb") as file:  # let go once it is closed
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_more_than_the_writer_can_take_is_left_out(tmp_path, monkeypatch):
    from hotset.adapter import recorder as module

    monkeypatch.setattr(module, "MAX_WAITING_BLOCKS", 100)
    recorder = Recorder(RecordConfig(str(tmp_path / "trace.jsonl")), BLOCK)
    monkeypatch.setattr(recorder, "_num_taken", -1000)
    recorder.note(ended("a", 100))
    monkeypatch.setattr(recorder, "_num_taken", 0)
    recorder.note(ended("a", 100))
    recorder.close()
    nothing_but(recorder, recorded=1, busy=1)


def test_a_sample_keeps_all_reuse_among_what_it_keeps(tmp_path):
    """Sessions and prompts with a common first block go in or out as one."""
    draw = random.Random(1)
    requests = []
    for _ in range(2000):
        number = draw.randrange(100)
        tagged = number < 50
        session = f"s{number}" if tagged else None
        # Sessions begin alike; the others do not.
        prompt = "common" if tagged else f"p{number}"
        requests.append(ended(prompt, BLOCK * draw.randrange(1, 6), session=session))
    full, part = tmp_path / "full.jsonl", tmp_path / "part.jsonl"
    record(full, requests)
    (tmp_path / "part.jsonl.key").write_bytes(
        (tmp_path / "full.jsonl.key").read_bytes()
    )
    recorder = record(part, requests, sample=0.3)
    kept = recorder.counts["recorded"]
    assert kept + recorder.counts["not sampled"] == 2000
    assert 300 < kept < 900

    def named(row):
        return row.get("session_id") or row["hash_ids"][0]

    chosen = {named(row) for row in rows(part)}
    expected = [row for row in rows(full) if named(row) in chosen]
    assert [row["hash_ids"] for row in rows(part)] == [
        row["hash_ids"] for row in expected
    ]
    assert 15 < len(chosen) < 45


def test_the_secret_is_one_for_all(tmp_path):
    path = tmp_path / "trace.jsonl"
    assert read_secret(path) == read_secret(path)
    assert read_secret(tmp_path / "other.jsonl") != read_secret(path)


def test_the_key_in_the_configuration():
    config = read_config({"hotset": {"record": {"path": "t.jsonl"}}})
    assert config.record == RecordConfig("t.jsonl", 1 << 30, 1.0)
    given = {"path": "t.jsonl", "max_bytes": "64 MiB", "sample": 0.25}
    config = read_config({"hotset": {"record": given}})
    assert config.record == RecordConfig("t.jsonl", 64 << 20, 0.25)
    assert "recorded to t.jsonl" in config.describe()
    assert read_config({}).record is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("t.jsonl", ["an object is needed"]),
        ({}, ['"path" is None']),
        ({"path": "t", "max_byte": 1}, ["did you mean 'max_bytes'"]),
        (
            {"path": 3, "max_bytes": "1 parsec", "sample": 0},
            ['"path" is 3', "1 parsec", '"sample" is 0'],
        ),
        ({"path": "t", "max_bytes": True, "sample": True}, ["is True", "is True"]),
        ({"path": "t", "sample": float("nan")}, ["is nan"]),
        ({"path": "t", "max_bytes": 100}, ["from 4096 on"]),
        ({"path": "t", "max_bytes": "9" * 310 + "GB"}, ["bytes from 4096"]),
        ({"path": "t.jsonl.gz"}, ["is plain text"]),
    ],
)
def test_everything_wrong_with_it_is_said_at_once(given, said):
    with pytest.raises(PolicyError) as raised:
        read_config({"hotset": {"record": given}})
    lines = str(raised.value).splitlines()
    assert len(lines) == len(said)
    for part in said:
        assert part in str(raised.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (5, 5),
        ("7B", 7),
        ("1.5KiB", 1536),
        ("2 MB", 2_000_000),
        ("64GiB", 64 << 30),
        ("1iB", None),
        ("1 G", None),
        (1.5, None),
        (None, None),
        ("-1GB", None),
    ],
)
def test_bytes_with_units(text, size):
    assert read_bytes(text) == size


def test_outcomes_are_known_from_the_start(tmp_path):
    assert set(record(tmp_path / "t.jsonl", []).counts) == set(OUTCOMES)


def test_modes_are_set_right_and_links_are_not_followed(tmp_path, caplog):
    path = tmp_path / "trace.jsonl"
    record(path, [ended("a", 100)])
    path.chmod(0o644)
    (tmp_path / "trace.jsonl.key").chmod(0o644)
    nothing_but(record(path, [ended("b", 100)]), recorded=1)
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    size = path.stat().st_size
    nothing_but(record(link, [ended("c", 100)]), failed=1)
    assert path.stat().st_size == size
    assert "link.jsonl" in caplog.text


def test_ids_of_two_keys_do_not_mix(tmp_path, caplog):
    path = tmp_path / "trace.jsonl"
    record(path, [ended("a", 100)])
    before = path.read_bytes()
    (tmp_path / "trace.jsonl.key").unlink()
    nothing_but(record(path, [ended("a", 100)]), failed=1)
    assert path.read_bytes() == before
    assert "the key of what is recorded there is gone" in caplog.text


def test_a_request_that_cannot_be_written_loses_no_other(tmp_path, caplog):
    from dataclasses import replace

    broken = replace(ended("b", 100), hashes=[3])
    recorder = record(
        tmp_path / "trace.jsonl", [ended("a", 100), broken, ended("c", 100)]
    )
    nothing_but(recorder, recorded=2, failed=1)
    assert len(rows(tmp_path / "trace.jsonl")) == 2


def test_where_it_goes_is_said(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        first = Recorder(RecordConfig(str(tmp_path / "trace.jsonl")), BLOCK)
        second = Recorder(RecordConfig(str(tmp_path / "trace.jsonl")), BLOCK)
    first.close()
    second.close()
    assert str(tmp_path / "trace.1.jsonl") in caplog.text
