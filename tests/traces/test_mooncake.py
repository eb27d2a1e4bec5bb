import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.errors import RowErrors, TraceError
from hotset.traces.registry import read_trace

GOOD = {"timestamp": 0, "input_length": 100, "output_length": 1, "hash_ids": [7]}


@pytest.fixture
def read(tmp_path):
    def read(*lines, **options):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path = tmp_path / "t.jsonl"
        path.write_bytes("\n".join(texts).encode("utf-8", "surrogateescape"))
        return read_trace(path, "mooncake", **options)

    return read


def row(**changes):
    return {**GOOD, **changes}


def only_error(caught):
    (error,) = caught.value.rows
    return error


def test_columns_and_units(read):
    trace = read(
        row(timestamp=1500, input_length=513, hash_ids=[4, 9], session_id="b"),
        row(timestamp=2000.5, hash_ids=[5], session_id=7),
        row(timestamp=2001, session_id="b", extra={"a": [1]}),
    )
    assert trace.block_tokens == 512
    assert trace.arrival_s.tolist() == [1.5, 2.0005, 2.001]
    assert trace.block_ids.tolist() == [0, 1, 2, 3]
    assert trace.session.tolist() == [0, 1, 0]
    assert trace.chained
    assert trace.id_scope == "global"
    assert trace.provenance.rows_read == 3


def test_number_of_ids_must_fit_the_length(read):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, row(timestamp=200, input_length=20, hash_ids=[0, 1]))
    error = only_error(caught)
    assert (error.line, error.field) == (2, "hash_ids")
    assert "513..1024 tokens" in error.allowed
    assert "block size of 10..19" in error.allowed


@pytest.mark.parametrize(
    ("length", "count"), [(6758, 14), (1024, 2), (1025, 3), (1, 1), (512, 1)]
)
def test_the_last_id_covers_what_is_left(read, length, count):
    trace = read(row(input_length=length, hash_ids=list(range(count))))
    assert trace.accesses("count").ids.size == count
    assert trace.accesses("drop").ids.size == length // 512
    with pytest.raises(RowErrors):
        read(row(input_length=length, hash_ids=list(range(count + 1))))


@pytest.mark.parametrize("field", ["timestamp", "input_length", "output_length"])
def test_missing_field(read, field):
    wrong = {key: value for key, value in GOOD.items() if key != field}
    with pytest.raises(RowErrors) as caught:
        read(wrong, row(timestamp=100))
    assert (only_error(caught).line, only_error(caught).field) == (1, field)
    assert only_error(caught).got == "nothing"


@pytest.mark.parametrize("field", ["timestamp", "input_length", "output_length"])
@pytest.mark.parametrize(
    "value",
    [
        *("true", "-1", "NaN", "Infinity", "-Infinity", "1e309", '"655"', "null"),
        *("[]", "{}", "-0.5", "1e30", "9" * 5000),
    ],
)
def test_wrong_number(read, field, value):
    text = json.dumps(row(**{field: "HERE"})).replace('"HERE"', value)
    with pytest.raises(RowErrors) as caught:
        read(GOOD, text)
    error = only_error(caught)
    assert error.line == 2
    assert error.field in (field, "row")
    assert (error.field == "row") == (value == "9" * 5000)
    assert len(str(error)) < 400


def test_fractions_of_a_token(read):
    assert read(row(input_length=100.0)).input_tokens.tolist() == [100]
    for field in ("input_length", "output_length"):
        with pytest.raises(RowErrors) as caught:
            read(row(**{field: 655.5}))
        assert (only_error(caught).field, only_error(caught).got) == (field, "655.5")


@pytest.mark.parametrize("length", [0, 0.0])
def test_zero_length_is_rejected(read, length):
    with pytest.raises(RowErrors) as caught:
        read(row(input_length=length, output_length=0, hash_ids=[]))
    assert only_error(caught).field == "input_length"


@pytest.mark.parametrize(
    "value", ["true", "-1", "NaN", "Infinity", "1e309", "1.5", "null", "[1]", "1e30"]
)
def test_wrong_id(read, value):
    text = json.dumps(row(input_length=600, hash_ids=[1, 2])).replace("2]", value + "]")
    with pytest.raises(RowErrors) as caught:
        read(text)
    assert only_error(caught).field == "hash_ids[1]"


