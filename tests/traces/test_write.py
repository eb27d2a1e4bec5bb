import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.traces.errors import TraceError
from hotset.traces.generate import KINDS, generate
from hotset.traces.intern import densify, intern_ids
from hotset.traces.model import Provenance, Trace
from hotset.traces.parquet import write_parquet
from hotset.traces.registry import read_trace
from hotset.traces.write import write_mooncake, write_trace


@st.composite
def traces(draw, plain):
    """Random traces; plain ones have nothing that Mooncake's form cannot hold."""
    count = draw(st.integers(1, 6))
    block = 512 if plain else draw(st.integers(1, 600))
    tokens = draw(st.lists(st.integers(1, 2500), min_size=count, max_size=count))
    sizes, raw = [], []
    for length in tokens:
        most = -(-length // block)
        size = draw(st.sampled_from([0, most])) if plain else draw(st.integers(0, most))
        size = min(size, 8) if not plain else size
        sizes.append(size)
        raw += draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    if plain and not raw:
        tokens[0], sizes[0], raw = 1, 1, [0]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    times = st.integers(0, 10**7) | st.floats(0, 1e12)
    milliseconds = np.sort(draw(st.lists(times, min_size=count, max_size=count)))
    session = np.array(draw(per_request(count, st.integers(-1, 3))), np.int64)
    session[session >= 0] = densify(session[session >= 0])[0]
    return Trace(
        block_tokens=block,
        request_offsets=offsets,
        block_ids=intern_ids(np.array(raw, np.int64), offsets, chained=False).ids,
        arrival_s=milliseconds.astype(np.float64) / 1000.0,
        input_tokens=np.array(tokens),
        output_tokens=np.array(draw(per_request(count, st.integers(0, 9)))),
        session=session,
        provenance=Provenance("test", "t", "0", count, 0, warnings=("\u00e9",)),
        **({} if plain else draw(tags(count))),
    )


def per_request(count, values):
    return st.lists(values, min_size=count, max_size=count)


@st.composite
def tags(draw, count):
    finite = st.floats(-1e9, 1e9) | st.just(float("nan"))
    positive = st.floats(1e-9, 1e9) | st.just(float("nan"))
    found = {
        "id_scope": draw(st.sampled_from(["global", "local"])),
        "chained": draw(st.booleans()),
    }
    for name, column in (
        ("priority", finite),
        ("ttl_s", positive),
        ("end_session", st.booleans()),
    ):
        if draw(st.booleans()):
            found[name] = np.array(draw(per_request(count, column)))
    for name in ("source_type", "tenant"):
        names = draw(st.lists(st.text(max_size=5), unique=True, max_size=3))
        if names:
            codes = per_request(count, st.integers(-1, len(names) - 1))
            found[name] = np.array(draw(codes))
            found[f"{name}_names"] = tuple(names)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("round-trip")


@given(trace=traces(plain=False))
@settings(max_examples=60)
def test_parquet_round_trip(folder, trace):
    path = folder / "t.parquet"
    write_trace(trace, path)
    back = read_trace(path)
    assert back.equals(trace)
    assert back.provenance.origin == trace.provenance
    again = io.BytesIO()
    write_parquet(back, again)
    assert again.getvalue() == path.read_bytes()


@given(trace=traces(plain=True), ending=st.sampled_from(["", ".gz", ".zst"]))
@settings(max_examples=60)
def test_mooncake_round_trip(folder, trace, ending):
    path = folder / f"t.jsonl{ending}"
    assert write_trace(trace, path) == ()
    back = read_trace(path)
    assert back.equals(trace)
    first = path.read_bytes()
    write_trace(back, path)
    assert path.read_bytes() == first


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".parquet", ".jsonl", ".JSONL.gz", ".jsonl.zst"])
def test_generated_traces_come_back(tmp_path, kind, ending):
    trace = generate(kind, 200, 1)
    path = tmp_path / f"t{ending}"
    write_trace(trace, path)
    assert read_trace(path).equals(trace)


def test_a_public_trace_comes_back(public_traces, tmp_path):
    trace = read_trace(public_traces / "mooncake_synthetic.jsonl.gz")
    for ending in (".parquet", ".jsonl"):
        path = tmp_path / f"t{ending}"
        write_trace(trace, path)
        assert read_trace(path).equals(trace)


def test_times_that_no_millisecond_gives_keep_their_order(make_trace, tmp_path):
    rng = np.random.default_rng(1)
    times = np.sort(rng.random(2000) * 1e6)
    trace = make_trace([[0]] * 2000, block_tokens=512, arrival_s=times)
    write_trace(trace, tmp_path / "t.jsonl")
    back = read_trace(tmp_path / "t.jsonl")
    assert back.provenance.warnings == ()
    assert np.allclose(back.arrival_s, times, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_tokens": 16}, "blocks of 512 tokens"),
        ({"input_tokens": np.array([1025, 512])}, "request 0 has none"),
        ({"arrival_s": np.array([-1.0, 0.0])}, "times of 0 or more"),
        ({"output_tokens": np.array([2**31, 0])}, "2147483648"),
    ],
)
def test_what_mooncakes_form_cannot_hold(make_trace, tmp_path, change, message):
    trace = make_trace([[0, 1], [0]], **{"block_tokens": 512, **change})
    with pytest.raises(TraceError, match=f"{message}.*parquet"):
        write_trace(trace, tmp_path / "t.jsonl")
    with pytest.raises(TraceError, match=message):
        write_mooncake(trace, io.BytesIO())
    assert os.listdir(tmp_path) == []


def test_columns_left_out_are_named(make_trace, tmp_path):
    trace = make_trace([[0]], block_tokens=512, priority=np.array([1.0]))
    assert write_trace(trace, tmp_path / "t.jsonl") == ("priority",)
    assert write_trace(trace, tmp_path / "t.parquet") == ()


def test_unknown_ending(make_trace, tmp_path):
    with pytest.raises(TraceError, match=r"allowed: \.parquet, \.jsonl"):
        write_trace(make_trace([[0]]), tmp_path / "t.csv")
