"""Bugs that people reported of trace readers, each with a smallest input.

Names of the reports are those of GitHub issues, where there is one.
"""

import json

import pytest
from support import trace_files

from hotset.traces.errors import TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.stats import ceiling, hit_runs

ROW = {k: v for k, v in trace_files.MOONCAKE.items() if k != "session_id"}
BAILIAN = trace_files.BAILIAN


def mooncake(**changes):
    return {**ROW, **changes}


@pytest.fixture
def read(tmp_path):
    def read(*rows, options=None, **how):
        path = tmp_path / "t.jsonl"
        lines = [each if isinstance(each, str) else json.dumps(each) for each in rows]
        path.write_text("\n".join(lines))
        return read_trace(path, options=options or ReadOptions(), **how)

    return read


def test_too_many_ids_for_the_length(read):
    """guidellm#948, aiperf#581: published examples had it."""
    row = mooncake(timestamp=200, input_length=20, output_length=8, hash_ids=[0, 1])
    with pytest.raises(TraceError) as caught:
        read(mooncake(), row)
    said = str(caught.value)
    assert "t.jsonl:2: hash_ids: got 2 ids for 20 tokens" in said
    assert "2 ids need 513..1024 tokens, or a block size of 10..19" in said


def test_each_format_rounds_its_own_way(read, tmp_path):
    """6,758 tokens are 14 Mooncake blocks, 15,291 are 238 of kv-cache-tester's."""
    trace = read(mooncake(input_length=6758, hash_ids=list(range(14))))
    assert ceiling(trace, "drop").input_tokens == 6758
    assert trace.accesses("drop").ids.size == 13
    with pytest.raises(TraceError):
        read(mooncake(input_length=6758, hash_ids=list(range(13))))
    request = {"t": 1, "type": "n", "in": 15291, "out": 1}
    for size, fits in ((238, True), (239, False)):
        talk = {**trace_files.CONVERSATION, "requests": [request]}
        request["hash_ids"] = list(range(size))
        (tmp_path / "t.json").write_text(json.dumps(talk))
        if fits:
            assert read_trace(tmp_path / "t.json").num_accesses == 238
        else:
            with pytest.raises(TraceError, match="239 ids for 15291 tokens"):
                read_trace(tmp_path / "t.json")


def test_a_length_of_whole_blocks_has_no_block_more(read):
    trace = read(mooncake(input_length=1024))
    assert trace.accesses("drop").ids.size == trace.accesses("count").ids.size == 2
    with pytest.raises(TraceError):
        read(mooncake(input_length=1024, hash_ids=[1, 2, 3]))


def test_units_are_the_formats_own(read):
    """vllm#39795: seconds or milliseconds, by guess."""
    assert read(mooncake(timestamp=27482)).arrival_s.tolist() == [27.482]
    assert read({**BAILIAN, "timestamp": 61.114}).arrival_s.tolist() == [61.114]
    rows = [{"time": 10**12 * n, "input": 16, "ids": [n]} for n in range(3)]
    declared = ReadOptions(time_unit="s", block_tokens=16)
    with pytest.raises(TraceError, match="did you mean us or ns"):
        read(*rows, options=declared, format="jsonl")
    with pytest.raises(TraceError, match="time_unit: got None"):
        read(*rows, options=ReadOptions(block_tokens=16), format="jsonl")


def test_a_missing_time_is_refused_and_moves_no_other(read):
    """smg#636: a missing time became 0, and all came at once."""
    untimed = {k: v for k, v in ROW.items() if k != "timestamp"}
    with pytest.raises(TraceError, match=r"t\.jsonl:1: timestamp: got nothing"):
        read(untimed, mooncake(timestamp=100))
    trace = read(
        untimed, mooncake(timestamp=100), on_bad_row="skip", max_reject_share=0.5
    )
    assert trace.arrival_s.tolist() == [0.1]
    assert trace.provenance.rows_rejected == 1


def test_rows_out_of_order(read):
    """goreplay#1128."""
    rows = [mooncake(timestamp=t, output_length=t) for t in (10, 5, 7)]
    trace = read(*rows)
    assert trace.output_tokens.tolist() == [5, 7, 10]
    (said,) = trace.provenance.warnings
    assert said.startswith("rows earlier than the row before them: 1; sorted by time")
    with pytest.raises(TraceError, match="earlier than the row before them: 1"):
        read(*rows, options=ReadOptions(no_sort=True))


def test_equal_times_stay_in_the_files_order(read):
    rows = [mooncake(timestamp=5, output_length=n) for n in range(28)]
    for _ in range(3):
        assert read(*rows).output_tokens.tolist() == list(range(28))


def test_no_ids(read):
    """A tool skipped such rows: they are requests that hit nothing."""
    absent = {k: v for k, v in ROW.items() if k != "hash_ids"} | {"input_length": 100}
    trace = read(ROW, mooncake(input_length=100, hash_ids=[]), absent, ROW)
    assert hit_runs(trace.accesses("count")).tolist() == [0, 0, 0, 2]
    assert ceiling(trace, "count").input_tokens == 2 * 600 + 2 * 100
    with pytest.raises(TraceError, match="no reuse information"):
        read(absent, absent)


