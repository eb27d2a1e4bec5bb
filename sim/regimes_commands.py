"""The `regime-map` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotset.sim.commands import ChunkTokensOption, EngineOption, GpuBlocksOption
from hotset.sim.options import (
    CsvOption,
    JobsOption,
    KvBytesOption,
    ModelOption,
    PlotOption,
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
    from hotset.sim.regime_axes import Supply

_MOST_REQUESTS = 1_000_000
_REQUESTS, _THRESHOLDS, _MORE, _LEAST, _ENGINE = 2000, "2,4,7", 2.0, 0.005, "none"
# What is left alone, as the published map wants it.
_PLAIN = (_REQUESTS, _THRESHOLDS, _MORE, _LEAST, 0.0, _ENGINE, 0)


@takes_trace
def regime_map(
    source: TraceInput,
    x: Annotated[
        str | None,
        typer.Option(
            "--x",
            metavar="NAME=V,V,...",
            help="What varies from left to right: budget, hot-over-budget, gpu-blocks, "
            "skew, scan, think, sessions, or an option of the generator.",
        ),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option("--y", metavar="NAME=V,V,...", help="What varies upwards."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="N|5%|64GiB",
            help="The budget, where neither dimension is.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the generator."),
    ] = None,
    requests: Annotated[
        int, typer.Option("--requests", help="Requests that a generator makes.")
    ] = _REQUESTS,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="N,N,...", help="Of a generator; 1,2,3,4."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME[:key=value,...]",
            help="Who runs at every place, several times for several; all if absent. "
            "lru and belady always take part.",
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            "--scoring", metavar="POLICY", help="The scored policy; relevance."
        ),
    ] = None,
    store_threshold: Annotated[
        str, typer.Option("--store-threshold", help="Thresholds to try with lru.")
    ] = _THRESHOLDS,
    more: Annotated[
        float, typer.Option("--more", help="Times the budget to try with lru.")
    ] = _MORE,
    least: Annotated[
        float,
        typer.Option("--least", help="Token hit ratio below which a margin is a tie."),
    ] = _LEAST,
    warmup: WarmupOption = 0.0,
    engine: EngineOption = _ENGINE,
    gpu_blocks: GpuBlocksOption = 0,
    chunk_tokens: ChunkTokensOption = None,
    kv_bytes_per_token: KvBytesOption = None,
    model: ModelOption = None,
    jobs: JobsOption = None,
    csv: CsvOption = None,
    json: JsonOption = None,
    plot: PlotOption = None,
) -> None:
    """Map who wins where, and what helps; TRACE may be generate:KIND or published."""
    from hotset.policies.errors import PolicyError
    from hotset.policies.registry import POLICIES
    from hotset.sim.engines import engine as rules_of
    from hotset.sim.parallel import check_jobs
    from hotset.sim.regime_axes import PREFIX, parse_axis
    from hotset.sim.regime_presets import PUBLISHED, published_plan
    from hotset.sim.regimes import Plan, check_plan, everyone, run_map
    from hotset.sim.regimes_report import as_json, print_map, write_map

    threads = check_jobs(jobs)
    check_picture(plot)
    if source.trace == PUBLISHED or source.trace.startswith(PREFIX):
        source.refuse_options(f"{source.trace} is made, not read")
    outputs: dict[str, Path | None] = {"--csv": csv, "--json": json, "--plot": plot}
    if source.trace == PUBLISHED:
        given = (x, y, budget, settings, seeds, scoring)
        sizes = (chunk_tokens, kv_bytes_per_token, model)
        others = (requests, store_threshold, more, least, warmup, engine, gpu_blocks)
        is_plain = all(each is None for each in (*given, *sizes)) and others == _PLAIN
        if not is_plain:
            raise PolicyError(
                f"{PUBLISHED}: its workloads and seeds are fixed; only --policy, "
                "--jobs and outputs can be given"
            )
        plan = published_plan(policy or [])
        _check_outputs(outputs)
    else:
        if x is None or y is None:
            raise PolicyError("--x and --y: both are needed, but for published")
        plan = Plan(
            supply=_supply(source, settings or [], requests, outputs, model),
            x=parse_axis(x, "--x"),
            y=parse_axis(y, "--y"),
            policies=everyone(policy or []),
            seeds=_seeds(seeds, source),
            budget=budget,
            engine=rules_of(engine),
            gpu_blocks=gpu_blocks,
            chunk_tokens=chunk_tokens,
            kv_bytes_per_token=bytes_of_a_token(kv_bytes_per_token, model),
            scoring=POLICIES.parse(scoring or "relevance"),
            thresholds=_numbers(store_threshold, "--store-threshold"),
            more=more,
            least=least,
            warmup=warmup,
        )
    check_plan(plan)
    with progress_bar() as report:
        result = run_map(plan, report, threads)
    # Files before the table: standard output may be gone by now.
    if csv is not None:
        write_map(result, csv)
    values = as_json(result)
    if json is not None:
        write_json(values, json)
    if plot is not None:
        from hotset.sim.plots import save_picture
        from hotset.sim.plots_regimes import plot_map

        save_picture(plot_map(values), plot)
    print_map(result, table_console())
    print_warnings(result.warnings)


def _supply(
    source: TraceInput,
    settings: list[str],
    requests: int,
    outputs: dict[str, Path | None],
    model: Path | None,
) -> Supply:
    """Return where workloads come from: the trace is read, a generator checked."""
    from hotset.policies.errors import PolicyError
    from hotset.sim.regime_axes import PREFIX, QUESTIONS, Supply, make_supply

    if source.trace.startswith(PREFIX):
        if not 1 <= requests <= _MOST_REQUESTS:
            raise PolicyError(
                f"--requests {requests}: allowed is 1 to {_MOST_REQUESTS}"
            )
        _check_outputs(outputs)
        kind = source.trace.removeprefix(PREFIX)
        if kind == QUESTIONS and requests != _REQUESTS:
            raise PolicyError(f"--requests {requests}: {QUESTIONS} has rounds instead")
        return make_supply(kind, settings, requests)
    if settings:
        raise PolicyError("--set: of a generator; a trace is as it is")
    if requests != _REQUESTS:
        raise PolicyError(f"--requests {requests}: of a generator; a trace has its own")
    return Supply(trace=source.load(outputs, {"--model": model}))


def _check_outputs(outputs: dict[str, Path | None]) -> None:
    from hotset.traces.outputs import check_outputs

    wanted = {name: path for name, path in outputs.items() if path is not None}
    check_outputs(wanted, {})


def _seeds(given: str | None, source: TraceInput) -> tuple[int, ...]:
    from hotset.policies.errors import PolicyError
    from hotset.sim.regime_axes import PREFIX

    if source.trace.startswith(PREFIX):
        return (1, 2, 3, 4) if given is None else _numbers(given, "--seeds")
    if given is not None:
        raise PolicyError("--seeds: of a generator; a trace has none")
    return (0,)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    from hotset.policies.errors import PolicyError

    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 19 for part in parts):
        raise PolicyError(f"{option} {text}: allowed are whole numbers, N,N,...")
    return tuple(int(part) for part in parts)
