"""Options and habits that the commands of this package share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

_LONG_WORK_ACCESSES = 20_000_000
_FILE_WIDTH = 120


class TailRule(StrEnum):
    """What happens to a last, partial block."""

    DROP = "drop"
    COUNT = "count"


TailOption = Annotated[
    TailRule,
    typer.Option(
        "--tail", help="Leave a last, partial block out of the cache, or count it."
    ),
]
WarmupOption = Annotated[
    float,
    typer.Option(
        "--warmup", help="Share of the requests that are replayed but not measured."
    ),
]
KvBytesOption = Annotated[
    int | None,
    typer.Option(
        "--kv-bytes-per-token", help="For capacities in bytes: KV cache of a token."
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="CONFIG.json",
        help="For capacities in bytes: the model's Hugging Face config.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        help="Replays at once, which changes no result; all CPUs if absent.",
        show_default=False,
    ),
]


def _refuse_outputs(wanted: bool) -> bool:
    from hotset.policies.errors import PolicyError

    if wanted:
        raise PolicyError(
            "--outputs: traces name the blocks of prompts only, so generated tokens "
            "are not stored; in vLLM that is offload_prompt_only, its default"
        )
    return wanted


OutputsOption = Annotated[
    bool,
    typer.Option(
        "--outputs",
        help="Store generated tokens as well: refused, since traces do not name them.",
        callback=_refuse_outputs,
    ),
]
CsvOption = Annotated[Path | None, typer.Option("--csv", help="Write all rows as CSV.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw a picture: .png or .svg.")
]


def bytes_of_a_token(kv_bytes_per_token: int | None, model: Path | None) -> int | None:
    """Return KV cache bytes of a token from the two options that may tell them.

    Raises
    ------
    PolicyError
        If both are given, it is below 1, or the model's configuration does not tell.
    """
    from hotset.policies.errors import PolicyError
    from hotset.sim.kv_size import kv_bytes_per_token as of_model

    if kv_bytes_per_token is not None and kv_bytes_per_token < 1:
        raise PolicyError(
            f"--kv-bytes-per-token {kv_bytes_per_token}: at least 1 is needed"
        )
    if model is None:
        return kv_bytes_per_token
    if kv_bytes_per_token is not None:
        raise PolicyError("--model and --kv-bytes-per-token: only one can be given")
    return of_model(model)


def check_picture(plot: Path | None) -> None:
    """Raise PolicyError unless the picture's name ends as one that can be drawn."""
    from hotset.policies.errors import PolicyError

    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise PolicyError(f"--plot {plot}: allowed endings are .png and .svg")


def table_console() -> Console:
    """Return the console that tables go to."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width to keep to
        console.width = max(console.width, _FILE_WIDTH)
    return console


def print_warnings(warnings: Sequence[str]) -> None:
    """Print warnings apart from the result."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on standard error, for long work on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from hotset.policies.jit import is_cached
    from hotset.sim.engine_loop import replay_engine
    from hotset.sim.loop import replay_plain

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    if not (is_cached(replay_plain) or is_cached(replay_engine)):
        console.print("compiling policies: some seconds each, on their first run only")
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("replaying", total=None, visible=False)

        def report(done: int, total: int) -> None:
            visible = total >= _LONG_WORK_ACCESSES
            bar.update(task, completed=done, total=total, visible=visible)

        yield report
