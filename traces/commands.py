"""The `trace` commands: look at, check, convert and generate traces."""

import json
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hotset.traces.errors import TraceError, one_line, shorten
from hotset.traces.trace_input import TraceInput, options_named, takes_trace

app = typer.Typer(
    name="trace",
    help="Look at, check, convert and generate traces.",
    no_args_is_help=True,
    add_completion=False,
)


class TailChoice(StrEnum):
    """Tail rules to show."""

    BOTH = "both"
    DROP = "drop"
    COUNT = "count"


JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write the result as JSON.")
]


def write_json(result: dict[str, Any], path: Path) -> None:
    """Write a command's result, with the command and the version that made it.

    Parameters
    ----------
    result : dict
        JSON values, no NaN. What it says under ``provenance`` is kept.
    path : Path
        The destination.

    Raises
    ------
    TraceError
        If it cannot be written.
    """
    from hotset.traces.files import atomic_write
    from hotset.traces.made_by import made_by

    said = {**made_by(), **result.get("provenance", {})}
    whole = {**result, "provenance": said}
    with atomic_write(path) as file:
        file.write(json.dumps(whole, indent=2, allow_nan=False) + "\n")


@app.command()
@takes_trace
def info(
    source: TraceInput,
    context: typer.Context,
    json_file: JsonOption = None,
    tail: Annotated[
        TailChoice, typer.Option("--tail", help="Tail rules to show.")
    ] = TailChoice.BOTH,
    context_limit: Annotated[
        int,
        typer.Option(
            "--context-limit",
            help="Tokens above which a request is too long for a model.",
        ),
    ] = 131_072,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the trace on one page: .png or .svg."),
    ] = None,
) -> None:
    """Show what a trace holds and the most that any cache could hit."""
    from hotset.traces.model import TAILS
    from hotset.traces.stats import summarise
    from hotset.traces.summary import print_summary

    if context_limit < 1:
        raise TraceError(f"--context-limit {context_limit}: allowed: 1 or more")
    draw = None if plot is None else _painter(context, plot)
    loaded = source.load({"--json": json_file, "--plot": plot})
    tails = tuple(rule for rule in TAILS if tail in (TailChoice.BOTH, rule))
    summary = summarise(loaded, tails, context_limit)
    print_summary(summary)
    _print_warnings(tuple(summary["warnings"]))
    if json_file is not None:
        write_json(summary, json_file)
    if draw is not None and plot is not None:
        draw(summary, plot)


def _painter(
    context: typer.Context, plot: Path
) -> Callable[[dict[str, Any], Path], None]:
    """Find what draws summaries: the program that these commands are part of."""
    if plot.suffix.lower() not in (".png", ".svg"):
        raise TraceError(f"--plot {plot}: allowed endings are .png and .svg")
    painter = getattr(context.find_root().obj, "draw_summary", None)
    if painter is None:
        raise TraceError("--plot: drawn by the hotset program only")
    draw: Callable[[dict[str, Any], Path], None] = painter
    return draw


@app.command()
@takes_trace
def validate(
    source: TraceInput,
) -> None:
    """Check every row of a trace; wrong ones are listed and the exit code is 2."""
    loaded = source.load({})
    provenance = loaded.provenance
    typer.echo(
        f"{one_line(source.trace)}: valid {provenance.format} trace, "
        f"{loaded.num_requests} requests, {loaded.num_accesses} block references, "
        f"{provenance.rows_rejected} rows rejected"
    )
    _print_warnings(provenance.warnings)


