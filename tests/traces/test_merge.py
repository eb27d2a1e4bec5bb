"""Files of one source read as one trace, as lines or in the exchange form."""

import dataclasses
import json

import numpy as np
import pytest
from support import trace_files
from typer.testing import CliRunner

from hotset.traces import transform
from hotset.traces.commands import app
from hotset.traces.errors import TraceError
from hotset.traces.generate import generate
from hotset.traces.merge import merge
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.write import write_trace

ROW = trace_files.MOONCAKE
BAILIAN = trace_files.BAILIAN


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(app, list(map(str, arguments)))

    return run


def merged_both_ways(tmp_path, rows, options=None, format=None):
    """Two files merged as they are, and converted first; and all in one file."""
    options = options or ReadOptions()
    for name, part in (("all", rows), ("a", rows[::2]), ("b", rows[1::2])):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(trace_files.lines(*part))
        write_trace(
            read_trace(path, format, options=options), path.with_suffix(".parquet")
        )
    whole = read_trace(tmp_path / "all.jsonl", format, options=options)
    lines = read_trace(
        tmp_path / "a.jsonl", format, options=options, merge=[tmp_path / "b.jsonl"]
    )
    tables = read_trace(tmp_path / "a.parquet", merge=[tmp_path / "b.parquet"])
    return whole, lines, tables


def test_files_of_one_trace_are_merged(run, tmp_path):
    rows = [{**ROW, "timestamp": 1000 * n, "hash_ids": [1, n]} for n in range(6)]
    for name, part in (("all", rows), ("a", rows[::2]), ("b", rows[1::2])):
        (tmp_path / f"{name}.jsonl").write_bytes(trace_files.lines(*part))
    ran = run("convert", "a.jsonl", "--merge", "b.jsonl", "--out", "t.parquet")
    assert ran.exit_code == 0, ran.output
    whole, merged = read_trace("all.jsonl"), read_trace("t.parquet")
    assert merged.equals(whole)
    assert merged.provenance.steps == ("merged, ids mean the same: a.jsonl, b.jsonl",)
    with open("b.jsonl", "ab") as file:
        file.write(b"{}\n")
    with pytest.raises(TraceError, match=r"^b\.jsonl:4: timestamp"):
        read_trace("a.jsonl", merge=["b.jsonl"])


