"""`trace fetch` against a server on loopback; nothing leaves the machine."""

import dataclasses
import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from hotset.traces.catalogue import CATALOGUE, PublicTrace
from hotset.traces.commands import app
from hotset.traces.errors import TraceError
from hotset.traces.fetch import fetch
from hotset.traces.registry import FORMATS

CONTENT = bytes(range(256)) * 4000


class Handler(BaseHTTPRequestHandler):
    """Serves one file; its server says how it misbehaves."""

    def do_GET(self):
        server, content = self.server, self.server.content
        server.requests.append(dict(self.headers))
        if server.status != 200:
            self.send_error(server.status)
            return
        begin = 0
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") == server.tag
        if wanted and same and server.ranges:
            begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if begin >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {begin}-{last}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - begin))
        if server.tag:
            self.send_header("ETag", server.tag)
        self.end_headers()
        end = len(content)
        if server.drops:
            end = min(end, begin + server.drops.pop(0))
        self.wfile.write(content[begin:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.content, made.status, made.tag = CONTENT, 200, '"one"'
    made.ranges, made.drops, made.requests = True, [], []
    made.address = f"http://127.0.0.1:{made.server_port}/t.jsonl"
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def trace(server):
    return PublicTrace(
        name="t",
        address=server.address,
        file="t.jsonl",
        format="mooncake",
        licence="x",
        citation="y",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def only(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_whole(trace, tmp_path):
    told = []
    digest = fetch(trace, tmp_path / "t", progress=lambda *at: told.append(at))
    assert (tmp_path / "t").read_bytes() == CONTENT
    assert digest == trace.sha256
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert only(tmp_path) == ["t"]


def test_a_broken_connection_is_taken_up_again(server, trace, tmp_path):
    server.drops = [100_000, 200_000]
    fetch(trace, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == CONTENT
    ranges = [each.get("Range") for each in server.requests]
    assert ranges == [None, "bytes=100000-", "bytes=300000-"]


def test_another_call_goes_on(server, trace, tmp_path):
    server.drops = [1000] * 4
    with pytest.raises(TraceError, match=r"4000 bytes are kept in .*run it again"):
        fetch(trace, tmp_path / "t")
    assert only(tmp_path) == ["t.part", "t.part.version"]
    fetch(trace, tmp_path / "t")
    assert server.requests[-1]["Range"] == "bytes=4000-"
    assert (tmp_path / "t").read_bytes() == CONTENT


@pytest.mark.parametrize("change", ["tag", "ranges", "none"])
def test_a_file_that_changed_is_fetched_from_its_start(server, trace, tmp_path, change):
    if change == "none":
        server.tag = ""
    server.drops = [1000] * 4
    with pytest.raises(TraceError):
        fetch(trace, tmp_path / "t")
    if change == "tag":
        server.content, server.tag = CONTENT[::-1], '"two"'
    if change == "ranges":
        server.ranges = False
    wanted = hashlib.sha256(server.content).hexdigest()
    fetch(dataclasses.replace(trace, sha256=wanted), tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == server.content


def test_all_of_it_was_there_but_not_checked(server, trace, tmp_path):
    (tmp_path / "t.part").write_bytes(CONTENT)
    (tmp_path / "t.part.version").write_text(server.tag)
    fetch(trace, tmp_path / "t")
    assert only(tmp_path) == ["t"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (CONTENT[:-1], "got 1023999 bytes, allowed: 1024000"),
        (CONTENT[::-1], "got SHA-256 .*, allowed: "),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 7\n",
            "a Git LFS pointer, not the data .*media.githubusercontent.com",
        ),
    ],
)
def test_what_is_wrong_is_not_kept(server, trace, tmp_path, content, said):
    server.content = content
    with pytest.raises(TraceError, match=said):
        fetch(trace, tmp_path / "t")
    assert only(tmp_path) == []


def test_servers_and_addresses_of_no_use(server, trace, tmp_path):
    server.status = 404
    with pytest.raises(TraceError, match="the server says 404"):
        fetch(trace, tmp_path / "t")
    for address in ("file:///etc/passwd", "ftp://x/y", "nothing", ""):
        with pytest.raises(TraceError, match="an http or https address"):
            fetch(trace, tmp_path / "t", address)
    with pytest.raises(TraceError, match="cannot be reached"):
        fetch(trace, tmp_path / "t", "http://127.0.0.1:1/x")
    with pytest.raises(TraceError, match="does not exist"):
        fetch(trace, tmp_path / "absent" / "t")


def test_the_command(server, trace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(CATALOGUE, "t", trace)
    ran = CliRunner().invoke(app, ["fetch", "t"])
    assert ran.exit_code == 0, ran.output
    assert f"SHA-256 {trace.sha256} (as published)" in ran.output
    assert "licence: x; cite: y" in ran.output
    assert (tmp_path / "t.jsonl").read_bytes() == CONTENT
    again = CliRunner().invoke(app, ["fetch", "t"])
    assert "is there already" in str(again.exception)
    moved = {**dataclasses.asdict(trace), "address": "http://127.0.0.1:1/"}
    monkeypatch.setitem(CATALOGUE, "t", PublicTrace(**moved))
    arguments = ["fetch", "t", "--out", "other", "--from", server.address]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (tmp_path / "other").read_bytes() == CONTENT
    wrong = CliRunner().invoke(app, ["fetch", "mooncake-conversatoin"])
    assert "did you mean mooncake-conversation?" in str(wrong.exception)


def test_the_catalogue_is_listed_without_fetching():
    ran = CliRunner().invoke(app, ["fetch"])
    assert ran.exit_code == 0
    for trace in CATALOGUE.values():
        assert trace.name in ran.output
        assert trace.address in ran.output
        assert FORMATS.get(trace.format)
        assert trace.address.startswith("https://")
        assert trace.sha256 is None or len(trace.sha256) == 64


def test_digests_of_the_catalogue(public_traces):
    for name in ("conversation", "synthetic"):
        file = public_traces / f"mooncake_{name}.jsonl.gz"
        content = gzip.decompress(file.read_bytes())
        known = CATALOGUE[f"mooncake-{name}"]
        assert hashlib.sha256(content).hexdigest() == known.sha256
        assert len(content) == known.size_bytes