@pytest.mark.parametrize(
    "value",
    [
        *("null", "true", "NaN", "-Infinity", "1e30", "1E+30", "-0.50", "-1234567890"),
        *('{"a": 1e30, "b": [1, 2]}', "[ 1,2 ]"),
    ],
)
@pytest.mark.parametrize("field", ["timestamp", "input_length", "hash_ids[1]"])
def test_a_wrong_value_is_shown_as_in_the_file(read, value, field):
    place, _, index = field.partition("[")
    wrong = row(**{place: [5, "HERE", 6] if index else "HERE"})
    with pytest.raises(RowErrors) as caught:
        read(json.dumps(wrong).replace('"HERE"', value))
    assert (only_error(caught).field, only_error(caught).got) == (field, value)


@pytest.mark.parametrize(
    "value", ['"600"', '"a\\"b"', "1234567890123456789012345678901", '"\u00e9"']
)
def test_strings_and_long_integers_are_shown_in_full(read, value):
    text = json.dumps(row(output_length="HERE")).replace('"HERE"', value)
    with pytest.raises(RowErrors) as caught:
        read(text)
    assert only_error(caught).got == value


def test_wrong_values_are_one_short_line(read):
    for value in (
        '"' + "9" * 300 + '"',
        '"a\u2028b\x7f"',
        '"\udcff"',
        "[" * 900 + "]" * 900,
    ):
        text = json.dumps(row(timestamp="HERE")).replace('"HERE"', value)
        with pytest.raises(RowErrors) as caught:
            read(text)
        first, _ = str(caught.value).split("\n")
        assert first.isprintable()
        assert len(only_error(caught).got) < 100


@pytest.mark.parametrize("text", ["null", "[]", "1", "true", '"a"'])
def test_a_row_that_is_no_object_is_shown(read, text):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, text)
    assert (only_error(caught).field, only_error(caught).got) == ("row", text)


def test_the_limit_of_times_is_named(read):
    with pytest.raises(RowErrors, match=r"timestamp: got 1e19, .*below 2\*\*63"):
        read(json.dumps(row(timestamp="HERE")).replace('"HERE"', "1e19"))


@pytest.mark.parametrize("value", [5, "abc", {"a": 1}, True])
def test_ids_must_be_a_list(read, value):
    with pytest.raises(RowErrors) as caught:
        read(row(hash_ids=value))
    assert only_error(caught).field == "hash_ids"


def test_ids_of_any_width_stay_apart(read):
    big = 2**64
    ids = [big, big + 1, 2**200, 2**63 - 1, 2**63, 2**64 - 1]
    rows = [row(hash_ids=[i]) for i in ids]
    assert read(*rows, *rows).block_ids.tolist() == [*range(6), *range(6)]


def test_string_ids(read):
    ids = ["0xabcd", "1", 1, "ab" * 32, "1", "0xabcd", "\u00e9"]
    trace = read(*(row(hash_ids=[i]) for i in ids))
    assert trace.block_ids.tolist() == [0, 1, 2, 3, 1, 0, 4]


def test_requests_without_ids_all_miss(read):
    without = {key: value for key, value in GOOD.items() if key != "hash_ids"}
    trace = read(GOOD, row(hash_ids=[]), without, row(hash_ids=None))
    assert np.diff(trace.request_offsets).tolist() == [1, 0, 0, 0]
    assert trace.input_tokens.tolist() == [100] * 4


def test_no_ids_at_all(read):
    with pytest.raises(TraceError, match="no reuse information"):
        read(row(hash_ids=[]), row(hash_ids=[]))


def test_out_of_order_rows_are_sorted_by_time_then_line(read):
    times = [10, 5, 7, 5]
    rows = [
        row(timestamp=time, output_length=line, hash_ids=[line], session_id=line)
        for line, time in enumerate(times)
    ]
    trace = read(*rows)
    assert trace.output_tokens.tolist() == [1, 3, 2, 0]
    assert trace.block_ids.tolist() == [0, 1, 2, 3]
    assert trace.session.tolist() == [0, 1, 2, 3]
    assert trace.provenance.warnings == (
        "rows earlier than the row before them: 2; sorted by time, then line",
    )


