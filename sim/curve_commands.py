"""The `mrc` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotset.sim.options import (
    CsvOption,
    JobsOption,
    KvBytesOption,
    ModelOption,
    PlotOption,
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


@takes_trace
def mrc(
    source: TraceInput,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:key=value,...]",
            help="A policy to replay beside lru at each capacity shown; several times "
            "for several.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--capacity",
            metavar="N|5%|64GiB",
            help="A capacity to show, several times for several; a grid if absent.",
        ),
    ] = None,
    points: Annotated[
        int, typer.Option("--points", help="Capacities of the grid.")
    ] = 16,
    tail: TailOption = TailRule.DROP,
    warmup: WarmupOption = 0.0,
    kv_bytes_per_token: KvBytesOption = None,
    model: ModelOption = None,
    jobs: JobsOption = None,
    csv: CsvOption = None,
    json: JsonOption = None,
    plot: PlotOption = None,
) -> None:
    """Show what a cache misses at every size: lru exactly, other policies beside it."""
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.engines import engine
    from hotset.sim.mrc import check_points, run_curves, write_curves
    from hotset.sim.mrc_report import print_curves
    from hotset.sim.parallel import check_jobs
    from hotset.sim.study import make_study

    threads = check_jobs(jobs)
    check_points(points)
    study = make_study(
        policy or [],
        "always",
        capacities=[parse_capacity(text) for text in capacity or []],
        engine=engine("none"),
        tail=tail.value,
        warmup=warmup,
        kv_bytes_per_token=bytes_of_a_token(kv_bytes_per_token, model),
    )
    check_picture(plot)
    outputs: dict[str, Path | None] = {"--csv": csv, "--json": json, "--plot": plot}
    loaded = source.load(outputs, {"--model": model})
    with progress_bar() as report:
        result = run_curves(loaded, study, points, report, threads)
    # Files before the table: standard output may be gone by now.
    if csv is not None:
        write_curves(result, csv)
    if json is not None:
        write_json(result.as_json(), json)
    if plot is not None:
        from hotset.sim.plots import plot_curves, save_picture

        save_picture(plot_curves(result), plot)
    print_curves(result, table_console())
    print_warnings(result.replays.warnings)