def test_tables_are_merged_like_what_they_were_made_from(tmp_path):
    names = [7, "seven", 2**70, 3]
    rows = [
        {
            **ROW,
            "timestamp": 500 * (n // 3),
            "hash_ids": [names[n % 2], names[2 + n // 4]],
            "session_id": ["a", 0, "b"][n % 3],
        }
        for n in range(7)
    ]
    rows[0]["hash_ids"] = [7, 50]
    for n, row in enumerate(rows[1:]):
        row["hash_ids"] = [7, 50 + n // 2] if n % 2 else ["seven", 2**70]
    whole, lines, tables = merged_both_ways(tmp_path, rows)
    assert lines.num_blocks == tables.num_blocks == whole.num_blocks
    assert tables.equals(lines)
    assert tables.block_names.tolist() == lines.block_names.tolist()
    assert tables.session_names.tolist() == lines.session_names.tolist()
    assert tables.provenance.rows_read == 7
    write_trace(tables, tmp_path / "again.parquet")
    assert read_trace(tmp_path / "again.parquet").equals(lines)


def test_ids_of_single_blocks_are_merged_behind_their_parents(tmp_path):
    rows = [
        {**BAILIAN, "chat_id": n % 3, "timestamp": n, "hash_ids": [n % 2, 5, "x"]}
        for n in range(6)
    ]
    whole, lines, tables = merged_both_ways(tmp_path, rows)
    assert whole.num_blocks == 6  # 5 behind 0 is another than 5 behind 1
    assert tables.equals(lines)
    assert tables.source_type_names == ("text",)


def test_declared_files_are_merged(tmp_path):
    rows = [{**trace_files.GENERIC, "time": n, "session": None} for n in range(4)]
    whole, lines, tables = merged_both_ways(
        tmp_path, rows, trace_files.DECLARED, "jsonl"
    )
    assert whole.equals(lines) and tables.equals(lines)


def test_columns_that_some_files_have(make_trace):
    names = np.array([5, 6])
    one = make_trace(
        [[0], [1]],
        arrival_s=[0.0, 5.0],
        block_names=names,
        session=[0, -1],
        tenant=[0, -1],
        tenant_names=("ann",),
        ttl_s=[1.0, np.nan],
    )
    two = make_trace(
        [[0], [1]],
        arrival_s=[1.0, 5.0],
        block_names=names[::-1].copy(),
        session=[0, 0],
        source_type=[-1, 0],
        source_type_names=("tool",),
        end_session=[True, False],
    )
    found = merge([one, two], "0")
    assert found.block_ids.tolist() == [0, 1, 1, 0]
    assert found.block_names.tolist() == [5, 6]
    assert found.arrival_s.tolist() == [0, 1, 5, 5]
    # Sessions without names are of one file each.
    assert found.session.tolist() == [0, 1, -1, 1]
    assert found.tenant.tolist() == [0, -1, -1, -1]
    assert found.source_type.tolist() == [-1, -1, -1, 0]
    assert found.end_session.tolist() == [False, True, False, False]
    assert np.array_equal(found.ttl_s, [1, np.nan, np.nan, np.nan], equal_nan=True)


def test_parts_and_rates_keep_names(tmp_path):
    rows = [{**ROW, "timestamp": 1000 * n, "hash_ids": [9, 10 + n]} for n in range(5)]
    (tmp_path / "t.jsonl").write_bytes(trace_files.lines(*rows))
    part = transform.window(read_trace(tmp_path / "t.jsonl"), "2:")
    assert part.block_names.tolist() == [9, 12, 13, 14]
    write_trace(part, tmp_path / "part.jsonl")
    lines = (tmp_path / "part.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [row["hash_ids"] for row in found] == [row["hash_ids"] for row in rows[2:]]


def test_scopes_are_not_merged(run, tmp_path):
    for name in "ab":
        text = json.dumps(trace_files.CONVERSATION)
        (tmp_path / f"{name}.json").write_text(text)
        run("convert", f"{name}.json", "--out", f"{name}.parquet")
    for arguments in (
        ("a.json", "--merge", "b.json"),
        (".", "--merge", "b.json", "--format", "kv-cache-tester"),
        ("a.parquet", "--merge", "b.parquet"),
    ):
        ran = run("convert", *arguments, "--out", "t.parquet")
        assert isinstance(ran.exception, TraceError)
        assert "cannot be merged" in str(ran.exception)
    apart = read_trace(tmp_path / "a.json").num_blocks
    (tmp_path / "both").mkdir()
    for name in "ab":
        (tmp_path / f"{name}.json").rename(tmp_path / "both" / f"{name}.json")
    assert read_trace(tmp_path / "both").num_blocks == 2 * apart


def test_only_files_of_one_format_are_merged(run, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(trace_files.lines(ROW))
    (tmp_path / "b.jsonl").write_bytes(trace_files.lines(BAILIAN))
    with pytest.raises(TraceError, match=r"not of the format of a\.jsonl, mooncake"):
        read_trace("a.jsonl", merge=["b.jsonl"])
    write_trace(read_trace("a.jsonl"), "a.parquet")
    with pytest.raises(TraceError, match=r"not of the format of a\.parquet, parquet"):
        read_trace("a.parquet", merge=["a.jsonl"])


def test_ids_that_mean_nothing_elsewhere_are_not_merged(run, tmp_path):
    for seed in range(2):
        write_trace(generate("chat", 5, seed), tmp_path / f"{seed}.parquet")
    with pytest.raises(TraceError, match="mean something in this file only"):
        read_trace("0.parquet", merge=["1.parquet"])
    # The declared chain is broken: its ids name no blocks.
    rows = [{**ROW, "hash_ids": ids} for ids in ([1, 2], [3, 2])]
    (tmp_path / "t.jsonl").write_bytes(trace_files.lines(*rows))
    write_trace(read_trace("t.jsonl"), "t.parquet")
    with pytest.raises(TraceError, match="mean something in this file only"):
        read_trace("t.parquet", merge=["t.parquet"])


def test_traces_of_other_blocks_are_not_merged(make_trace):
    one = make_trace([[0]], block_names=np.array([5]))
    for name, value in (("block_tokens", 3), ("chained", False)):
        with pytest.raises(TraceError, match=f"{name}: got {value}, allowed:"):
            merge([one, dataclasses.replace(one, **{name: value})], "0")


def test_names_must_fit(make_trace):
    with pytest.raises(TraceError, match="block_names: got 1 names, allowed: 2"):
        make_trace([[0, 1]], block_names=np.array([5]))
    with pytest.raises(TraceError, match="block_names: got -5, allowed: 0 or more"):
        make_trace([[0]], block_names=np.array([-5]))
    with pytest.raises(TraceError, match="session_names: got 1 names, allowed: 0"):
        make_trace([[0]], session_names=np.array([5]))
