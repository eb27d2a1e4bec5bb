import gzip
import hashlib
import io
import json
import tarfile

import numpy as np
import pytest
import zstandard

from hotset.traces.errors import ArgumentError, RowErrors, TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.stats import ceiling, hit_runs

ZERO = ReadOptions(starts="zero")


def request(t, ids, tokens=None, **changes):
    length = 64 * len(ids) if tokens is None else tokens
    row = {"t": t, "type": "n", "in": length, "out": 5, "hash_ids": ids}
    return {**row, **changes}


def subagent(t, *requests, **changes):
    return {"t": t, "type": "subagent", "requests": list(requests), **changes}


def conversation(*requests, **changes):
    header = {"id": "x", "block_size": 64, "hash_id_scope": "local"}
    return {**header, "requests": list(requests), **changes}


@pytest.fixture
def read(tmp_path):
    def read(*documents, options=ZERO, **arguments):
        """Read documents as one file each, in a folder where there are several."""
        folder = tmp_path / "traces"
        folder.mkdir(exist_ok=True)
        for index, document in enumerate(documents):
            text = document if isinstance(document, str) else json.dumps(document)
            (folder / f"trace_{index}.json").write_text(text)
        path = folder if len(documents) > 1 else folder / "trace_0.json"
        return read_trace(path, options=options, **arguments)

    return read


def errors_of(caught):
    return [(error.field, error.got, error.allowed) for error in caught.value.rows]


def test_columns(read):
    trace = read(
        conversation(request(0, [4, 9], 150), request(2.5, [4, 9, 7], 200, type="s"))
    )
    assert trace.provenance.format == "kv-cache-tester"
    assert (trace.block_tokens, trace.id_scope, trace.chained) == (64, "local", True)
    assert trace.arrival_s.tolist() == [0.0, 2.5]
    assert trace.block_ids.tolist() == [0, 1, 0, 1, 2]
    assert trace.input_tokens.tolist() == [150, 200]
    assert trace.output_tokens.tolist() == [5, 5]
    assert trace.session.tolist() == [0, 0]
    assert trace.provenance.options == (("starts", "zero"),)


def test_subagents_have_their_own_clock_and_the_parents_ids(read):
    inner = subagent(1, request(0.5, [1, 2]))
    trace = read(
        conversation(
            request(0, [1]),
            subagent(100, request(0, [1, 2]), inner, request(7, [9])),
            request(50, [1, 3]),
        )
    )
    assert trace.arrival_s.tolist() == [0, 50, 100, 101.5, 107]
    assert hit_runs(trace.accesses("drop")).tolist() == [0, 1, 1, 2, 0]
    assert trace.session.tolist() == [0] * 5
    names = [trace.source_type_names[code] for code in trace.source_type]
    assert names == ["agent", "agent", "subagent", "subagent", "subagent"]


def test_local_ids_of_two_files_are_different_blocks(read):
    ids = list(range(1, 301))
    local = read(conversation(request(0, ids)), conversation(request(9, ids)))
    assert local.num_blocks == 600
    assert ceiling(local, "drop").hit_blocks == 0
    shared = {"hash_id_scope": "global"}
    merged = read(
        conversation(request(0, ids), **shared), conversation(request(9, ids), **shared)
    )
    assert (merged.id_scope, merged.num_blocks) == ("global", 300)
    assert ceiling(merged, "drop").hit_blocks == 300


def test_scopes_cannot_be_mixed(read):
    with pytest.raises(RowErrors) as caught:
        read(
            conversation(request(0, [1])),
            conversation(request(0, [1]), hash_id_scope="global"),
        )
    ((field, got, allowed),) = errors_of(caught)
    assert (field, got) == ("hash_id_scope", '"global"')
    assert allowed.startswith("local, as in ")
    assert allowed.endswith("trace_0.json:1")


def test_mixed_block_sizes_name_both_files(read):
    with pytest.raises(
        RowErrors, match=r"trace_1\.json:1: block_size: got 16"
    ) as error:
        read(
            conversation(request(0, [1])),
            conversation(request(0, [1]), block_size=16),
        )
    assert "allowed: 64, as in " in str(error.value)
    assert "trace_0.json:1" in str(error.value)


def test_starts_are_sums_of_exponential_gaps_by_name(read):
    documents = [conversation(request(i, [1])) for i in range(3)]
    options = ReadOptions(starts="exp:2.5s", trace_seed=7)
    trace = read(*documents, options=options)
    gaps = np.random.default_rng(7).exponential(2.5, 3)
    expected = np.cumsum(gaps) + np.arange(3)
    assert sorted(trace.arrival_s.tolist()) == sorted(expected.tolist())
    assert trace.provenance.options == (("starts", "exp:2.5s"), ("trace_seed", 7))
    default = read(*documents, options=ReadOptions())
    assert default.provenance.options == (("starts", "exp:30s"), ("trace_seed", 0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(({"starts": text}, "starts: got ") for text in ("", "exp", "exp:0s")),
        *(({"starts": text}, "starts: got ") for text in ("exp:-1s", "exp:nans")),
        ({"starts": "exp:5"}, "allowed: exp:SECONDSs"),
        ({"starts": "zero", "trace_seed": 1}, "trace_seed: got 1, allowed: none"),
        ({"trace_seed": -1}, r"trace_seed: got -1, allowed: 0\.\."),
    ],
)
def test_wrong_options(read, options, said):
    with pytest.raises(ArgumentError, match=said):
        read(conversation(request(0, [1])), options=ReadOptions(**options))


