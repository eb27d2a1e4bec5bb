"""Files that people give to `hotset trace`: read, or refused in one clear line."""

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import tarfile
import time
import zipfile

import pytest
import zstandard
from cli.test_program import HOTSET
from support import trace_files
from support.command_line import runner

from hotset.sim.cli import app

ROW = {k: v for k, v in trace_files.MOONCAKE.items() if k != "session_id"}
PLAIN = trace_files.lines(ROW, ROW)


def run(*arguments, code, **more):
    result = runner().invoke(app, [str(a) for a in arguments], **more)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr if code else result.stdout


def zipped():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("t.jsonl", PLAIN)
    return packed.getvalue()


def row_with(name, text):
    """A line in which the value of a field is some text."""
    row = json.dumps({**ROW, name: "HERE"}).replace('"HERE"', text)
    return row.encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\n\n \n"),
        PLAIN.rstrip(),
        gzip.compress(PLAIN),
        gzip.compress(PLAIN[:90]) + gzip.compress(PLAIN[90:]),
        zstandard.compress(PLAIN),
        row_with("input_length", "600.0") + PLAIN,
        row_with("hash_ids", f"[{10**400}, 2]") + PLAIN,
    ],
)
def test_usable(tmp_path, content):
    file = tmp_path / "any.name"
    file.write_bytes(content)
    assert "valid mooncake trace" in run("trace", "validate", file, code=0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\n\n \n", "nothing but blank lines"),
        (bytes(1000), "nothing but zero bytes"),
        (gzip.compress(b""), "decompresses to nothing"),
        (gzip.compress(PLAIN)[:-9], "the gzip stream is cut short"),
        (zstandard.compress(PLAIN)[:-9], "the zstd stream is cut short"),
        (gzip.compress(gzip.compress(PLAIN)), "compressed (gzip within gzip or zstd)"),
        (bz2.compress(PLAIN), "compressed (bzip2): unpack it"),
        (lzma.compress(PLAIN), "compressed (xz): unpack it"),
        (zipped(), "compressed (a zip archive): unpack it"),
        (trace_files.tar(("t.jsonl", PLAIN)), "allowed for the format mooncake: one"),
        (PLAIN.decode().encode("utf-16"), "text in UTF-16: convert it to UTF-8"),
        (b"<!DOCTYPE html><html>404</html>", "a web page or XML"),
        (json.dumps([ROW, ROW]).encode(), "a JSON array: one object a line"),
        (json.dumps(ROW, indent=1).encode(), "JSON over several lines"),
        (b"ts,len\n1,2\n", "a table: --format csv reads it"),
        (b'{"a": 1}\n', "JSON of other fields: --format jsonl reads"),
        (PLAIN.replace(b"\n", b"\r"), "that end in CR alone"),
        (PLAIN[:-30], ":2: row: got no JSON"),
        (row_with("timestamp", "NaN"), "timestamp: got NaN"),
        (row_with("timestamp", "1e999"), "timestamp: got 1e999"),
        (row_with("timestamp", "-5"), "timestamp: got -5"),
        (
            row_with("timestamp", "1" + "0" * 5000),
            "row: got an integer of more than 4300 digits",
        ),
        (row_with("input_length", '"655"'), 'input_length: got "655"'),
        (row_with("input_length", "655.5"), "input_length: got 655.5"),
        (row_with("hash_ids", "[1, true]"), "hash_ids[1]: got true"),
        (row_with("hash_ids", "[1, -2]"), "hash_ids[1]: got -2"),
        (row_with("hash_ids", "[" * 10**5 + "]" * 10**5), "too deep a nesting"),
        (row_with("x", '"\\ud800"')[:-3] + b'\xff"}\n', "invalid UTF-8"),
    ],
)
def test_refused_in_one_line(tmp_path, content, said):
    file = tmp_path / "any.name"
    file.write_bytes(content)
    lines = run("trace", "validate", file, code=2).splitlines()
    assert said in lines[0]
    assert lines[0].startswith(f"hotset: {file}")
    assert len(lines) == 1 or lines[1:] == ["hotset: 1 wrong row"]
    assert all(len(line) < 600 for line in lines)