def test_no_length(read):
    with pytest.raises(TraceError, match="input_length: got 0"):
        read(mooncake(input_length=0, hash_ids=[]))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("input_length", text) for text in ("655.5", '"655"', "true", "-1", "NaN")),
        *(("hash_ids", f"[1, {text}]") for text in ("true", "-1", "NaN", "1.5")),
        *(("timestamp", text) for text in ("true", "-1", "NaN", "Infinity", "1e309")),
    ],
)
def test_what_is_no_number_is_named(read, field, text):
    """kvcache-simulator truncates with int()."""
    row = json.dumps(mooncake(**{field: "HERE"})).replace('"HERE"', text)
    with pytest.raises(TraceError, match=rf"t\.jsonl:1: {field}(\[1\])?: got "):
        read(row)


def test_a_whole_number_with_a_point_is_whole(read):
    assert read(mooncake(input_length=655.0)).input_tokens.tolist() == [655]


def test_ids_that_are_text(read):
    """UCM#912: 32 bytes in hexadecimal; and "1" is not 1."""
    long = "0x" + "ab" * 32
    rows = [
        mooncake(hash_ids=ids) for ids in ([long, "b"], ["1", 5], [1, 6], [long, 7])
    ]
    trace = read(*rows)
    assert hit_runs(trace.accesses("count")).tolist() == [0, 0, 0, 1]


def test_equal_ids_of_two_conversations(tmp_path):
    """Merged, 96.3 % of tokens hit would read as 99.9 %."""
    for name in "ab":
        talk = json.dumps(trace_files.CONVERSATION)
        (tmp_path / f"{name}.json").write_text(talk)
    trace = read_trace(tmp_path, options=ReadOptions(starts="zero"))
    assert trace.session.tolist()[:2] == [0, 1]
    assert hit_runs(trace.accesses("count")).tolist()[:2] == [0, 0]


def test_a_parent_that_is_not_there(read):
    """A session of its own, counted."""
    trace = read({**BAILIAN, "parent_chat_id": 55}, {**BAILIAN, "chat_id": 160})
    assert trace.session.tolist() == [0, 1]
    assert any("not in the file: 1;" in text for text in trace.provenance.warnings)


def test_a_pointer_in_place_of_the_data(read):
    pointer = (
        "version https://git-lfs.github.com/spec/v1",
        f"oid sha256:{'ab' * 32}",
        "size 132054902",
    )
    with pytest.raises(TraceError) as caught:
        read(*pointer)
    for said in ("Git LFS pointer", "size 132054902", "media.githubusercontent.com"):
        assert said in str(caught.value)


def test_a_file_that_ends_in_the_middle(read):
    rows = [ROW] * 9 + ['{"timestamp":1,"input_']
    with pytest.raises(TraceError, match=r"t\.jsonl:10: row: got no JSON"):
        read(*rows)
    assert read(*rows, on_bad_row="skip").provenance.rows_rejected == 1


def test_the_last_blocks_id_changes_in_the_next_turn(read):
    """Padded blocks: no reuse, and no warning."""
    trace = read(
        {**BAILIAN, "input_length": 40, "hash_ids": [1, 2, 30]},
        {**BAILIAN, "input_length": 64, "hash_ids": [1, 2, 31, 4]},
    )
    assert hit_runs(trace.accesses("count")).tolist() == [0, 2]
    assert not trace.provenance.warnings


def test_block_sizes_that_differ_name_both_places(tmp_path):
    """dynamo#13813."""
    for name, size in (("a", 64), ("b", 16)):
        talk = {**trace_files.CONVERSATION, "block_size": size}
        (tmp_path / f"{name}.json").write_text(json.dumps(talk))
    with pytest.raises(TraceError, match=r"b\.json:1: .*16, .*64, as in .*a\.json:1"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("talk", "is_wrong"),
    [
        ([{"from": "gpt", "value": "x"}], False),
        ([], False),
        ([{"from": "human", "value": "hi"}, 5], True),
    ],
)
def test_conversations_without_a_question(tmp_path, talk, is_wrong):
    """aiperf#798, SpecForge#482: an IndexError, or all but two turns lost."""
    tokenizer = trace_files.save_tokenizer(tmp_path / "tokenizer.json")
    good = trace_files.SHAREGPT["conversations"] * 2
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"conversations": each} for each in (good, talk)]))
    trace = read_trace(
        path,
        "sharegpt",
        "skip",
        max_reject_share=1.0,
        options=ReadOptions(tokenizer=str(tokenizer), starts="zero"),
    )
    assert trace.num_requests == 4
    said = "conversations without a turn of a person, left out: 1"
    assert (said in trace.provenance.warnings) is not is_wrong
    assert trace.provenance.rows_rejected == 1