def test_options_are_refused_by_formats_that_do_not_take_them():
    with pytest.raises(
        ArgumentError,
        match="starts: got 'zero', allowed: only where the format is kv-cache-tester, "
        "sharegpt, it is mooncake",
    ):
        read_trace("sample", options=ZERO)


def test_order_is_time_then_file_then_place(read):
    trace = read(
        conversation(request(5, [1]), request(5, [1, 2])),
        conversation(request(5, [1, 2, 3]), request(1, [1])),
    )
    assert np.diff(trace.request_offsets).tolist() == [1, 1, 2, 3]
    # Sessions are numbered as they appear: the second file is the first to.
    assert trace.session.tolist() == [0, 1, 1, 0]
    assert trace.arrival_s.tolist() == [1, 5, 5, 5]


@pytest.mark.parametrize(
    ("tokens", "num_ids"), [(15291, 238), (64, 1), (63, 0), (128, 2), (129, 2)]
)
def test_only_full_blocks_have_ids(read, tokens, num_ids):
    first = request(0, [1])
    trace = read(conversation(first, request(1, list(range(num_ids)), tokens)))
    assert trace.accesses("drop").ids.size == 1 + num_ids
    assert trace.input_tokens.tolist() == [64, tokens]
    with pytest.raises(RowErrors) as caught:
        read(conversation(first, request(1, list(range(num_ids + 1)), tokens)))
    ((field, got, _),) = errors_of(caught)
    assert field == "requests[1].hash_ids"
    assert got == f"{num_ids + 1} ids for {tokens} tokens"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"t": -1}, "t"),
        ({"t": "0"}, "t"),
        ({"t": True}, "t"),
        ({"in": 0}, "in"),
        ({"in": 64.5}, "in"),
        ({"in": None}, "in"),
        ({"out": -1}, "out"),
        ({"type": "x"}, "type"),
        ({"type": None}, "type"),
        ({"hash_ids": [1.5]}, "hash_ids[0]"),
        ({"hash_ids": [True]}, "hash_ids[0]"),
        ({"hash_ids": [-1]}, "hash_ids[0]"),
        ({"hash_ids": 7}, "hash_ids"),
    ],
)
def test_wrong_requests_are_named_by_their_place(read, changes, field):
    wrong = {**request(0, [1]), **changes}
    with pytest.raises(RowErrors) as caught:
        read(conversation(request(0, [1]), subagent(3, request(0, [2]), wrong)))
    ((found, _, _),) = errors_of(caught)
    assert found == f"requests[1].requests[1].{field}"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (conversation(request(0, [1]), block_size=0), "block_size"),
        (conversation(request(0, [1]), block_size=True), "block_size"),
        (conversation(request(0, [1]), block_size=None), "block_size"),
        (conversation(request(0, [1]), hash_id_scope="file"), "hash_id_scope"),
        (conversation(request(0, [1]), requests={}), "requests"),
        (conversation(5), "requests[0].row"),
        (conversation(subagent(-1)), "requests[0].t"),
        (conversation(subagent(1, requests=3)), "requests[0].requests"),
        ('{"hash_id_scope": 1, "block_size"', "row"),
        ('{"hash_id_scope": 1, "block_size": 1, "block_size": 1}', "block_size"),
        ('{"hash_id_scope":' + "[" * 100_000, "row"),
    ],
)
def test_wrong_conversations(read, document, field):
    with pytest.raises(RowErrors) as caught:
        read(document)
    assert errors_of(caught)[0][0] == field


def test_long_integers_and_strings_are_ids(read):
    ids = [2**64, 2**64 + 1, "a", 1, "1"]
    trace = read(conversation(*(request(0, [i]) for i in ids + ids)))
    assert trace.block_ids.tolist() == [0, 1, 2, 3, 4] * 2


def test_skip_leaves_out_requests_and_conversations(read, tmp_path):
    rejects = tmp_path / "rejects"
    trace = read(
        conversation(*(request(i, [1]) for i in range(20)), request(1, [2], out=-1)),
        "{ broken",
        on_bad_row="skip",
        rejects=rejects,
    )
    assert trace.num_requests == 20
    assert (trace.provenance.rows_read, trace.provenance.rows_rejected) == (22, 2)
    assert trace.provenance.warnings == ("conversations left out: 1",)
    first, second = map(json.loads, rejects.read_text().splitlines())
    assert first["file"].endswith("trace_0.json")
    assert (first["line"], first["field"]) == (1, "requests[20].out")
    assert json.loads(first["raw"]) == request(1, [2], out=-1)
    assert second["raw"] == "{ broken"