@app.command()
@takes_trace
def convert(
    source: TraceInput,
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="FILE.parquet, FILE.jsonl, .jsonl.gz or .jsonl.zst."
        ),
    ],
    merge: Annotated[
        list[str] | None,
        typer.Option(
            "--merge",
            metavar="TRACE",
            help="More files of the same format whose ids mean the same; several "
            "times for several. Refused where ids hold within a file only.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="FROM:TO",
            help="Keep requests so many seconds after the first; TO may be absent.",
        ),
    ] = None,
    max_context: Annotated[
        int | None,
        typer.Option(
            "--max-context",
            help="Leave out requests of more input and output tokens.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Keep so many requests.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Let requests come so many times as fast."),
    ] = None,
    anonymise: Annotated[
        Path | None,
        typer.Option(
            "--anonymise",
            metavar="KEY_FILE",
            help="Hash ids of blocks and sessions, and names, under the key in a "
            "file, and begin at 0 s.",
        ),
    ] = None,
) -> None:
    """Write a trace in another form, told by the output's ending.

    Options apply in the order in which they are listed, and are recorded in the
    trace as far as the form can hold that.
    """
    from hotset.traces import transform
    from hotset.traces.anonymise import anonymise as anonymised
    from hotset.traces.write import write_trace, writer_for

    writer_for(out)
    loaded = source.load({"--out": out}, {"--anonymise": anonymise}, merge or ())
    with options_named(lambda name: f"--{name.replace('_', '-')}"):
        if window is not None:
            loaded = transform.window(loaded, window)
        if max_context is not None:
            loaded = transform.max_context(loaded, max_context)
        if limit is not None:
            loaded = transform.limit(loaded, limit)
        if rate is not None:
            loaded = transform.rate(loaded, rate)
        if anonymise is not None:
            loaded = anonymised(loaded, anonymise)
    lost = write_trace(loaded, out)
    for step in loaded.provenance.steps:
        typer.echo(one_line(step))
    typer.echo(f"{one_line(out)}: {loaded.num_requests} requests written")
    _print_warnings(loaded.provenance.warnings)
    if lost:
        _print_warnings((f"this form cannot hold {', '.join(lost)}: left out",))


@app.command()
def fetch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Public trace; lists them if absent."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to; NAME's own if absent.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--from", metavar="ADDRESS", help="Another place of the file."),
    ] = None,
) -> None:
    """Fetch a public trace: resumed where it stopped, and verified."""
    from hotset.traces.catalogue import CATALOGUE
    from hotset.traces.fetch import fetch as fetch_trace
    from hotset.traces.registry import unknown
    from hotset.traces.summary import print_catalogue, transfer_bar

    if name is None:
        print_catalogue(CATALOGUE.values())
        return
    if name not in CATALOGUE:
        raise TraceError(unknown("public trace", name, CATALOGUE))
    trace = CATALOGUE[name]
    target = Path(trace.file) if out is None else out
    if target.exists():
        raise TraceError(f"{target}: is there already; --out names another file")
    with transfer_bar() as progress:
        digest = fetch_trace(trace, target, address, progress)
    checked = "as published" if trace.sha256 else "no published one to compare with"
    typer.echo(f"{one_line(target)}: {target.stat().st_size:,} bytes")
    typer.echo(f"SHA-256 {digest} ({checked})")
    typer.echo(f"licence: {trace.licence}; cite: {trace.citation}")


@app.command()
def generate(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="uniform, hot-scan, chat or agents."),
    ],
    requests: Annotated[int, typer.Option("--requests", help="Number of requests.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="FILE.parquet, FILE.jsonl, .jsonl.gz or .jsonl.zst."
        ),
    ],
    seed: Annotated[int, typer.Option("--seed", help="Seed, 0 or more.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the kind."),
    ] = None,
) -> None:
    """Generate a trace; the same arguments give the same bytes."""
    from hotset.traces.generate import generate as generate_trace
    from hotset.traces.generate import options_of
    from hotset.traces.outputs import check_outputs
    from hotset.traces.registry import unknown
    from hotset.traces.write import write_trace, writer_for

    writer_for(out)
    check_outputs({"--out": out}, {})
    known = options_of(kind)
    options = dict(_setting(text) for text in settings or ())
    for name in options:
        if name not in known:
            raise TraceError(f"--set: {unknown('option', name, known)}")
    with options_named(lambda name: f"--set {name}" if name in known else f"--{name}"):
        made = generate_trace(kind, requests, seed, **options)
    write_trace(made, out)
    typer.echo(f"{one_line(out)}: {made.provenance.steps[0]}")


def _setting(text: str) -> tuple[str, float]:
    """Name and number of a `--set` option."""
    name, _, value = text.partition("=")
    for number_of in (int, float):
        with suppress(ValueError):
            return name, number_of(value)
    raise TraceError(f"--set: got {shorten(ascii(text))}, allowed: NAME=NUMBER")


def _print_warnings(warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        typer.echo(f"warning: {one_line(warning)}", err=True)
