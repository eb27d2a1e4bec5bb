"""The `simulate`, `calibrate` and `reproduce` commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotset.sim.commands import AdmissionOption, ChunkTokensOption, EngineOption
from hotset.sim.options import OutputsOption
from hotset.sim.ssd_options import (
    SsdAdmissionOption,
    SsdModeOption,
    SsdOption,
    SsdPolicyOption,
    SsdQueueOption,
    SsdStagingOption,
    SsdWritesOption,
    ssd_plan,
)
from hotset.traces.commands import JsonOption, write_json
from hotset.traces.trace_input import TraceInput, takes_trace

if TYPE_CHECKING:
    from hotset.sim.simulate import SimulationResult

_FILE_WIDTH = 120

PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy",
        metavar="NAME[:key=value,...]",
        help="Eviction policy of the CPU tier, may be given several times: those of "
        "replay that need no future.",
    ),
]
ProfileOption = Annotated[
    str,
    typer.Option(
        "--profile",
        metavar="NAME|FILE.toml",
        help="Machine and model: rtx4070tis-qwen2.5-7b-fp8, h100x8-70b-fp8 "
        "(estimated), or a file like theirs.",
    ),
]
CpuOption = Annotated[
    str,
    typer.Option(
        "--cpu",
        metavar="N|5%|64GiB",
        help="Size of the CPU tier: blocks, share of the distinct blocks, or bytes.",
    ),
]
UsersOption = Annotated[
    int | None,
    typer.Option(
        "--users",
        help="Users who each wait for the answer before their next request; without "
        "it requests come at their times.",
    ),
]
ThinkOption = Annotated[
    float, typer.Option("--think", help="Mean seconds that a user thinks.")
]
SpeedOption = Annotated[
    float, typer.Option("--speed", help="How much faster than in the trace they come.")
]
LoadsOption = Annotated[
    bool,
    typer.Option(
        "--loads-if-faster",
        help="Take a hit only where loading beats computing; otherwise always.",
    ),
]


@takes_trace
def simulate(
    source: TraceInput,
    policy: PolicyOption,
    profile: ProfileOption,
    cpu: CpuOption,
    engine: EngineOption = "vllm-0.33",
    admission: AdmissionOption = "always",
    ssd: SsdOption = None,
    ssd_policy: SsdPolicyOption = None,
    ssd_admission: SsdAdmissionOption = None,
    ssd_mode: SsdModeOption = None,
    ssd_writes_per_day: SsdWritesOption = None,
    ssd_queue: SsdQueueOption = None,
    ssd_staging: SsdStagingOption = None,
    chunk_tokens: ChunkTokensOption = None,
    gpu_blocks: Annotated[
        int | None,
        typer.Option("--gpu-blocks", help="Instead of the profile's; one is unused."),
    ] = None,
    step_tokens: Annotated[
        int | None,
        typer.Option("--step-tokens", help="Tokens of a step, not the profile's."),
    ] = None,
    users: UsersOption = None,
    think: ThinkOption = 0.0,
    speed: SpeedOption = 1.0,
    loads_if_faster: LoadsOption = False,
    _outputs: OutputsOption = False,
    slo_ttft: Annotated[
        float | None, typer.Option("--slo-ttft", help="Objective for TTFT, seconds.")
    ] = None,
    slo_itl: Annotated[
        float | None, typer.Option("--slo-itl", help="Objective for ITL, seconds.")
    ] = None,
    warmup: Annotated[
        float,
        typer.Option("--warmup", help="Share of the requests that is not measured."),
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed, 0 or more.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Simulations at a time; one a core if absent."),
    ] = None,
    json: JsonOption = None,
    per_request: Annotated[
        Path | None,
        typer.Option("--per-request", help="Write each request: .csv or .parquet."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Draw the runs over time: .png or .svg."),
    ] = None,
) -> None:
    """Simulate a trace in time: TTFT, throughput and link load under policies."""
    import os

    from hotset.policies.errors import PolicyError
    from hotset.policies.registry import ADMISSIONS, POLICIES
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.engines import engine as rules_of
    from hotset.sim.profile import load_profile
    from hotset.sim.simulate import Plan, run_plan
    from hotset.sim.simulate_report import check_ending, write_requests

    plan = Plan(
        policies=[POLICIES.parse(text) for text in policy],
        admission=ADMISSIONS.parse(admission),
        engine=rules_of(engine),
        profile=load_profile(profile),
        cpu=parse_capacity(cpu, "--cpu"),
        ssd=ssd_plan(
            ssd,
            ssd_policy,
            ssd_admission,
            ssd_mode,
            ssd_writes_per_day,
            ssd_queue,
            ssd_staging,
        ),
        chunk_tokens=chunk_tokens,
        gpu_blocks=gpu_blocks,
        step_tokens=step_tokens,
        users=users,
        think_s=think,
        speed=speed,
        loads_if_faster=loads_if_faster,
        slo_ttft_s=slo_ttft,
        slo_itl_s=slo_itl,
        warmup=warmup,
        seed=seed,
    )
    if jobs is not None and jobs < 1:
        raise PolicyError(f"--jobs {jobs}: at least 1 is needed")
    if per_request is not None:
        check_ending(per_request)
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise PolicyError(f"--plot {plot}: allowed endings are .png and .svg")
    outputs = {"--json": json, "--per-request": per_request, "--plot": plot}
    own = Path(profile) if profile.endswith(".toml") else None
    loaded = source.load(outputs, {"--profile": own})
    result = run_plan(loaded, plan, jobs or min(len(policy), os.cpu_count() or 1))
    # Files before the table: standard output may be gone by now.
    if json is not None:
        write_json(result.as_json(), json)
    if per_request is not None:
        write_requests(result, per_request)
    if plot is not None:
        from hotset.sim.plots import save_picture
        from hotset.sim.plots_simulate import plot_timeline

        save_picture(plot_timeline(result), plot)
    _show(result)


def _show(result: SimulationResult) -> None:
    """Print the table, and the warnings apart."""
    from rich.console import Console

    from hotset.sim.simulate_report import print_simulations

    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width to keep to
        console.width = max(console.width, _FILE_WIDTH)
    print_simulations(result, console)
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)


def calibrate(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="CSV of requests that ran alone: computed_tokens, cached_tokens, "
            "ttft_s; and, where known, load_bytes, itl_s, context_tokens. Or scrapes "
            "of a vLLM server's /metrics, in order, with requests between them.",
        ),
    ],
    json: JsonOption = None,
) -> None:
    """Fit a machine's costs to requests that were measured on it."""
    import dataclasses

    from hotset.sim.calibrate_scrapes import fit_files
    from hotset.traces.outputs import check_outputs

    inputs = {
        f"RESULTS {i}" if i else "RESULTS": path for i, path in enumerate(results)
    }
    check_outputs({} if json is None else {"--json": json}, inputs)
    found = dataclasses.asdict(fit_files(results))
    if json is not None:
        write_json(found, json)
    note = found.pop("note", None)
    if note is not None:
        typer.echo(f"note: {note}", err=True)
    for name, value in found.items():
        typer.echo(f"{name} = {'unknown' if value is None else f'{value:.6g}'}")