def test_ids_of_several_blocks_move_with_their_rows(read):
    trace = read(
        row(timestamp=2, input_length=1500, hash_ids=[1, 2, 3]),
        row(timestamp=1, input_length=600, hash_ids=[1, 2]),
    )
    assert trace.block_ids.tolist() == [0, 1, 0, 1, 2]


def test_equal_times_keep_file_order(read):
    trace = read(*(row(timestamp=3, output_length=n) for n in range(28)))
    assert trace.output_tokens.tolist() == list(range(28))
    assert trace.provenance.warnings == ()


def test_broken_chain_falls_back_to_parents(read):
    trace = read(
        row(input_length=1500, hash_ids=[1, 2, 1]),
        row(input_length=1500, hash_ids=[1, 2, 1]),
        row(input_length=600, hash_ids=[3, 2]),
    )
    assert trace.block_ids.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    (warning,) = trace.provenance.warnings
    assert warning.startswith("ids behind more than one parent: 2;")


def test_seconds_read_as_milliseconds_are_noticed(read):
    rows = [row(timestamp=n * 0.2) for n in range(200)]
    (warning,) = read(*rows).provenance.warnings
    assert "look like seconds" in warning
    assert read(*rows[:50]).provenance.warnings == ()


def test_another_block_size_is_refused(read):
    assert read(row(block_size=512)).num_requests == 1
    with pytest.raises(RowErrors) as caught:
        read(row(block_size=512), row(block_size=16), row(block_size=64))
    assert [(error.line, error.field) for error in caught.value.rows] == [
        (2, "block_size"),
        (3, "block_size"),
    ]


def test_line_ends_mark_and_blank_lines(read):
    text = json.dumps(GOOD)
    trace = read(f"\ufeff{text}\r", "\r", "   ", f"{text}\r", "", "")
    assert trace.num_requests == 2
    with pytest.raises(RowErrors) as caught:
        read(text, "", "{}")
    assert only_error(caught).line == 3


def test_truncated_last_line(read):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, '{"timestamp":1,"input_')
    assert (only_error(caught).line, only_error(caught).field) == (2, "row")


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "1", "null", '"a"', "[" * 100_000, '{"a":' * 5000, "{'timestamp': 1}"),
        *('{"timestamp": 1} {}', "\udcff\udcfe", '{"timestamp": "\udcff"}'),
    ],
)
def test_rows_that_are_no_object(read, text):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, text)
    assert (only_error(caught).line, only_error(caught).field) == (2, "row")


@pytest.mark.parametrize("key", ["hash_ids", "timestamp", "other"])
def test_a_key_twice(read, key):
    text = json.dumps(row(other=1)).rstrip("}") + f', "{key}": 1}}'
    with pytest.raises(RowErrors) as caught:
        read(text)
    assert (only_error(caught).field, only_error(caught).got) == (key, "the key twice")


def test_values_of_other_fields_do_not_matter(read):
    text = json.dumps(row(other="HERE")).replace('"HERE"', "NaN")
    assert read(text).num_requests == 1
    assert read(row(note="a:b:c", nested={"timestamp": 3})).num_requests == 1


@pytest.mark.parametrize("value", [True, 1.5, [], {}, "x" * 300])
def test_wrong_session(read, value):
    with pytest.raises(RowErrors) as caught:
        read(row(session_id=value))
    assert only_error(caught).field == "session_id"
    assert len(only_error(caught).got) < 100


def test_strict_stops_at_twenty(read):
    with pytest.raises(RowErrors) as caught:
        read(GOOD, *["{}"] * 50)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "20 wrong rows; reading stopped there"
    assert caught.value.rows[-1].line == 21
    with pytest.raises(RowErrors, match=r"3 wrong rows$"):
        read(GOOD, *["{}"] * 3)


