"""The `replay` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotset.sim.options import (
    JobsOption,
    KvBytesOption,
    ModelOption,
    OutputsOption,
    TailOption,
    TailRule,
    WarmupOption,
    bytes_of_a_token,
    check_picture,
    print_warnings,
    progress_bar,
    table_console,
)
from hotset.traces.commands import JsonOption, write_json
from hotset.traces.trace_input import TraceInput, takes_trace

if TYPE_CHECKING:
    from hotset.sim.study import StudyResult


PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="NAME[:key=value,...]",
        help="Eviction policy, may be given several times: lru, fifo, marconi, "
        "relevance, weighted, guard, adaptive, leader, arc, lfu, gdsf, sieve, s3fifo, "
        "tinylfu, belady or unbounded.",
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
    _outputs: OutputsOption = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed, 0 or more.")] = 0,
    jobs: JobsOption = None,
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
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.engines import engine as rules_of
    from hotset.sim.parallel import check_jobs
    from hotset.sim.report import write_per_request
    from hotset.sim.study import make_study, run_study

    threads = check_jobs(jobs)
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
        kv_bytes_per_token=bytes_of_a_token(kv_bytes_per_token, model),
        seed=seed,
        flat=flat,
    )
    check_picture(plot)
    outputs = {"--json": json, "--per-request": per_request, "--plot": plot}
    loaded = source.load(outputs, {"--model": model})
    with progress_bar() as report:
        result = run_study(loaded, study, report, threads)
    # Files before the table: standard output may be gone by now.
    if json is not None:
        write_json(result.as_json(), json)
    if per_request is not None:
        write_per_request(result, per_request)
    if plot is not None:
        from hotset.sim.plots import plot_study, save_picture

        save_picture(plot_study(result), plot)
    _show(result)


def draw_summary(summary: dict[str, Any], path: Path) -> None:
    """Draw the summary of a trace as PNG or SVG."""
    from hotset.sim.plots import plot_summary, save_picture

    save_picture(plot_summary(summary), path)


def _show(result: StudyResult) -> None:
    """Print the table, and the warnings apart."""
    from hotset.sim.report import print_study

    print_study(result, table_console())
    print_warnings(result.warnings)