reproduce_app = typer.Typer(
    help="Reproduce published measurements.", no_args_is_help=True, add_completion=False
)


@reproduce_app.callback()
def _reproduce() -> None:
    """Reproduce published measurements."""


@reproduce_app.command("gpu-matrix")
def gpu_matrix(
    reference: Annotated[
        Path,
        typer.Argument(
            metavar="REFERENCE",
            help="The published cells: .json, .gz, or the folder or .md beside them.",
        ),
    ],
    json: JsonOption = None,
    clamp: Annotated[
        bool,
        typer.Option(
            "--clamp/--no-clamp",
            help="Give the cells that were measured with an earlier version of the "
            "scored policy its rule, max(floor, ...).",
        ),
    ] = True,
) -> None:
    """Simulate the published cells of one GPU, beside what was measured."""
    from rich.console import Console

    from hotset.sim.gpu_matrix import locate_cells, read_cells
    from hotset.sim.reproduce import reproduce
    from hotset.sim.reproduce_report import print_reproduction
    from hotset.traces.outputs import check_outputs

    cells = locate_cells(reference)
    check_outputs({} if json is None else {"--json": json}, {"REFERENCE": cells})
    result = reproduce(read_cells(cells), clamp)
    if json is not None:
        write_json(result.as_json(), json)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    print_reproduction(result, console)
