"""The `replay` command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotset.traces.commands import JsonOption, write_json
from hotset.traces.trace_input import TraceInput, takes_trace

if TYPE_CHECKING:
    from hotset.sim.study import StudyResult

_LONG_WORK_ACCESSES = 20_000_000
_FILE_WIDTH = 120


class TailRule(StrEnum):
    """What happens to a last, partial block."""

    DROP = "drop"
    COUNT = "count"


PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="NAME[:key=value,...]",
        help="Eviction policy, may be given several times: lru, fifo, marconi, "
        "relevance, weighted, guard, adaptive, arc, lfu, gdsf, sieve, s3fifo, tinylfu, "
        "belady or unbounded.",
    ),
]
CapacityOption = Annotated[
    list[str],
    typer.Option(
        "--capacity",
        metavar="N|5%|64GiB",
        help="Cache size: blocks, share of the distinct blocks, or bytes; several "
        "times for several sizes.",
    ),
]
AdmissionOption = Annotated[
    str,
    typer.Option(
        "--admission",
        metavar="NAME[:key=value,...]",
        help="Which missing blocks are stored: always, or threshold:N.",
    ),
]
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
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        help="Whose rules apply: none (a plain cache), vllm-0.24, vllm-0.28, "
        "vllm-0.30, vllm-0.32 or vllm-0.33.",
    ),
]
GpuBlocksOption = Annotated[
    int,
    typer.Option(
        "--gpu-blocks", help="Blocks of a GPU prefix cache in front; 0 for none."
    ),
]
ChunkTokensOption = Annotated[
    int | None,
    typer.Option(
        "--chunk-tokens", help="Tokens of a cached unit, a multiple of the blocks."
    ),
]
StepTokensOption = Annotated[
    int,
    typer.Option("--step-tokens", help="Tokens that the engine prefills in a step."),
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
FlatOption = Annotated[
    bool,
    typer.Option(
        "--flat",
        help="Replay every block access by itself, as simulators without a prefix "
        "rule do: a hit is a block that is cached when it is accessed.",
    ),
]


@takes_trace
def replay(
    source: TraceInput,
    policy: PolicyOption,
    capacity: CapacityOption,
    admission: AdmissionOption = "always",
    tail: TailOption = TailRule.DROP,
    warmup: WarmupOption = 0.0,
    engine: EngineOption = "none",
    gpu_blocks: GpuBlocksOption = 0,
    chunk_tokens: ChunkTokensOption = None,
    step_tokens: StepTokensOption = 8192,
    kv_bytes_per_token: KvBytesOption = None,
    model: ModelOption = None,
    flat: FlatOption = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed, 0 or more.")] = 0,
    json: JsonOption = None,
    per_request: Annotated[
        Path | None,
        typer.Option("--per-request", help="Write each request's hit tokens as CSV."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw hit ratio against capacity: .png or .svg."),
    ] = None,
) -> None:
    """Replay a trace under policies and capacities, and show their hit ratios."""
    from hotset.policies.errors import PolicyError
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.engines import engine as rules_of
    from hotset.sim.kv_size import kv_bytes_per_token as of_model
    from hotset.sim.report import write_per_request
    from hotset.sim.study import make_study, run_study

    if model is not None and kv_bytes_per_token is not None:
        raise PolicyError("--model and --kv-bytes-per-token: only one can be given")
    study = make_study(
        policy,
        admission,
        capacities=[parse_capacity(text) for text in capacity],
        engine=rules_of(engine),
        tail=tail.value,
        warmup=warmup,
        chunk_tokens=chunk_tokens,
        gpu_blocks=gpu_blocks,
        step_tokens=step_tokens,
        kv_bytes_per_token=kv_bytes_per_token if model is None else of_model(model),
        seed=seed,
        flat=flat,
    )
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise PolicyError(f"--plot {plot}: allowed endings are .png and .svg")
    outputs = {"--json": json, "--per-request": per_request, "--plot": plot}
    loaded = source.load(outputs, {"--model": model})
    with _progress() as report:
        result = run_study(loaded, study, report)
    # Files before the table: standard output may be gone by now.
    if json is not None:
        write_json(result.as_json(), json)
    if per_request is not None:
        write_per_request(result, per_request)
    if plot is not None:
        from hotset.sim.plots import plot_study

        plot_study(result, plot)
    _show(result)


def draw_summary(summary: dict[str, Any], path: Path) -> None:
    """Draw the summary of a trace as PNG or SVG."""
    from hotset.sim.plots import plot_summary

    plot_summary(summary, path)


def _show(result: StudyResult) -> None:
    """Print the table, and the warnings apart."""
    from rich.console import Console

    from hotset.sim.report import print_study

    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width to keep to
        console.width = max(console.width, _FILE_WIDTH)
    print_study(result, console)
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
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
