"""`hotset trace info` from the outside: text, JSON and the picture."""

import json

import pytest
from support import trace_files
from typer.testing import CliRunner

from hotset.sim.cli import app
from hotset.traces.commands import app as trace_app


def run(*arguments, code=0, program=app):
    result = CliRunner().invoke(program, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_figures_of_a_public_trace(public_traces, tmp_path):
    file = public_traces / "mooncake_conversation.jsonl.gz"
    result = tmp_path / "out.json"
    output = run("trace", "info", file, "--json", result)
    for text in (
        "1,180 times, mostly 3 s apart, up to 28 at once",
        "stand for whole prefixes (chained), scope global",
        "in 100.0 % of requests",
        "0 (0.0 %) over 131,072 tokens",
        "3.40 requests per second",
        "distinct blocks in 58.95 s, at most 5,",
    ):
        assert text in output
    found = json.loads(result.read_text())
    assert round(found["tails"]["count"]["ceiling"]["token_hit_ratio"], 5) == 0.37362
    assert sum(found["profile"]["over_time"]["new_blocks"]) == 170899
    assert found["profile"]["over_context"]["max_context_tokens"] == 131072


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_the_same_every_time(tmp_path, ending):
    pictures = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for picture in pictures:
        run("trace", "info", "sample", "--plot", picture)
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert len(first) > 20_000


def test_a_picture_of_lengths_alone(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text(trace_files.AZURE)
    output = run("trace", "info", trace, "--plot", tmp_path / "out.png")
    assert "unknown" in output
    assert (tmp_path / "out.png").stat().st_size > 20_000


def test_wrong_options(tmp_path):
    picture = tmp_path / "out.pdf"
    said = run("trace", "info", "sample", "--plot", picture, code=2)
    assert "allowed endings are .png and .svg" in said
    said = run("trace", "info", "sample", "--context-limit", 0, code=2)
    assert "--context-limit 0" in said


def test_without_the_program_there_are_no_pictures(tmp_path):
    result = CliRunner().invoke(
        trace_app, ["info", "sample", "--plot", str(tmp_path / "out.png")]
    )
    assert "drawn by the hotset program only" in str(result.exception)
