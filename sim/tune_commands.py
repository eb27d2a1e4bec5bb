"""The `tune` command."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hotset.sim.commands import ChunkTokensOption, EngineOption, GpuBlocksOption
from hotset.sim.options import (
    JobsOption,
    KvBytesOption,
    ModelOption,
    OutputsOption,
    TailOption,
    TailRule,
    bytes_of_a_token,
    check_picture,
)
from hotset.sim.ssd_options import SsdOption, SsdWritesOption
from hotset.traces.trace_input import TraceInput, takes_trace

if TYPE_CHECKING:
    from hotset.sim.profile import Profile

_POLICIES = ["weighted,guard,adaptive,relevance,marconi"]
_BOTH = ["always,threshold"]
_INTERRUPTED = 130


@takes_trace
def tune(
    source: TraceInput,
    cpu: Annotated[
        str,
        typer.Option(
            "--cpu",
            metavar="N|5%|64GiB",
            help="Size of the CPU tier: blocks, share of the distinct blocks, bytes.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The answer, one JSON file.")
    ] = Path("tuned.json"),
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME,...",
            help="Policies to search, by name; lru always takes part. "
            "weighted,guard,adaptive,relevance,marconi if absent.",
        ),
    ] = None,
    admission: Annotated[
        list[str] | None,
        typer.Option(
            "--admission",
            metavar="NAME,...",
            help="Admission rules to search: always, threshold, or both, which is the "
            "default.",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective",
            metavar="NAME,...",
            help="token_hit_ratio (default), saved_prefill_s, ttft_p95_s, "
            "stored_bytes, ssd_bytes_per_day; several give a Pareto front, and the "
            "first is judged.",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", help="Trials in all, earlier runs included.")
    ] = 200,
    _outputs: OutputsOption = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", help="Seconds after which no more trials begin."),
    ] = None,
    sampler: Annotated[
        str, typer.Option("--sampler", help="tpe, random or nsgaii.")
    ] = "tpe",
    fit: Annotated[
        float,
        typer.Option(
            "--fit",
            help="Share of the requests, from the first on, to search on; the rest "
            "is the holdout.",
        ),
    ] = 0.5,
    min_gain: Annotated[
        float,
        typer.Option(
            "--min-gain",
            help="Deploy only for more than that, with 99 % confidence: 0.01 is a "
            "point of the token hit ratio, or 1 % of the time.",
        ),
    ] = 0.01,
    walk_forward: Annotated[
        int,
        typer.Option(
            "--walk-forward",
            help="Search again on that many longer and longer beginnings, each judged "
            "on what follows; 0 for none.",
        ),
    ] = 0,
    current: Annotated[
        Path | None,
        typer.Option(
            "--current",
            help="What runs today: a tuned file, or vLLM's --kv-transfer-config.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            help="Where trials are kept: a journal file, or a database's URL. OUT "
            "with .journal if absent; the same command goes on where it stopped.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", help="Draw trials, sensitivity and verdict: .png or .svg."
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="TRACE is a folder: tune on each recording that is finished there, "
            "and say whether OUT still keeps its promise.",
        ),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="auto|ADDRESS",
            help="Run trials as tasks of a Ray cluster: the one this machine belongs "
            "to (auto), one started for this search (local), or one at an address.",
        ),
    ] = None,
    every: Annotated[
        float, typer.Option("--every", help="With --watch: seconds between looks.")
    ] = 60.0,
    engine: EngineOption = "none",
    gpu_blocks: GpuBlocksOption = 0,
    chunk_tokens: ChunkTokensOption = None,
    step_tokens: Annotated[
        int, typer.Option("--step-tokens", help="Tokens of a prefill step, in replay.")
    ] = 8192,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME|FILE.toml",
            help="For objectives in time: machine and model, as in simulate.",
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", help="In time: how much faster requests come.")
    ] = 1.0,
    ssd: SsdOption = None,
    ssd_per_ram: Annotated[
        float | None,
        typer.Option(
            "--ssd-per-ram",
            help="With --ssd: bytes of SSD that a byte of RAM is exchanged for; how "
            "much of --cpu stays RAM is searched then.",
        ),
    ] = None,
    ssd_writes_per_day: SsdWritesOption = None,
    tail: TailOption = TailRule.DROP,
    kv_bytes_per_token: KvBytesOption = None,
    model: ModelOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed, 0 or more.")] = 0,
    jobs: JobsOption = None,
) -> None:
    """Search the best policy for a trace, and say whether it is worth deploying."""
    from hotset.policies.errors import PolicyError
    from hotset.sim.capacity import parse_capacity
    from hotset.sim.engines import engine as rules_of
    from hotset.sim.objectives import parse_objectives
    from hotset.sim.parallel import check_jobs
    from hotset.sim.samplers import check_sampler
    from hotset.sim.tier_choice import tier_budget
    from hotset.sim.trial_store import check_storage
    from hotset.sim.tune_plan import TunePlan, make_space
    from hotset.sim.tune_session import Session

    workers = check_jobs(jobs)
    check_picture(plot)
    check_storage(storage or "", workers)
    machine = _profile(profile)
    if not _words(policy or _POLICIES):
        raise PolicyError("--policy: at least one is needed")
    if not out.name:
        raise PolicyError(f"--out {str(out)!r}: a file is needed")
    if watch and (current is not None or plot is not None):
        raise PolicyError("--watch: not with --current, which is OUT, or --plot")
    if not 0 < every < math.inf:
        raise PolicyError(f"--every {every}: more than 0 s is needed")
    if machine is not None and (kv_bytes_per_token is not None or model is not None):
        raise PolicyError("--profile: it says what a token takes; give nothing else")
    of_token = bytes_of_a_token(kv_bytes_per_token, model)
    tiers = tier_budget(ssd, ssd_per_ram, ssd_writes_per_day)
    names = _words(policy or _POLICIES), _words(admission or _BOTH)
    plan = TunePlan(
        space=make_space(*names, tiers),
        cpu=parse_capacity(cpu, "--cpu"),
        objectives=parse_objectives(_words(objective or ["token_hit_ratio"])),
        engine=rules_of(engine),
        tail=tail.value,
        chunk_tokens=chunk_tokens,
        gpu_blocks=gpu_blocks,
        step_tokens=step_tokens,
        kv_bytes_per_token=of_token if machine is None else machine.kv_bytes_per_token,
        profile=machine,
        tiers=tiers,
        speed=speed,
        fit=fit,
        trials=trials,
        timeout_s=timeout,
        sampler=check_sampler(sampler),
        seed=seed,
        min_gain=min_gain,
        walk_forward=walk_forward,
    )
    own = Path(profile) if profile is not None and profile.endswith(".toml") else None
    session = Session(
        plan=plan,
        out=out,
        plot=plot,
        storage=storage,
        jobs=workers,
        current=current,
        inputs={"--model": model, "--profile": own},
        cluster=ray,
    )
    try:
        if watch:
            session.watch(source, every)
        else:
            session.run(source)
    except KeyboardInterrupt:
        typer.echo(
            "interrupted: finished trials are kept, and the same command goes on",
            err=True,
        )
        raise typer.Exit(_INTERRUPTED) from None


def _words(texts: Sequence[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _profile(name: str | None) -> Profile | None:
    from hotset.sim.profile import load_profile

    return None if name is None else load_profile(name)