def test_one_conversation_a_line_or_in_all_lines(read):
    documents = [conversation(request(i, [1, 2])) for i in range(3)]
    lines = read("\r\n".join(map(json.dumps, documents)))
    assert lines.num_blocks == 6
    assert lines.session.tolist() == [0, 1, 2]
    indented = read(json.dumps(documents[1], indent=1))
    assert indented.arrival_s.tolist() == [1.0]
    with pytest.raises(RowErrors, match=r"trace_0\.json:2: row"):
        read(json.dumps(documents[0]) + "\n{broken\n" + json.dumps(documents[2]))
    with pytest.raises(RowErrors, match=r"trace_0\.json:1: row"):
        read("{broken\n" + json.dumps(documents[2]), format="kv-cache-tester")


def test_no_ids_at_all(read):
    with pytest.raises(TraceError, match="no reuse information"):
        read(conversation(request(0, [], 50)))


def pack(path, files, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_folder_file_endings_and_archives_agree(tmp_path):
    contents = [
        json.dumps(conversation(request(i, [1, 2]), request(i + 1, [1, 2, 3]))).encode()
        for i in range(3)
    ]
    files = [
        ("b/trace_2.json.zst", zstandard.compress(contents[2])),
        ("a.json", contents[0]),
        ("b/trace_1.json.gz", gzip.compress(contents[1], mtime=0)),
        ("readme.txt", b"nothing"),
    ]
    folder = tmp_path / "folder"
    (folder / "b").mkdir(parents=True)
    for name, content in files:
        (folder / name).write_bytes(content)
    of_folder = read_trace(folder)
    assert of_folder.num_requests == 6
    assert of_folder.provenance.warnings == (
        "files left out, of another ending: 1, the first: readme.txt",
    )
    for mode, name in (("w", "t.tar"), ("w:gz", "t.tar.gz")):
        pack(tmp_path / name, files, mode)
        of_archive = read_trace(tmp_path / name)
        assert of_archive.equals(of_folder)
        assert len(of_archive.provenance.sha256) == 64


def test_digest_of_a_folder_is_that_of_its_sha256sum_lines(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    content = json.dumps(conversation(request(0, [1]))).encode()
    for name in ("b.json", "a.json", "B.json"):
        (folder / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    lines = "".join(f"{digest}  {name}\n" for name in ("B.json", "a.json", "b.json"))
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert read_trace(folder).provenance.sha256 == expected


def test_archives_that_are_cut_or_damaged(tmp_path):
    content = json.dumps(conversation(request(0, [1]))).encode()
    whole = tmp_path / "whole.tar"
    pack(whole, [(f"{i}.json", content) for i in range(3)])
    data = whole.read_bytes()
    assert read_trace(whole).num_requests == 3
    path = tmp_path / "t.tar"
    for length in range(520, 3 * 1024 + 500, 4):
        path.write_bytes(data[:length])
        with pytest.raises(TraceError):
            read_trace(path)
    for at in (1024, 1024 + 130, 2048 + 150):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(TraceError, match="corrupt"):
            read_trace(path)


def test_archives_of_no_use(tmp_path):
    path = tmp_path / "t.tar"
    content = json.dumps(conversation(request(0, [1]))).encode()
    pack(path, [("a.json", content), ("a.json", content)])
    with pytest.raises(TraceError, match=r"the archive has a\.json twice"):
        read_trace(path)
    pack(path, [("a.txt", content)])
    with pytest.raises(TraceError, match="without files of a trace"):
        read_trace(path, "kv-cache-tester")
    with pytest.raises(TraceError, match="not recognised"):
        read_trace(path)


def test_formats_of_one_file_refuse_folders_and_archives(tmp_path):
    row = b'{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [7]}'
    (tmp_path / "a.jsonl").write_bytes(row)
    pack(tmp_path / "a.tar", [("a.jsonl", row)])
    for path in (tmp_path, tmp_path / "a.tar"):
        with pytest.raises(TraceError, match="allowed for the format mooncake: one"):
            read_trace(path, "mooncake")
    with pytest.raises(TraceError, match="without files of a trace"):
        (tmp_path / "empty").mkdir()
        read_trace(tmp_path / "empty")


def test_public_conversations(public_traces):
    """The figures that are published for these files."""
    trace = read_trace(public_traces / "agentic")
    assert (trace.num_requests, trace.num_accesses) == (8523, 14055150)
    assert trace.num_blocks == 597142
    most = ceiling(trace, "drop")
    assert round(most.block_hit_ratio, 6) == 0.957514
    assert round(most.token_hit_ratio, 6) == 0.957228
