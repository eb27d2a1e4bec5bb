import json

import pytest

from hotset.traces.errors import ArgumentError, RowErrors, TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace

ROW = {"time": 1, "input": 40, "output": 2, "ids": ["a", "b", "c"], "session": "x"}


@pytest.fixture
def read(tmp_path):
    def read(rows, format="jsonl", **options):
        path = tmp_path / "t"
        if isinstance(rows, str):
            path.write_text(rows)
        else:
            path.write_text("\n".join(map(json.dumps, rows)))
        stated = {"time_unit": "s", "block_tokens": 16, **options}
        return read_trace(path, format, options=ReadOptions(**stated))

    return read


@pytest.mark.parametrize(
    ("unit", "seconds"), [("s", 1500.0), ("ms", 1.5), ("us", 0.0015), ("ns", 1.5e-6)]
)
def test_the_unit_is_as_declared(read, unit, seconds):
    trace = read([{**ROW, "time": 1500}], time_unit=unit)
    assert trace.arrival_s.tolist() == [seconds]
    assert dict(trace.provenance.options)["time_unit"] == unit


@pytest.mark.parametrize("missing", ["time_unit", "block_tokens"])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_unit_and_block_size_must_be_declared(read, format, missing):
    with pytest.raises(ArgumentError, match=f"{missing}: got None"):
        read([ROW], format, **{missing: None})


@pytest.mark.parametrize(
    "columns",
    ["", "x", "time", "time=", "when=t", "time=a,input=a", "time=a,,", "time=input"],
)
def test_wrong_declarations(read, columns):
    with pytest.raises(ArgumentError, match="columns"):
        read([ROW], columns=columns)


def test_columns_by_other_names(read):
    row = {"ts": 3, "prompt": 16, "time": "other", "blocks": [4], "kind": "a"}
    trace = read([row], columns="time=ts,input=prompt,ids=blocks,type=kind")
    assert trace.arrival_s.tolist() == [3.0]
    assert trace.output_tokens.tolist() == [0]
    assert trace.session.tolist() == [-1]
    assert trace.source_type_names == ("a",)


def test_csv_and_jsonl_agree(read):
    rows = [ROW, {**ROW, "time": 2.5, "ids": [1, "1", "0xff"], "session": "y"}]
    table = (
        "session,time,ids,input,output\r\n"
        'x,1,"a, b ,c",40,2\r\n'
        '\r\ny,2.5,"[1, ""1"", 0xff]",40,2\r\n'
    )
    assert read(table, "csv").equals(read(rows))


def test_chained_ids_are_keys_of_their_own(read):
    rows = [{**ROW, "ids": [1, 2, 3]}, {**ROW, "ids": [4, 5, 3]}]
    assert read(rows).num_blocks == 6
    assert read(rows).chained is False
    linked = [{**ROW, "ids": [1, 2, 3]}, {**ROW, "ids": [1, 2, 4]}]
    assert read(linked, chained=True).chained is True
    assert read(linked, chained=True).num_blocks == 4


@pytest.mark.parametrize(
    ("ids", "length"), [([1, 2], 40), ([1, 2, 3], 40), ([], 40), ([1], 16), ([1], 15)]
)
def test_a_partial_block_may_have_an_id(read, ids, length):
    assert read([ROW, {**ROW, "ids": ids, "input": length}]).num_requests == 2


def test_too_many_ids_name_what_would_fit(read):
    with pytest.raises(RowErrors) as caught:
        read([{**ROW, "ids": [1, 2, 3, 4], "input": 40}])
    (error,) = caught.value.rows
    assert error.allowed.startswith("2 or 3 (16-token blocks) or none; 4 ids need 49..")
    assert "block size of about 8..13" in error.allowed


@pytest.mark.parametrize(
    ("count", "step", "unit", "meant"),
    [(200, 200, "us", ""), (200, 1e6, "ns", ""), (10, 1e9, "s", "did you mean ms")],
)
def test_times_that_cannot_be(read, count, step, unit, meant):
    rows = [{**ROW, "time": n * step} for n in range(count)]
    if not meant:
        assert read(rows, time_unit=unit).num_requests == count
        return
    with pytest.raises(TraceError, match=meant):
        read(rows, time_unit=unit)


def test_seconds_read_as_nanoseconds_are_refused(read):
    rows = [{**ROW, "time": n} for n in range(200)]
    with pytest.raises(TraceError, match=r"time_unit: got ns.*did you mean s or ms"):
        read(rows, time_unit="ns")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("x,1,a,40", "row"),
        ("x,one,a b c,40,2", "time"),
        ("x,1,a b c,40.5,2", "input"),
        ("x,1,a b c,,2", "input"),
        ("x,nan,a b c,40,2", "time"),
        ("x,1,a b c,40,-2", "output"),
        ('x,1,"a b c,40,2', "row"),
        ("x,1,a b c d,40,2", "ids"),
        ("x," + "9" * 5000 + ",a b c,40,2", "time"),
    ],
)
def test_wrong_lines_of_a_table(read, line, field):
    with pytest.raises(RowErrors) as caught:
        read(f"session,time,ids,input,output\nx,1,a b c,40,2\n{line}\n", "csv")
    (error,) = caught.value.rows
    assert (error.line, error.field) == (3, field)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("time,input\n1,2\n", "no column ids; the header has time, input"),
        ("time,time,ids,input\n", "header: got time, time"),
        ('"time\n', "header: got no CSV"),
        ("time,ids,input\n", "no rows"),
    ],
)
def test_tables_of_no_use(read, table, said):
    with pytest.raises(TraceError, match=said):
        read(table, "csv")
