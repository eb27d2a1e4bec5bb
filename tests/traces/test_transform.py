import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hotset.traces import transform
from hotset.traces.commands import app
from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.generate import generate
from hotset.traces.registry import read_trace
from hotset.traces.stats import ceiling
from hotset.traces.write import write_trace


@pytest.fixture
def trace(make_trace):
    return make_trace(
        [[0, 1], [0, 2, 3], [], [0, 2], [4]],
        arrival_s=[10.0, 11.0, 15.0, 15.0, 22.0],
        session=[0, 1, -1, 0, 2],
        output_tokens=[0, 9, 0, 0, 5],
        priority=[1.0, 2.0, 3.0, 4.0, 5.0],
        tenant=[0, 1, -1, 0, 1],
        tenant_names=("ann", "bob"),
    )


def test_window(trace):
    part = transform.window(trace, "1:12")
    assert part.arrival_s.tolist() == [11, 15, 15]
    assert part.block_ids.tolist() == [0, 1, 2, 0, 1]
    assert part.session.tolist() == [0, -1, 1]
    assert part.priority.tolist() == [2, 3, 4]
    assert part.provenance.steps == ("requests of the window 1:12 s: 3 of 5",)
    assert transform.window(trace, "12:").num_requests == 1
    assert transform.window(trace, "0:").equals(trace)


def test_limit_context_and_rate(trace):
    assert transform.limit(trace, 2).block_ids.tolist() == [0, 1, 0, 2, 3]
    assert transform.limit(trace, 99).equals(trace)
    short = transform.max_context(trace, 8)
    assert short.arrival_s.tolist() == [10, 15, 15]
    assert short.provenance.steps == (
        "requests of at most 8 input and output tokens: 3 of 5",
    )
    assert ceiling(short, "drop").hit_blocks != ceiling(trace, "drop").hit_blocks
    fast = transform.rate(trace, 2)
    assert fast.arrival_s.tolist() == [10, 10.5, 12.5, 12.5, 16]
    both = transform.limit(fast, 1)
    assert both.provenance.steps == (
        "arrivals at 2 times the rate",
        "the first 1 requests: 1 of 5",
    )


@pytest.mark.parametrize(
    "change",
    [
        *(lambda t, text=text: transform.window(t, text) for text in ("", "1", "-1:2")),
        lambda t: transform.window(t, "13:14"),
        lambda t: transform.window(t, "3:2"),
        lambda t: transform.limit(t, 0),
        lambda t: transform.max_context(t, 0),
        lambda t: transform.max_context(t, 1),
        lambda t: transform.rate(t, 0),
        lambda t: transform.rate(t, float("nan")),
        lambda t: transform.rate(t, float("inf")),
    ],
)
def test_wrong_values(trace, change):
    with pytest.raises(TraceError, match=r"allowed|none has block ids"):
        change(trace)


@given(
    st.floats(0, 300).map(lambda at: f"{at:.3f}:"),
    st.integers(1, 80),
    st.integers(3000, 20_000),
    st.sampled_from([0.5, 1, 3.0]),
    st.sampled_from([".parquet", ".jsonl", ".jsonl.gz"]),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_converted_reads_back_equal(
    tmp_path, window, limit, context, rate, ending
):
    trace = generate("chat", 120, 5)
    try:
        made = transform.limit(
            transform.max_context(transform.window(trace, window), context), limit
        )
    except ArgumentError:
        return
    made = transform.rate(made, rate)
    path = tmp_path / f"t{ending}"
    write_trace(made, path)
    found = read_trace(path)
    if ending == ".parquet":
        assert found.equals(made)
        assert found.provenance.steps == made.provenance.steps
        write_trace(transform.limit(found, 1), path)
        assert len(read_trace(path).provenance.steps) == len(made.provenance.steps) + 1
        return
    assert found.block_ids.tolist() == made.block_ids.tolist()
    assert found.session.tolist() == made.session.tolist()
    assert np.allclose(found.arrival_s, made.arrival_s, rtol=1e-15)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(app, list(map(str, arguments)))

    return run


def test_options_of_convert_are_recorded(run, tmp_path):
    (tmp_path / "key").write_bytes(b"k" * 32)
    ran = run(
        *("convert", "sample", "--out", "t.parquet", "--window", "0:500"),
        *("--max-context", 30000, "--limit", 100, "--rate", 2, "--anonymise", "key"),
    )
    assert ran.exit_code == 0, ran.output
    found = read_trace("t.parquet")
    steps = found.provenance.steps
    assert [step.split()[0] for step in steps] == [
        *("requests", "requests", "the", "arrivals", "ids"),
    ]
    assert found.provenance.origin.path == "anonymised"
    for step in steps:
        assert step in ran.output
