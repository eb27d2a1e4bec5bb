"""The `gate` commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Show that offloading does not change what a server answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_EXIT = {"pass": 0, "fail": 1, "unproven": 3}


@app.command()
def record(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="The server, as http://HOST:PORT.")
    ],
    out: Annotated[Path, typer.Option(help="File for the recording.")],
    metrics: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Its metrics; default URL/metrics."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name; default the first it lists.")
    ] = None,
    sessions: Annotated[int, typer.Option(help="Conversations.")] = 16,
    turns: Annotated[int, typer.Option(help="Questions in each.")] = 6,
    words: Annotated[int, typer.Option(help="Words that a turn adds.")] = 200,
    answer_tokens: Annotated[int, typer.Option(help="Length of an answer.")] = 16,
    users: Annotated[int, typer.Option(help="Questions at once.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.")] = 600.0,
    seed: Annotated[int, typer.Option(help="Of the words and passkeys.")] = 0,
) -> None:
    """Ask a server growing conversations, and record its answers and restores.

    Exit code 3 where its metrics do not say what it restored.
    """
    from hotset.adapter import gate_files, gate_recording
    from hotset.adapter.gate_client import GateServer
    from hotset.adapter.gate_errors import GateUnprovenError
    from hotset.adapter.gate_prompts import GatePlan

    plan = GatePlan(sessions, turns, words, answer_tokens, seed)
    server = GateServer(address, metrics, timeout)
    gate_files.check_place(out)
    total = sessions * turns
    try:
        with _progress(total) as on_answer:
            made = gate_recording.record(server, plan, model, users, on_answer)
    except GateUnprovenError as error:
        typer.echo(f"hotset: unproven: {error}", err=True)
        raise typer.Exit(_EXIT["unproven"]) from None
    made.write(out)
    counted = made.restored_tokens
    restored = "not counted" if counted is None else str(counted)
    typer.echo(f"{out}: {total} answers of {made.model}; tokens restored: {restored}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        # Even a disabled bar of an older rich prints an empty line.
        yield lambda: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("questions", total=total)
        yield lambda: bar.advance(task)


@app.command()
def compare(
    baseline: Annotated[Path, typer.Argument(help="Recording without offloading.")],
    offload: Annotated[Path, typer.Argument(help="Recording with offloading.")],
    control: Annotated[
        Path | None,
        typer.Option(help="A second recording without offloading: what varies anyway."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="No answer may differ; needs no control.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option("--json", help="File for the verdict.")
    ] = None,
) -> None:
    """Say whether offloading keeps the answers: exit code 0 yes, 1 no, 3 unproven."""
    import json as json_module

    from hotset.adapter.gate_files import write_whole
    from hotset.adapter.gate_recording import GateRecording
    from hotset.adapter.gate_verdict import compare as judge

    verdict = judge(
        GateRecording.read(baseline),
        GateRecording.read(offload),
        None if control is None else GateRecording.read(control),
        exact,
    )
    if json is not None:
        write_whole(json, json_module.dumps(verdict.as_dict(), indent=1) + "\n")
    typer.echo(f"{verdict.outcome}: {verdict.reason}")
    raise typer.Exit(_EXIT[verdict.outcome])
