import json
import multiprocessing
import os

import numpy as np
import pytest
from support import trace_files

from hotset.traces import cached_read
from hotset.traces.cache import TraceCache, cache_key, default_cache
from hotset.traces.errors import RowErrors
from hotset.traces.generate import generate
from hotset.traces.model import Provenance, Trace
from hotset.traces.options import ReadOptions
from hotset.traces.registry import FORMATS, read_trace
from hotset.traces.write import write_trace


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOTSET_TRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cached_read, "LEAST_BYTES", 1)
    return tmp_path / "cache"


@pytest.fixture
def reads(monkeypatch):
    """How often a file was parsed."""
    counts = []
    for spec in FORMATS:

        def read(*arguments, true=spec.read):
            counts.append(1)
            return true(*arguments)

        monkeypatch.setitem(spec.__dict__, "read", read)
    return counts


@pytest.mark.parametrize(
    "name", ["jsonl", "csv", "mooncake", "bailian", "conversation", "tar", "sharegpt"]
)
def test_the_second_read_parses_nothing(folder, reads, tmp_path, name):
    content, format, options = trace_files.valid_files(tmp_path)[name]
    path = tmp_path / "t"
    path.write_bytes(content)
    first = read_trace(path, format, options=options)
    second = read_trace(path, format, options=options)
    assert len(reads) == 1
    assert second.equals(first)
    assert second.provenance == first.provenance


def test_a_folder_is_cached_by_its_files(folder, reads, tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    for at in range(2):
        text = json.dumps(trace_files.CONVERSATION)
        (traces / f"{at}.json").write_text(text)
    first, second = read_trace(traces), read_trace(traces)
    assert (len(reads), second.provenance) == (1, first.provenance)
    (traces / "2.json").write_text(text)
    assert read_trace(traces).num_requests == 6
    assert len(reads) == 2


def test_bytes_format_and_options_tell_entries_apart(folder, reads, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(trace_files.CONVERSATION))
    read_trace(path)
    for change in (
        lambda: read_trace(path, options=ReadOptions(starts="zero")),
        lambda: read_trace(path, options=ReadOptions(trace_seed=3)),
        lambda: path.write_text(json.dumps(trace_files.CONVERSATION) + "\n"),
    ):
        change()
        read_trace(path)
    assert len(reads) == 4
    moved = tmp_path / "moved.json"
    path.rename(moved)
    assert read_trace(moved).provenance.path == str(moved)
    assert len(reads) == 4


def test_the_tokenizer_is_told_by_its_content(tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    options = ReadOptions(tokenizer=str(tokenizer))
    keys = set()
    for content in ("a", "b", None):
        if content is None:
            tokenizer.unlink()
        else:
            tokenizer.write_text(content)
        keys.add(cache_key("0" * 64, "openai-chat", options))
    assert len(keys) == 3


def test_wrong_rows_are_not_cached_away(folder, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(trace_files.lines(trace_files.MOONCAKE, {}))
    for _ in range(2):
        with pytest.raises(RowErrors):
            read_trace(path)
    skipped = read_trace(path, on_bad_row="skip", max_reject_share=1.0)
    assert skipped.provenance.rows_rejected == 1
    assert not folder.exists()


def test_columns_are_mapped_not_copied(tmp_path):
    cache = TraceCache(tmp_path)
    cache.store("k", generate("chat", 50, 1))
    found = cache.load("k", "x")
    for name in ("block_ids", "request_offsets", "arrival_s", "session"):
        base = getattr(found, name)
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap), name


def damage_nothing(entry):
    pass


def cut(entry):
    path = entry / "block_ids.npy"
    path.write_bytes(path.read_bytes()[:-5])


def flip(entry):
    path = entry / "input_tokens.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)


def remove(entry):
    (entry / "arrival_s.npy").unlink()


def garble(entry):
    (entry / "trace.json").write_text('{"columns": {"x": 1}}')


@pytest.mark.parametrize("damage", [damage_nothing, cut, flip, remove, garble])
def test_damaged_entries_are_read_anew(folder, reads, tmp_path, damage):
    path = tmp_path / "t.jsonl"
    write_trace(generate("chat", 50, 1), path)
    first = read_trace(path)
    (entry,) = folder.iterdir()
    damage(entry)
    assert read_trace(path).equals(first)
    assert len(reads) == (1 if damage is damage_nothing else 2)
    assert [each.name for each in folder.iterdir()] == [entry.name]
    assert read_trace(path).equals(first)
    assert len(reads) == (1 if damage is damage_nothing else 2)


def test_the_entry_unused_for_longest_goes(tmp_path):
    trace = generate("chat", 50, 1)
    TraceCache(tmp_path / "one").store("k", trace)
    (entry,) = (tmp_path / "one").iterdir()
    size = sum(each.stat().st_size for each in entry.iterdir())
    cache = TraceCache(tmp_path / "some", int(2.5 * size))
    for at, key in enumerate(("a", "b")):
        cache.store(key, trace)
        os.utime(tmp_path / "some" / key, (at, at))
    assert cache.load("a", "x") is not None
    cache.store("c", trace)
    assert sorted(each.name for each in (tmp_path / "some").iterdir()) == ["a", "c"]
    TraceCache(tmp_path / "small", size // 2).store("k", trace)
    assert list((tmp_path / "small").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = TraceCache(tmp_path / "file" / "inside")
    cache.store("k", generate("chat", 5, 1))
    assert cache.load("k", "x") is None


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTSET_TRACE_CACHE", "off")
    assert default_cache() is None
    monkeypatch.delenv("HOTSET_TRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_cache().store("k", generate("chat", 5, 1))
    assert (tmp_path / "hotset" / "traces" / "k").is_dir()


def store_many(folder):
    cache, trace = TraceCache(folder), generate("chat", 50, 1)
    for _ in range(20):
        cache.store("k", trace)
        assert cache.load("k", "x").equals(trace)


def test_processes_that_write_the_same_entry(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=store_many, args=(tmp_path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["k"]


@pytest.mark.slow
def test_a_hundred_million_accesses_are_loaded(tmp_path):
    """From the cache, and with little memory of its own: columns are mapped."""
    num_requests, length = 200_000, 500
    prompt = np.arange(num_requests, dtype=np.int32) // 3
    ids = (prompt[:, None] * length + np.arange(length, dtype=np.int32)).ravel()
    trace = Trace(
        block_tokens=16,
        request_offsets=np.arange(num_requests + 1) * length,
        block_ids=ids,
        arrival_s=np.arange(num_requests, dtype=np.float64),
        input_tokens=np.full(num_requests, 16 * length),
        output_tokens=np.ones(num_requests, np.int64),
        session=np.full(num_requests, -1),
        provenance=Provenance("test", "x", "0" * 64, num_requests, 0),
    )
    cache = TraceCache(tmp_path)
    cache.store("k", trace)
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=load_and_tell, args=(tmp_path, sender))
    worker.start()
    num_accesses, grown_bytes = receiver.recv()
    worker.join()
    assert num_accesses == 100_000_000
    # Anonymous memory: mapped pages of the file are not the process's own.
    assert grown_bytes < 200 << 20


def anonymous_bytes():
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


def load_and_tell(folder, sender):
    before = anonymous_bytes()
    trace = TraceCache(folder).load("k", "x")
    sender.send((trace.num_accesses, anonymous_bytes() - before))
