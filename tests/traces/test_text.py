"""Traces that hold text: chat logs and ShareGPT."""

import json

import numpy as np
import pytest
from support import trace_files

from hotset.traces.errors import ArgumentError, RowErrors, TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.stats import hit_runs
from hotset.traces.tokens import PromptHasher


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """One token for each byte."""
    folder = tmp_path_factory.mktemp("tokenizer")
    return str(trace_files.save_tokenizer(folder / "tokenizer.json"))


@pytest.fixture
def read(tmp_path, tokenizer):
    def read(content, **options):
        text = content if isinstance(content, str) else json.dumps(content)
        path = tmp_path / "t.json"
        path.write_text(text, encoding="utf-8")
        stated = {"tokenizer": tokenizer, **options}
        return read_trace(path, options=ReadOptions(**stated))

    return read


def lines(*rows):
    return "\n".join(map(json.dumps, rows))


def user(text):
    return {"role": "user", "content": text}


def test_ids_are_chained_hashes_of_full_blocks(tokenizer):
    hasher = PromptHasher(ReadOptions(tokenizer=tokenizer, block_tokens=4))

    def ids(text):
        return hasher.ids(hasher.tokens(text, "x")).tolist()

    assert ids("aaaabbbbcc") == [0, 1]
    assert ids("aaaabbbbccccaaaa") == [0, 1, 2, 3]
    assert ids("bbbb") == [4]
    assert ids("aaa") == []
    assert dict(hasher.used)["block_tokens"] == 4


def test_a_chat_that_goes_on_begins_with_the_chat_before(read):
    first = [{"role": "system", "content": "Be brief. " * 9}, user("How are you?")]
    second = [*first, {"role": "assistant", "content": "Well."}, user("Good.")]
    other = [{"role": "system", "content": "Be long. " * 9}, user("How are you?")]
    trace = read(
        lines(
            {"messages": first, "created": 10, "usage": {"completion_tokens": 3}},
            {"body": {"messages": second}, "created": 12.5, "session_id": "s"},
            {"request": {"messages": other}, "timestamp": 13},
            {"prompt": "p" * 50, "model": "m", "created": 14},
        )
    )
    assert trace.provenance.format == "openai-chat"
    assert trace.block_tokens == 16
    assert trace.arrival_s.tolist() == [10, 12.5, 13, 14]
    assert trace.output_tokens.tolist() == [3, 0, 0, 0]
    assert trace.session.tolist() == [-1, 0, -1, -1]
    assert trace.input_tokens.tolist()[3] == 50
    runs = hit_runs(trace.accesses("drop")).tolist()
    # All of the first prompt but the mark that asks for the answer.
    shared = trace.input_tokens[0] - len("<|im_start|>assistant\n")
    assert runs[1] >= shared // 16
    assert runs[2] == len("<|im_start|>system\nBe ") // 16
    assert runs[3] == 0


def test_rows_without_times_are_a_second_apart(read):
    trace = read(lines({"messages": [user("hello")]}, {"messages": [user("you")]}))
    assert trace.arrival_s.tolist() == [0, 1]
    assert "no times" in trace.provenance.warnings[0]
    for rows in (
        [{"messages": [user("a")]}, {"messages": [user("b")], "created": 1}],
        [{"messages": [user("a")], "created": 1}, {"messages": [user("b")]}],
    ):
        with pytest.raises(RowErrors, match="as on the rows before"):
            read(lines(*rows))


def test_parts_and_tools(read):
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    one = read(lines({"messages": [user(parts)]}))
    two = read(lines({"messages": [user("one two")]}))
    assert one.equals(two)
    tools = read(lines({"messages": [user("one two")], "tools": [{"name": "f"}]}))
    assert tools.input_tokens[0] > two.input_tokens[0]
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    with pytest.raises(RowErrors, match="a part with text"):
        read(lines({"messages": [user(image)]}))


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "x", "role": 1}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [user(5)]}, "messages[0].content"),
        ({"prompt": ["a"], "model": "m"}, "prompt"),
        ({"prompt": "", "model": "m"}, "prompt"),
        ({"prompt": "\ud800", "model": "m"}, "prompt"),
        ({"messages": [user("a")], "usage": {"completion_tokens": -1}}, "completion_"),
        ({"messages": [user("a")], "created": -1}, "created"),
    ],
)
def test_wrong_rows(read, row, field):
    with pytest.raises(RowErrors) as caught:
        read(lines({"messages": [user("right")]}, row))
    error = caught.value.rows[0]
    assert error.field.startswith(field)


