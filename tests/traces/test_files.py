import errno
import gzip
import hashlib
import os
import stat
import threading

import pytest
import zstandard

from hotset.traces.errors import TraceError
from hotset.traces.files import atomic_write, check_writable, open_source

TEXT = b"first\nsecond\r\n\n  \nlast"
LINES = [(1, b"first"), (2, b"second"), (5, b"last")]


def zstd(data):
    return zstandard.ZstdCompressor().compress(data)


def read(path):
    with open_source(path) as source:
        return list(source.lines()), source.sha256()


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        zstd,
        lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]) + b"\0" * 512,
        lambda data: zstd(data[:7]) + zstd(data[7:]),
    ],
    ids=["plain", "gzip", "zstd", "gzip-members", "zstd-frames"],
)
def test_compression_is_told_by_content(tmp_path, pack):
    path = tmp_path / "name-says-nothing"
    path.write_bytes(pack(TEXT))
    lines, digest = read(path)
    assert lines == LINES
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_lines_across_pieces(tmp_path):
    path = tmp_path / "t"
    expected = [b"x" * (n * 1000) + b"y" for n in range(1, 200)]
    path.write_bytes(b"\n".join(expected) + b"\n")
    lines, _ = read(path)
    assert [line for _, line in lines] == expected
    assert [number for number, _ in lines] == list(range(1, 200))


def test_head_does_not_consume(tmp_path):
    path = tmp_path / "t"
    data = os.urandom(200_000)
    path.write_bytes(gzip.compress(data))
    with open_source(path) as source:
        assert source.head == data[: len(source.head)]
        assert len(source.head) >= 1 << 16
        assert b"".join(source.chunks()) == data


def test_digest_covers_what_was_not_read(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"x" * 1_000_000)
    with open_source(path) as source:
        assert source.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize("keep", [5, 20, 0.5, 0.99, -1])
def test_cut_short(tmp_path, pack, keep):
    packed = pack(os.urandom(300_000))
    path = tmp_path / "t"
    path.write_bytes(
        packed[: keep if isinstance(keep, int) else int(len(packed) * keep)]
    )
    with pytest.raises(TraceError, match=r"t: the (gzip|zstd) stream is cut short"):
        read(path)


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_corrupt(tmp_path, pack):
    packed = bytearray(pack(b"some text that repeats " * 1000))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "t"
    path.write_bytes(packed + b"trailing text")
    with pytest.raises(TraceError, match=r"stream is (corrupt|cut short)"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b""), "decompresses to nothing"),
        (
            b"version https://git-lfs.github.com/spec/v1\n"
            b"oid sha256:4d7a2146\nsize 132054902\n",
            r"Git LFS pointer.*oid sha256:4d7a2146, size 132054902 bytes.*git lfs pull",
        ),
    ],
)
def test_useless_content(tmp_path, content, message):
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_useless_paths(tmp_path):
    for path, message in [
        (tmp_path / "absent", "no such file"),
        (tmp_path, "a directory"),
        ("a\0b", "cannot open"),
        ("x" * 5000, "cannot open"),
    ]:
        with pytest.raises(TraceError, match=message):
            read(path)


def test_no_permission(tmp_path, monkeypatch):
    path = tmp_path / "t"
    path.write_bytes(TEXT)

    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(TraceError, match="no permission to read"):
        read(path)


def test_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(TEXT))
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert read("-")[0] == LINES


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(TEXT,))
    writer.start()
    assert read(path)[0] == LINES
    writer.join()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_atomic_write_leaves_nothing_half_written(tmp_path, error):
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(error), atomic_write(path) as file:
        file.write("half")
        raise error
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out"]


def test_atomic_write_replaces_at_the_end(tmp_path):
    path = tmp_path / "out"
    path.write_text("before")
    with atomic_write(path) as file:
        file.write("line\n")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_bytes() == b"line\n"
    with atomic_write(path, "wb") as file:
        file.write(b"\r\n")
    assert path.read_bytes() == b"\r\n"
    assert os.listdir(tmp_path) == ["out"]


def test_atomic_write_permissions_and_links(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    before = os.umask(0o027)
    try:
        with atomic_write(link) as file:
            file.write("x")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_atomic_write_steps_around_a_left_over(tmp_path):
    left_over = tmp_path / f".out.{os.getpid()}.0.tmp"
    left_over.write_text("not ours to touch")
    with atomic_write(tmp_path / "out") as file:
        file.write("x")
    assert left_over.read_text() == "not ours to touch"


def test_atomic_write_of_the_longest_name(tmp_path):
    with atomic_write(tmp_path / ("x" * 255)) as file:
        file.write("x")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(TraceError, match="standard input is closed"):
        read("-")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m\x7f", "a\u2028b", "\udcff"])
def test_names_are_printed_as_one_line(tmp_path, name):
    for try_it in (read, check_writable):
        with pytest.raises(TraceError) as caught:
            try_it(tmp_path / "absent" / name)
        assert str(caught.value).isprintable()
        assert ascii(name)[1:-1] in str(caught.value)


def test_devices_are_written_directly():
    with atomic_write("/dev/null") as file:
        file.write("x")
    assert not os.path.isfile("/dev/null")


def test_full_disk_is_one_line(tmp_path):
    with (
        pytest.raises(TraceError, match="out: cannot write: No space"),
        atomic_write(tmp_path / "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert os.listdir(tmp_path) == []


def test_check_writable(tmp_path, monkeypatch):
    check_writable(tmp_path / "new")
    for path, message in [
        (tmp_path, "a directory"),
        (tmp_path / "absent" / "x", "does not exist"),
        ("", "not a file name"),
        ("a\0b", "not a file name"),
        ("x" * 300, "xxx[.]{3}: cannot write: File name too long"),
    ]:
        with pytest.raises(TraceError, match=message):
            check_writable(path)
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(TraceError, match="no permission"):
        check_writable(tmp_path / "new")
