import numpy as np
import pytest
from support import trace_files
from typer.testing import CliRunner

from hotset.sim.cli import app
from hotset.traces.errors import ArgumentError, RowErrors, TraceError
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace
from hotset.traces.stats import hit_runs

BURSTGPT_2 = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
    "Total tokens,Log Type\n"
    "5,a,1.5,ChatGPT,472,18,490,Conversation log\n"
    "6,b,0.5,ChatGPT,100,0,100,Conversation log\n"
    "9,a,1.5,ChatGPT,600,18,618,Conversation log\n"
)


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return path

    return write


def test_burstgpt(write):
    trace = read_trace(write(trace_files.BURSTGPT))
    assert trace.provenance.format == "burstgpt"
    assert trace.arrival_s.tolist() == [5.0]
    assert trace.input_tokens.tolist() == [472]
    assert trace.num_accesses == 0
    provenance = trace.provenance
    assert (provenance.rows_read, provenance.rows_rejected) == (2, 1)
    assert "failed: 1; left out and counted as rejected" in provenance.warnings[0]
    second = read_trace(write(BURSTGPT_2))
    assert second.session.tolist() == [0, 1, 0]


def test_azure(write):
    trace = read_trace(write(trace_files.AZURE))
    assert trace.provenance.format == "azure-llm"
    assert np.diff(trace.arrival_s).round(6).tolist() == [4.314579]
    assert trace.output_tokens.tolist() == [44, 109]


def test_no_hit_ratio_without_a_model(write):
    path = write(trace_files.AZURE)
    common = ["replay", str(path), "--policy=lru", "--capacity=10"]
    refused = CliRunner().invoke(app, common)
    assert refused.exit_code == 2
    assert "no reuse information" in refused.output
    assert "--synthetic-reuse" in refused.output


def test_every_result_names_the_model(write, tmp_path):
    path = write(trace_files.AZURE)
    result = tmp_path / "out.json"
    ran = CliRunner().invoke(
        app,
        [
            *("replay", str(path), "--policy=lru", "--capacity=10"),
            *("--synthetic-reuse=prefix:160", "--json", str(result)),
        ],
    )
    assert ran.exit_code == 0, ran.output
    assert "reuse is made up by --synthetic-reuse prefix:160" in ran.output
    text = result.read_text()
    assert '"synthetic_reuse": "prefix:160"' in text
    assert "reuse is made up by" in text


def test_prompts_that_begin_alike(write):
    options = ReadOptions(synthetic_reuse="prefix:160", block_tokens=16)
    trace = read_trace(write(trace_files.AZURE), options=options)
    assert hit_runs(trace.accesses("drop")).tolist() == [0, 10]


def test_chats_go_on(write):
    rows = "".join(f"{n},x,{100 + 20 * n},5,0,x\n" for n in range(300))
    path = write(trace_files.BURSTGPT.splitlines()[0] + "\n" + rows)

    def read(share, seed=0):
        options = ReadOptions(synthetic_reuse=f"chat:{share}", trace_seed=seed)
        return read_trace(path, options=options)

    hits = [np.count_nonzero(hit_runs(read(s).accesses("drop"))) for s in (0, 0.5, 1)]
    assert hits[0] == 0
    assert 100 < hits[1] < 200
    assert hits[2] == 299
    assert read(0.5).equals(read(0.5))
    assert not read(0.5).equals(read(0.5, 1))


@pytest.mark.parametrize(
    "options",
    [
        *({"synthetic_reuse": text} for text in ("", "x", "chat:2", "prefix:-1")),
        {"trace_seed": 3},
        {"block_tokens": 16},
    ],
)
def test_wrong_options(write, options):
    with pytest.raises(ArgumentError):
        read_trace(write(trace_files.AZURE), options=ReadOptions(**options))


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("2023-11-16 18:15,374.5,44", "ContextTokens"),
        ("yesterday,374,44", "TIMESTAMP"),
        ("1950-11-16 18:15,374,44", "TIMESTAMP"),
        (",374,44", "TIMESTAMP"),
        ("2023-11-16 18:15,,44", "ContextTokens"),
        ("2023-11-16 18:15,374", "row"),
    ],
)
def test_wrong_rows(write, line, field):
    with pytest.raises(RowErrors) as caught:
        read_trace(write(trace_files.AZURE + line))
    (error,) = caught.value.rows
    assert (error.line, error.field) == (4, field)


def test_nothing_but_failures(write):
    header = trace_files.BURSTGPT.splitlines()[0]
    with pytest.raises(TraceError, match="no row is a request that was served"):
        read_trace(write(f"{header}\n1,x,0,0,0,x\n"))
