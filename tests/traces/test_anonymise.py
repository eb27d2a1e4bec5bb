"""Anonymised traces: keyed ids, and nothing else changed."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from support import trace_files
from typer.testing import CliRunner

from hotset.sim.cli import app
from hotset.traces.anonymise import anonymise
from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.generate import generate
from hotset.traces.merge import merge
from hotset.traces.registry import read_trace
from hotset.traces.stats import ceiling
from hotset.traces.write import write_trace

ROWS = [
    {**trace_files.MOONCAKE, "timestamp": 7000, "hash_ids": [9, 70], "session_id": "a"},
    {**trace_files.MOONCAKE, "timestamp": 9000, "hash_ids": [9, "x"], "session_id": 41},
    {**trace_files.MOONCAKE, "timestamp": 9500, "hash_ids": [9, 70], "session_id": "a"},
]


@pytest.fixture
def keys(tmp_path):
    paths = []
    for at in range(2):
        path = tmp_path / f"key{at}"
        path.write_bytes(bytes([65 + at]) * 32)
        paths.append(path)
    return paths


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "secret-name.jsonl"
    path.write_bytes(trace_files.lines(*ROWS))
    return path


def convert(source, out, *options, code=0):
    arguments = ("trace", "convert", source, "--out", out, *options)
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    if ran.exception and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == code, ran.output
    return ran.output


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_names_dates_and_files_go(make_trace, keys):
    trace = make_trace(
        [[0, 1], [0, 2, 3], [], [0, 2], [4]],
        arrival_s=[10.0, 11.0, 15.0, 15.0, 22.0],
        session=[0, 1, -1, 0, 2],
        tenant=[0, 1, -1, 0, 1],
        tenant_names=("ann", "bob"),
    )
    one, again = (anonymise(trace, keys[0]) for _ in range(2))
    other = anonymise(trace, keys[1])
    assert one.equals(again)
    assert one.block_names.tolist() == again.block_names.tolist()
    assert one.arrival_s.tolist() == [0, 1, 5, 5, 12]
    assert not set(one.tenant_names) & {*trace.tenant_names, *other.tenant_names}
    assert one.tenant.tolist() == trace.tenant.tolist()
    assert one.provenance.path == "anonymised"
    assert "rows" not in repr(one.provenance.path) + one.provenance.sha256


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_ids_in_the_file_are_keyed(source, keys, tmp_path, ending):
    made = []
    for at, key in enumerate((keys[0], keys[0], keys[1])):
        path = tmp_path / f"{at}.{ending}"
        convert(source, path, "--anonymise", key)
        made.append(path)
    assert made[0].read_bytes() == made[1].read_bytes()
    assert made[0].read_bytes() != made[2].read_bytes()
    columns = []
    for path in made[1:]:
        if ending == "jsonl":
            rows = rows_of(path)
            ids = [row["hash_ids"] for row in rows]
            sessions = [row["session_id"] for row in rows]
        else:
            table = pq.read_table(path)
            ids, sessions = (
                table[name].to_pylist() for name in ("block_ids", "session")
            )
        columns.append((ids, sessions))
        flat = [i for row in ids for i in row]
        assert min(flat + sessions) > 2**32  # each is so by chance in 2**31 cases
        assert len(set(flat)) == 3
        assert ids[0] == ids[2] and ids[0][0] == ids[1][0] and ids[0][1] != ids[1][1]
        assert sessions[0] == sessions[2] != sessions[1]
        assert not set(flat) & set(sessions)
    (ids, sessions), (other_ids, other_sessions) = columns
    assert not {*ids[0], *ids[1]} & {*other_ids[0], *other_ids[1]}
    assert not set(sessions) & set(other_sessions)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_nothing_of_the_source_or_the_key_is_in_the_file(
    source, keys, tmp_path, ending
):
    out = tmp_path / f"out.{ending}"
    other = tmp_path / "other-name.jsonl"
    other.write_bytes(source.read_bytes())
    said = convert(source, out, "--anonymise", keys[0], "--merge", other)
    assert "hashed under a key" in said
    found = read_trace(out)
    about = repr(found.provenance.origin) + repr(found.provenance.steps)
    if ending == "parquet":
        metadata = pq.read_schema(out).metadata[b"hotset.trace"].decode()
        assert "hashed under a key" in metadata
        about += metadata
    for secret in (
        *("secret-name", "other-name", str(keys[0]), keys[0].read_bytes().hex()),
        read_trace(source).provenance.sha256,
    ):
        assert secret not in about
        assert secret.encode() not in out.read_bytes()


def test_hit_ratios_and_shape_stay(source, keys, tmp_path, public_traces):
    public = public_traces / "mooncake_synthetic.jsonl.gz"
    for file in (source, public):
        whole = read_trace(file)
        for ending in ("parquet", "jsonl.zst"):
            out = tmp_path / f"out.{ending}"
            convert(file, out, "--anonymise", keys[0])
            found = read_trace(out)
            assert found.block_ids.tolist() == whole.block_ids.tolist()
            assert found.session.tolist() == whole.session.tolist()
            assert found.chained is whole.chained
            for tail in ("drop", "count"):
                assert ceiling(found, tail) == ceiling(whole, tail)


def test_parts_anonymised_apart_can_be_joined(source, keys, tmp_path):
    lines = trace_files.lines(*ROWS).splitlines(keepends=True)
    parts = []
    for at, part in enumerate((lines[:1], lines[1:])):
        path = tmp_path / f"part{at}.jsonl"
        path.write_bytes(b"".join(part))
        out = tmp_path / f"part{at}.parquet"
        convert(path, out, "--anonymise", keys[0])
        parts.append(read_trace(out))
    joined = merge(parts, "0")
    whole = anonymise(read_trace(source), keys[0])
    by_row = {tuple(joined.block_names[joined.block_ids[i : i + 2]]) for i in (0, 2, 4)}
    assert by_row == {
        tuple(whole.block_names[whole.block_ids[i : i + 2]]) for i in (0, 2, 4)
    }
    assert set(joined.session_names) == set(whole.session_names)


def test_ids_of_one_file_alone_are_keyed_with_it(tmp_path, keys):
    found = []
    for at in range(2):
        path = tmp_path / f"{at}.json"
        path.write_text(json.dumps({**trace_files.CONVERSATION, "id": f"{at}"}))
        out = tmp_path / f"{at}.parquet"
        convert(path, out, "--anonymise", keys[0])
        found.append(set(read_trace(out).block_names.tolist()))
    assert not found[0] & found[1]


def test_generated_traces_have_keyed_ids_too(tmp_path, keys):
    one, two = (anonymise(generate("chat", 30, seed), keys[0]) for seed in (1, 2))
    assert not set(one.block_names) & set(two.block_names)
    write_trace(one, tmp_path / "t.jsonl")
    assert read_trace(tmp_path / "t.jsonl").equals(one)


def test_keys_of_no_use(make_trace, tmp_path, source, keys):
    trace = make_trace([[0, 1]])
    (tmp_path / "short").write_bytes(b"x" * 15)
    with pytest.raises(ArgumentError, match="a key of 16 bytes or more"):
        anonymise(trace, tmp_path / "short")
    with pytest.raises(ArgumentError, match="No such file"):
        anonymise(trace, tmp_path / "absent")
    said = convert(source, keys[0], "--anonymise", keys[0], code=2)
    assert "unknown ending" in said
    key = tmp_path / "key.parquet"
    key.write_bytes(b"k" * 20)
    said = convert(source, key, "--anonymise", key, code=2)
    assert "the same file as --anonymise" in said


def test_two_blocks_of_one_hash_are_refused(make_trace, keys, monkeypatch):
    monkeypatch.setattr(
        "hotset.traces.anonymise.keyed", lambda names, *_: np.zeros(names.size, int)
    )
    with pytest.raises(TraceError, match="two blocks have the same hash"):
        anonymise(make_trace([[0, 1]]), keys[0])