def test_names_that_lead_nowhere(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    for name, said in (
        (tmp_path / "absent", "no such file"),
        (tmp_path / "dangling", "no such file"),
        (tmp_path / "circle", "symbolic links"),
        (tmp_path / "empty", "a directory without files of a trace"),
        ("", "'': no such file"),
        ("/dev/null", "the file is empty"),
        ("x" * 5000, "File name too long"),
    ):
        assert said in run("trace", "validate", name, code=2)


def test_pipes(tmp_path):
    out = tmp_path / "t.jsonl"
    run("trace", "convert", "-", "--out", out, code=0, input=PLAIN)
    assert out.read_bytes().count(b"\n") == 2
    assert "the file is empty" in run("trace", "validate", "-", code=2, input=b"")


def test_a_file_is_not_merged_with_itself(tmp_path):
    file, other = tmp_path / "t.jsonl", tmp_path / "other.jsonl"
    file.write_bytes(PLAIN)
    os.link(file, other)
    out = tmp_path / "out.parquet"
    for trace, merge in ((file, file), (file, other), ("-", "-")):
        said = run(
            *("trace", "convert", trace, "--merge", merge, "--out", out),
            code=2,
            input=PLAIN,
        )
        assert "the same file as TRACE" in said
    assert not out.exists()


def test_files_in_memory_are_files_like_any(tmp_path):
    """What lies under /dev is no device for that: nothing replaces its own input."""
    folder = "/dev/shm"
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        pytest.skip("no /dev/shm to write to")
    file = f"{folder}/hotset-test-{os.getpid()}.jsonl"
    try:
        with open(file, "wb") as made:
            made.write(PLAIN)
        said = run("trace", "convert", file, "--out", file, code=2)
        assert "the same file as TRACE" in said
        with open(file, "rb") as kept:
            assert kept.read() == PLAIN
    finally:
        os.unlink(file)


needs_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs /dev/full"
)


@needs_full
@pytest.mark.parametrize("command", ["info", "validate"])
def test_a_full_disk_under_the_output(tmp_path, command):
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [HOTSET, "trace", command, "sample"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 2
    assert ran.stderr == "hotset: cannot print: No space left on device\n"


@needs_full
def test_a_full_disk_under_a_result(tmp_path):
    (tmp_path / "full.parquet").symlink_to("/dev/full")
    for arguments in (
        ("convert", "sample", "--out", tmp_path / "full.parquet"),
        ("info", "sample", "--json", "/dev/full"),
    ):
        assert "No space left" in run("trace", *arguments, code=2)


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM])
def test_ended_from_outside_leaves_nothing(tmp_path, how):
    """The terminal is closed, or the machine shuts down, while a trace is written."""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [HOTSET, "trace", "convert", "-", "--out", "out.jsonl.gz"],
        cwd=tmp_path,
        stdin=reader,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(how, signal.SIG_DFL),
    ) as work:
        os.write(writer, PLAIN)
        time.sleep(3)  # it has begun, and waits for more rows
        assert work.poll() is None
        work.send_signal(how)
        assert work.wait(timeout=60) == 128 + how
        os.close(writer)
    os.close(reader)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_conversations_with_other_things_in_it(tmp_path):
    inside = json.dumps(trace_files.CONVERSATION).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("README", b"hello"), ("a/b.json", inside)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("a/l.json")
        link.type, link.linkname = tarfile.SYMTYPE, "b.json"
        archive.addfile(link)
    file = tmp_path / "t.tgz"
    file.write_bytes(packed.getvalue())
    assert "valid kv-cache-tester trace, 2 requests" in run(
        "trace", "validate", file, code=0
    )