def test_skip_writes_rejects_and_counts(read, tmp_path):
    rejects = tmp_path / "rejects.jsonl"
    rows = [GOOD] * 18 + [row(input_length="655"), "\udcff" * 5000]
    trace = read(*rows, on_bad_row="skip", rejects=rejects)
    assert trace.num_requests == 18
    assert trace.provenance.rows_read == 20
    assert trace.provenance.rows_rejected == 2
    first, second = map(json.loads, rejects.read_text().splitlines())
    assert first == {
        "line": 19,
        "field": "input_length",
        "got": '"655"',
        "allowed": "a whole number of tokens, 1..2147483647",
        "raw": json.dumps(rows[18]),
    }
    assert second["line"] == 20
    assert len(second["raw"]) <= 8000


def test_skip_fails_above_a_share_and_keeps_the_rejects(read, tmp_path):
    rejects = tmp_path / "rejects.jsonl"
    rows = [GOOD] * 8 + ["{}"] * 2
    with pytest.raises(TraceError, match="2 of 10 rows rejected, allowed: a share of"):
        read(*rows, on_bad_row="skip", rejects=rejects)
    assert len(rejects.read_text().splitlines()) == 2
    assert read(*rows, on_bad_row="skip", max_reject_share=0.2).num_requests == 8
    with pytest.raises(TraceError, match="1 of 1 rows rejected"):
        read("{}", on_bad_row="skip", max_reject_share=1.0)


def test_only_blank_lines(read):
    with pytest.raises(TraceError, match="no rows"):
        read("", "  ", "")


def test_a_delay_counts_from_the_row_before_in_its_session(read):
    def later(session, delay):
        changed = row(session_id=session, delay=delay)
        del changed["timestamp"]
        return changed

    trace = read(
        row(timestamp=1000, session_id="a"),
        later("a", 500),
        row(timestamp=1200, session_id="b"),
        later("a", 250.5),
        later("b", 0),
    )
    assert trace.arrival_s.tolist() == [1.0, 1.2, 1.2, 1.5, 1.7505]
    assert trace.session.tolist() == [0, 1, 1, 0, 0]
    (warning,) = trace.provenance.warnings
    assert warning.startswith("rows that have a delay and no time: 3;")
    with pytest.raises(RowErrors) as caught:
        read(row(session_id="a"), later("c", 5))
    assert only_error(caught).field == "timestamp"
    with pytest.raises(RowErrors) as caught:
        read(row(session_id="a"), later("a", -5))
    assert only_error(caught).field == "delay"


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "timestamp": st.sampled_from([0, 7, 3.5, -1, True, "1", 2**60]),
                "input_length": st.sampled_from([1, 512, 513, 0, 1.0, True, 2**40]),
                "output_length": st.sampled_from([0, 5, -1, 2**40, False]),
                "hash_ids": st.sampled_from(
                    [[1], [1, 2], [], [1.0], [True], [-1], ["1"], [2**70], "12", {}]
                ),
            }
        )
        | st.just(GOOD),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["", "{}", '{"timestamp": 1},{"a": 2}', '"', "]", "[", "{"]),
    st.integers(0, 6),
)
def test_rows_of_the_usual_form_are_read_like_any(tmp_path_factory, rows, junk, at):
    """Rows that are checked together, and the same ones checked one by one."""
    lines = [json.dumps(row) for row in rows]
    lines.insert(at, junk)
    path = tmp_path_factory.mktemp("t") / "t.jsonl"
    found = []
    for more in ("", ', "other": 0}'):
        changed = [line[:-1] + more if more and line in map(json.dumps, rows) else line
                   for line in lines]  # fmt: skip
        path.write_text("\n".join(changed))
        try:
            trace = read_trace(path, "mooncake", "skip", max_reject_share=1.0)
        except TraceError as error:
            found.append(str(error).replace(more[:-1], ""))
            continue
        provenance = trace.provenance
        found.append(
            (provenance.rows_read, provenance.rows_rejected, provenance.warnings)
        )
        found[-1] += tuple(
            getattr(trace, name).tolist()
            for name in ("block_ids", "arrival_s", "input_tokens", "output_tokens")
        )
    assert found[0] == found[1]
