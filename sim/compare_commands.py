"""The `compare` command."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotset.sim.options import (
    CsvOption,
    JobsOption,
    KvBytesOption,
    ModelOption,
    TailOption,
    TailRule,
    bytes_of_a_token,
    print_warnings,
    progress_bar,
    table_console,
)
from hotset.traces.commands import JsonOption, write_json
from hotset.traces.trace_input import TraceInput, takes_trace

if TYPE_CHECKING:
    from hotset.traces.model import Trace

_CAPACITIES = ("0.5%", "1%", "2%", "5%", "10%", "20%")


@takes_trace
def compare(
    source: TraceInput,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRACE]...", help="Further traces, read alike."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:key=value,...]",
            help="A policy to compare, several times for several; all if absent. lru "
            "and belady always take part.",
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            "--tune",
            metavar="NAME|all|none",
            help="A policy that also runs with parameters searched on the first part; "
            "several times for several, all that have some if absent.",
        ),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            "--capacity",
            metavar="N|5%|64GiB",
            help="A cache size, several times for several; 0.5, 1, 2, 5, 10 and 20 % "
            "of the distinct blocks if absent.",
        ),
    ] = None,
    fit: Annotated[
        float,
        typer.Option(
            "--fit",
            help="Share of the requests, from the first on, that parameters are "
            "searched on; the rest judges.",
        ),
    ] = 0.5,
    trials: Annotated[
        int, typer.Option("--trials", help="Settings that a search tries.")
    ] = 24,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the searches, 0 or more.")
    ] = 0,
    tail: TailOption = TailRule.DROP,
    kv_bytes_per_token: KvBytesOption = None,
    model: ModelOption = None,
    jobs: JobsOption = None,
    csv: CsvOption = None,
    json: JsonOption = None,
) -> None:
    """Compare policies, tuned on the first part of each trace, judged on the rest."""
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.compare import Plan, check_plan, contestants, run_comparison
    from hotset.sim.compare_report import (
        as_json,
        print_comparison,
        warnings_of,
        write_comparison,
    )
    from hotset.sim.parallel import check_jobs

    threads = check_jobs(jobs)
    plan = Plan(
        contestants=contestants(policy or [], tune or ["all"]),
        capacities=[parse_capacity(text) for text in capacity or _CAPACITIES],
        tail=tail.value,
        fit=fit,
        trials=trials,
        seed=seed,
        kv_bytes_per_token=bytes_of_a_token(kv_bytes_per_token, model),
    )
    check_plan(plan)
    outputs: dict[str, Path | None] = {"--csv": csv, "--json": json}
    traces = _load_all(source, more or [], outputs, model)
    with progress_bar() as report:
        cells = run_comparison(traces, plan, report, threads)
    # Files before the table: standard output may be gone by now.
    if csv is not None:
        write_comparison(cells, csv)
    if json is not None:
        write_json(as_json(cells, plan), json)
    print_comparison(cells, plan, table_console())
    print_warnings(warnings_of(cells))


def _load_all(
    source: TraceInput,
    more: Sequence[str],
    outputs: dict[str, Path | None],
    model: Path | None,
) -> list[Trace]:
    """Read all traces; each has a file of rejected rows of its own."""
    from hotset.traces.errors import TraceError
    from hotset.traces.outputs import check_outputs

    if not more:
        return [source.load(outputs, {"--model": model})]
    if source.rejects is not None:
        raise TraceError("--rejects: allowed with a single TRACE")
    sources = [
        dataclasses.replace(source, trace=name) for name in (source.trace, *more)
    ]
    inputs: dict[str, str | Path] = {
        f"TRACE {i}": each.trace for i, each in enumerate(sources, 1)
    }
    if model is not None:
        inputs["--model"] = model
    wanted = {name: path for name, path in outputs.items() if path is not None}
    for i, each in enumerate(sources, 1):
        rejects = each.rejects_beside(None)
        if rejects is not None:
            wanted[f"--rejects of TRACE {i}"] = rejects
    check_outputs(wanted, inputs)
    return [
        dataclasses.replace(each, rejects=each.rejects_beside(None)).load(
            outputs, {"--model": model}
        )
        for each in sources
    ]