def test_no_text_is_kept(read):
    trace = read(lines({"messages": [user("a secret sentence, long enough")]}))
    columns = [getattr(trace, name) for name in trace.__dataclass_fields__]
    assert "secret" not in repr(columns)


def test_the_tokenizer_is_needed_and_checked(read, tmp_path):
    row = lines({"messages": [user("x")]})
    with pytest.raises(ArgumentError, match="tokenizer: got None, allowed: the model"):
        read(row, tokenizer=None)
    with pytest.raises(ArgumentError, match="No such file"):
        read(row, tokenizer=str(tmp_path / "absent"))
    (tmp_path / "broken").write_text("{}")
    with pytest.raises(ArgumentError, match=r"allowed: a tokenizer\.json"):
        read(row, tokenizer=str(tmp_path / "broken"))


def turn(who, text):
    return {"from": who, "value": text}


def test_every_turn_of_a_person_is_a_request(read):
    talk = [turn("human", "a" * 40), turn("gpt", "b" * 7), turn("human", "c" * 40)]
    trace = read([{"id": 1, "conversations": talk}, {"conversations": talk[2:]}])
    assert trace.provenance.format == "sharegpt"
    assert trace.output_tokens.tolist() == [7, 0, 0]
    assert sorted(trace.session.tolist()) == [0, 0, 1]
    runs = hit_runs(trace.accesses("drop"))
    of_first = np.flatnonzero(trace.session == 0)
    assert runs[of_first[1]] >= 40 // 16
    assert dict(trace.provenance.options)["starts"] == "exp:30s"
    assert np.diff(trace.arrival_s[of_first]).tolist() == [30.0]
    assert trace.provenance.warnings[0].startswith("the format has no times")
    flat = read([{"conversations": talk}], starts="zero")
    assert flat.arrival_s.tolist() == [0.0, 0.0]


def test_turns_that_are_no_requests_are_counted(read):
    trace = read(
        [
            {"conversations": [turn("gpt", "x"), turn("human", "y" * 30)]},
            {"conversations": []},
            {"conversations": [turn("gpt", "x")]},
            {"conversations": [turn("human", "y" * 30)] * 4},
        ]
    )
    assert trace.num_requests == 5
    assert (trace.provenance.rows_read, trace.provenance.rows_rejected) == (4, 2)
    assert trace.provenance.warnings[1:] == (
        "conversations without a turn of a person, left out: 2",
        "turns before a person's first, left out: 1",
    )


@pytest.mark.parametrize(
    ("conversation", "field"),
    [
        ({"conversations": 5}, "conversations"),
        ({"conversations": ["x"]}, "conversations[0]"),
        ({"conversations": [{"from": "human"}]}, "conversations[0].value"),
        ({"conversations": [{"value": "x"}]}, "conversations[0].from"),
        (["conversations"], "row"),
    ],
)
def test_wrong_conversations(read, conversation, field):
    good = {"conversations": [turn("human", "y" * 30)]}
    with pytest.raises(RowErrors) as caught:
        read(json.dumps([good, conversation], indent=1))
    (error,) = caught.value.rows
    assert error.field == field
    assert error.line == 2 + json.dumps(good, indent=1).count("\n") + 1


def test_arrays_and_lines_agree(read):
    rows = [{"conversations": [turn("human", f'{n}"]}} ' * 9)]} for n in range(50)]
    array, indented = read(rows), read(json.dumps(rows, indent=2))
    assert array.equals(indented)
    assert array.equals(read(lines(*rows)))


@pytest.mark.parametrize("text", ["", " ]", ", 5", "]]", "] x"])
def test_arrays_that_do_not_end_as_they_should(read, text):
    one = json.dumps({"conversations": [turn("human", "y" * 30)]})
    with pytest.raises(TraceError):
        read(f"[{one}{text}" if text != " ]" else f"[{one}, {one} ] ]")
