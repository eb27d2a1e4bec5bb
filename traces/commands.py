"""The `trace` commands: look at, check, convert and generate traces."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotset.traces.errors import ArgumentError, TraceError, one_line, shorten

if TYPE_CHECKING:
    from hotset.traces.model import Trace

app = typer.Typer(
    name="trace",
    help="Look at, check, convert and generate traces.",
    no_args_is_help=True,
    add_completion=False,
)


class OnBadRowChoice(StrEnum):
    """What to do with wrong rows."""

    STRICT = "strict"
    SKIP = "skip"


class TailChoice(StrEnum):
    """Tail rules to show."""

    BOTH = "both"
    DROP = "drop"
    COUNT = "count"


TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="Trace file (plain, .gz, .zst), '-' for standard input, or 'sample'.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Format of the trace; told by content if absent."),
]
OnBadRowOption = Annotated[
    OnBadRowChoice,
    typer.Option("--on-bad-row", help="Stop at wrong rows, or leave them out."),
]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        help="Where 'skip' writes wrong rows; OUTPUT.rejects.jsonl if absent, "
        "in the current folder where there is no output file.",
    ),
]
MaxRejectShareOption = Annotated[
    float,
    typer.Option("--max-reject-share", help="Largest share that 'skip' may leave out."),
]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write the result as JSON.")
]


def load(
    trace: str,
    format: str | None,
    on_bad_row: OnBadRowChoice,
    rejects: Path | None,
    max_reject_share: float,
    output: Path | None = None,
    output_option: str = "--json",
) -> "Trace":
    """Read the trace that a command names; says where rejected rows went.

    Parameters
    ----------
    trace : str
        TRACE as given.
    format, on_bad_row, rejects, max_reject_share
        The shared options as given.
    output : Path or None
        The command's output file, beside which rejected rows go by default.
    output_option : str
        The option that names it.

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    TraceError
        If it cannot be read, or the output not be written.
    """
    from hotset.traces.outputs import check_outputs
    from hotset.traces.registry import read_trace

    if on_bad_row is OnBadRowChoice.STRICT and rejects is not None:
        raise TraceError("--rejects: allowed only with --on-bad-row skip")
    if on_bad_row is OnBadRowChoice.SKIP and rejects is None:
        rejects = default_rejects(trace, output)
    wanted = {output_option: output, "--rejects": rejects}
    check_outputs(
        {name: path for name, path in wanted.items() if path is not None},
        {"TRACE": trace},
    )
    with _options_named(_as_option):
        loaded = read_trace(trace, format, on_bad_row.value, rejects, max_reject_share)
    if on_bad_row is OnBadRowChoice.SKIP:
        rejected = loaded.provenance.rows_rejected
        where = one_line(rejects)
        typer.echo(f"rows rejected: {rejected}, written to {where}", err=True)
    return loaded


def _as_option(argument: str) -> str:
    """Option that an argument of the package's functions comes from."""
    return f"--{argument.replace('_', '-')}"


@contextmanager
def _options_named(option_of: Callable[[str], str]) -> Iterator[None]:
    """Let messages about a wrong argument name the option that the user typed."""
    try:
        yield
    except ArgumentError as error:
        option = option_of(error.name)
        raise ArgumentError(option, error.got, error.allowed) from None


def default_rejects(trace: str, output: Path | None) -> Path:
    """Where rejected rows go if the user does not say.

    Parameters
    ----------
    trace : str
        TRACE as given.
    output : Path or None
        The command's output file.

    Returns
    -------
    Path
        Beside the output; in the current folder without one.
    """
    if output is not None:
        return Path(f"{output}.rejects.jsonl")
    name = "stdin" if trace == "-" else Path(trace).name
    return Path(f"{name}.rejects.jsonl")


def write_json(result: dict[str, Any], path: Path) -> None:
    """Write a command's result.

    Parameters
    ----------
    result : dict
        JSON values, no NaN.
    path : Path
        The destination.

    Raises
    ------
    TraceError
        If it cannot be written.
    """
    from hotset.traces.files import atomic_write

    with atomic_write(path) as file:
        file.write(json.dumps(result, indent=2, allow_nan=False) + "\n")


@app.command()
def info(
    trace: TraceArgument,
    json_file: JsonOption = None,
    tail: Annotated[
        TailChoice, typer.Option("--tail", help="Tail rules to show.")
    ] = TailChoice.BOTH,
    format: FormatOption = None,
    on_bad_row: OnBadRowOption = OnBadRowChoice.STRICT,
    rejects: RejectsOption = None,
    max_reject_share: MaxRejectShareOption = 0.1,
) -> None:
    """Show what a trace holds and the most that any cache could hit."""
    from hotset.traces.model import TAILS
    from hotset.traces.stats import summarise
    from hotset.traces.summary import print_summary

    loaded = load(trace, format, on_bad_row, rejects, max_reject_share, json_file)
    tails = tuple(rule for rule in TAILS if tail in (TailChoice.BOTH, rule))
    summary = summarise(loaded, tails)
    print_summary(summary)
    _print_warnings(tuple(summary["warnings"]))
    if json_file is not None:
        write_json(summary, json_file)


@app.command()
def validate(
    trace: TraceArgument,
    format: FormatOption = None,
    on_bad_row: OnBadRowOption = OnBadRowChoice.STRICT,
    rejects: RejectsOption = None,
    max_reject_share: MaxRejectShareOption = 0.1,
) -> None:
    """Check every row of a trace; wrong ones are listed and the exit code is 2."""
    loaded = load(trace, format, on_bad_row, rejects, max_reject_share)
    provenance = loaded.provenance
    typer.echo(
        f"{one_line(trace)}: valid {provenance.format} trace, "
        f"{loaded.num_requests} requests, {loaded.num_accesses} block references, "
        f"{provenance.rows_rejected} rows rejected"
    )
    _print_warnings(provenance.warnings)


@app.command()
def convert(
    trace: TraceArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", help="FILE.parquet, FILE.jsonl, .jsonl.gz or .jsonl.zst."
        ),
    ],
    format: FormatOption = None,
    on_bad_row: OnBadRowOption = OnBadRowChoice.STRICT,
    rejects: RejectsOption = None,
    max_reject_share: MaxRejectShareOption = 0.1,
) -> None:
    """Write a trace in another form, told by the output's ending."""
    from hotset.traces.write import write_trace, writer_for

    writer_for(out)
    loaded = load(trace, format, on_bad_row, rejects, max_reject_share, out, "--out")
    lost = write_trace(loaded, out)
    typer.echo(f"{one_line(out)}: {loaded.num_requests} requests written")
    _print_warnings(loaded.provenance.warnings)
    if lost:
        _print_warnings((f"this form cannot hold {', '.join(lost)}: left out",))


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
    with _options_named(lambda name: f"--set {name}" if name in known else f"--{name}"):
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
