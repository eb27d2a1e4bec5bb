"""Simulations of one trace under several policies, and the result they make together.

Each run is a simulation of its own; several go on in parallel processes. The result is
what `hotset simulate` writes as JSON.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.sim import metrics
from hotset.sim.arrivals import JobSource, closed_loop, open_loop
from hotset.sim.capacity import Capacity
from hotset.sim.engine import Engine, EngineSpec
from hotset.sim.engines import EngineRules
from hotset.sim.profile import Profile
from hotset.sim.replay import RunConfig, first_measured
from hotset.sim.ssd import SsdTier
from hotset.sim.ssd_plan import SsdPlan
from hotset.sim.study import check_reuse
from hotset.sim.summary import summary
from hotset.sim.tier import OffloadTier
from hotset.sim.tiers import TwoTiers
from hotset.sim.window import Window
from hotset.sim.workload import Workload
from hotset.traces.model import Trace
from hotset.traces.stats import ceiling_of

_HOUR_S = 3600.0
_MOST_SPEED = 1e6
_MOST_THINK_S = 1e7
_STEPS_PER_TOKEN = 4  # more than that, and an engine is going round in circles


@dataclass(frozen=True)
class Plan:
    """What to simulate.

    Parameters
    ----------
    policies : sequence of (PolicySpec, Params)
        Eviction policies of the CPU tier; a run for each.
    admission : (AdmissionSpec, Params)
        The admission rule of all runs.
    engine : EngineRules
        The engine's rules.
    profile : Profile
        The machine.
    cpu : Capacity
        Size of the CPU tier.
    ssd : SsdPlan, optional
        What is behind it.
    chunk_tokens, gpu_blocks, step_tokens : int, optional
        Instead of the trace's block and the profile's values.
    users : int, optional
        Users of a closed loop; without it requests come at their times.
    think_s : float
        Mean think time of these users.
    speed : float
        How much faster than in the trace requests come.
    loads_if_faster : bool
        Whether a hit is taken only where its load beats computing it.
    slo_ttft_s, slo_itl_s : float, optional
        Objectives.
    warmup : float
        Share of the requests that are not measured, in [0, 1).
    seed : int
        For think times.
    """

    policies: Sequence[tuple[PolicySpec, Params]]
    admission: tuple[AdmissionSpec, Params]
    engine: EngineRules
    profile: Profile
    cpu: Capacity
    ssd: SsdPlan | None = None
    chunk_tokens: int | None = None
    gpu_blocks: int | None = None
    step_tokens: int | None = None
    users: int | None = None
    think_s: float = 0.0
    speed: float = 1.0
    loads_if_faster: bool = False
    slo_ttft_s: float | None = None
    slo_itl_s: float | None = None
    warmup: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1:
            raise PolicyError(f"--warmup {self.warmup}: allowed is 0 to below 1")
        if not 1 / _MOST_SPEED <= self.speed <= _MOST_SPEED:
            raise PolicyError(
                f"--speed {self.speed}: allowed is {1 / _MOST_SPEED:g} to "
                f"{_MOST_SPEED:g}"
            )
        if self.seed < 0:
            raise PolicyError(f"--seed {self.seed}: allowed is 0 or more")
        for option, limit_s in (
            ("--slo-ttft", self.slo_ttft_s),
            ("--slo-itl", self.slo_itl_s),
        ):
            if limit_s is not None and not 0 < limit_s < math.inf:
                raise PolicyError(f"{option} {limit_s}: more than 0 s is needed")
        if self.users is not None and self.users < 1:
            raise PolicyError(f"--users {self.users}: at least 1 is needed")
        if not 0 <= self.think_s <= _MOST_THINK_S:
            raise PolicyError(
                f"--think {self.think_s}: allowed is 0 to {_MOST_THINK_S:g} seconds"
            )
        if self.think_s > 0 and self.users is None:
            raise PolicyError("--think: only users of --users think")
        if self.users is not None and self.speed != 1:
            raise PolicyError("--speed: users of --users come when they are ready")


@dataclass(frozen=True)
class Run:
    """One simulation's outcome: the summary as JSON values, and the rows."""

    label: str
    summary: dict[str, Any]
    records: metrics.Records


@dataclass(frozen=True)
class SimulationResult:
    """Runs and what they were made of."""

    plan: Plan
    trace: Trace
    workload: Workload
    spec: EngineSpec
    cpu_blocks: int
    runs: list[Run]
    warnings: list[str]

    @property
    def first_measured(self) -> int:
        """The first request of the measuring window."""
        return first_measured(self.plan.warmup, self.trace.num_requests)

    @property
    def ceiling_token_hit_ratio(self) -> float:
        """What a cache that holds everything would hit, of the input tokens."""
        blocks, tokens = self.workload.blocks, self.trace.input_tokens
        size = self.trace.block_tokens
        most = ceiling_of(blocks, size, tokens, self.first_measured)
        return most.token_hit_ratio

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        provenance, plan, spec = self.trace.provenance, self.plan, self.spec
        return {
            "trace": {
                "path": provenance.path,
                "sha256": provenance.sha256,
                "format": provenance.format,
                "requests": self.trace.num_requests,
                "block_tokens": self.trace.block_tokens,
                "rejected": provenance.rows_rejected,
                "ceiling": {"token_hit_ratio": self.ceiling_token_hit_ratio},
            },
            "profile": plan.profile.as_json(),
            "settings": {
                "engine": plan.engine.name,
                "cpu_blocks": self.cpu_blocks,
                "ssd": None if plan.ssd is None else plan.ssd.as_json(),
                "chunk_tokens": self.workload.chunk_tokens,
                "gpu_blocks": spec.gpu_blocks,
                "step_tokens": spec.limits.step_tokens,
                "users": plan.users,
                "think_s": plan.think_s,
                "speed": plan.speed,
                "loads_if_faster": plan.loads_if_faster,
                "warmup": plan.warmup,
                "seed": plan.seed,
            },
            "definitions": metrics.DEFINITIONS,
            "warnings": self.warnings,
            "runs": [
                {
                    **run.summary,
                    "over_time": metrics.over_time(run.records, self.first_measured),
                }
                for run in self.runs
            ],
        }


def run_plan(trace: Trace, plan: Plan, num_jobs: int = 1) -> SimulationResult:
    """Simulate a trace under every policy.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : Plan
        What to simulate.
    num_jobs : int
        Simulations at a time, each in a process of its own where more than 1.

    Raises
    ------
    PolicyError
        If a capacity or a request does not fit, or a policy cannot run on line.
    """
    check_reuse(trace)
    workload, spec, cpu_blocks = _prepare(trace, plan)
    numbers = range(len(plan.policies))
    if num_jobs > 1 and len(plan.policies) > 1:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(num_jobs, mp_context=context) as pool:
            futures = [pool.submit(simulate, trace, plan, i) for i in numbers]
            runs = [future.result() for future in futures]
    else:
        runs = [_simulate(workload, spec, cpu_blocks, plan, i) for i in numbers]
    return SimulationResult(
        plan, trace, workload, spec, cpu_blocks, runs, _warnings(trace, plan, runs)
    )


def simulate(trace: Trace, plan: Plan, number: int) -> Run:
    """Simulate a trace under one policy of a plan."""
    workload, spec, cpu_blocks = _prepare(trace, plan)
    return _simulate(workload, spec, cpu_blocks, plan, number)


def _prepare(trace: Trace, plan: Plan) -> tuple[Workload, EngineSpec, int]:
    workload = Workload(trace, chunk_tokens=plan.chunk_tokens)
    spec = plan.profile.engine(
        trace.block_tokens,
        workload.chunk_tokens,
        gpu_blocks=plan.gpu_blocks,
        step_tokens=plan.step_tokens,
        loads_if_faster=plan.loads_if_faster,
        offers_at_end=plan.engine.offers_at_end,
        has_ssd=plan.ssd is not None,
    )
    blocks = plan.cpu.blocks(
        workload.blocks.num_distinct,
        trace.block_tokens,
        plan.profile.kv_bytes_per_token,
    )
    if blocks < workload.blocks_per_chunk:
        raise PolicyError(
            f"--cpu {plan.cpu.text}: {blocks} blocks hold no chunk of "
            f"{workload.blocks_per_chunk} blocks"
        )
    check_online("--policy", [spec for spec, _params in plan.policies])
    if plan.ssd is not None and plan.ssd.policy is not None:
        check_online("--ssd-policy", [plan.ssd.policy[0]])
    return workload, spec, blocks


def check_online(option: str, specs: Sequence[PolicySpec]) -> None:
    """Raise PolicyError if a policy needs to know the future."""
    for spec in specs:
        if spec.offline:
            raise PolicyError(
                f"{option} {spec.name}: it knows the future of a replay; in simulated "
                "time there is none"
            )


def make_tier(
    workload: Workload, spec: EngineSpec, cpu_blocks: int, plan: Plan, number: int
) -> OffloadTier:
    """Return the tiers of a run of a plan."""
    admission, admission_params = plan.admission
    policy = plan.policies[number]
    spares = 0 if plan.ssd is None else plan.ssd.spare_blocks(workload, cpu_blocks)
    left = cpu_blocks - spares
    config = RunConfig(*policy, admission, admission_params, left, plan.engine)
    if plan.ssd is None:
        return OffloadTier(workload, config)
    chunk_bytes = spec.limits.chunk_tokens * spec.kv_bytes_per_token
    behind = plan.ssd.config(workload, policy, spares, spec.kv_bytes_per_token)
    return TwoTiers(workload, config, SsdTier(workload, behind, chunk_bytes))


def _simulate(
    workload: Workload, spec: EngineSpec, cpu_blocks: int, plan: Plan, number: int
) -> Run:
    trace = workload.trace
    env = simpy.Environment()
    tier = make_tier(workload, spec, cpu_blocks, plan, number)
    records = metrics.Records(trace.num_requests)
    tokens = int(trace.input_tokens.sum() + trace.output_tokens.sum())
    engine = Engine(
        env,
        spec,
        tier,
        on_done=lambda job: records.add(job, env.now),
        max_steps=_STEPS_PER_TOKEN * tokens + 1000,
    )
    first = first_measured(plan.warmup, trace.num_requests)
    window = Window(engine, first, _middle(trace, first))
    source = JobSource(workload, plan.speed, window.note_arrival)
    if plan.users is None:
        env.process(open_loop(env, engine, source))
    else:
        env.process(
            closed_loop(env, engine, source, plan.users, plan.think_s, plan.seed)
        )
    env.run(until=engine.process)
    policy = plan.policies[number]
    found = summary(policy, engine, records, window, plan, cpu_blocks)
    return Run(found["label"], found, records)


def _middle(trace: Trace, first: int) -> int:
    """Return the first request of the second half of the time from ``first`` on."""
    arrival = trace.arrival_s[first:]
    middle_s = (arrival[0] + arrival[-1]) / 2
    return first + int(np.searchsorted(arrival, middle_s))


def _warnings(trace: Trace, plan: Plan, runs: Sequence[Run]) -> list[str]:
    warnings = list(trace.provenance.warnings)
    if plan.profile.is_estimated:
        warnings.append(
            f"profile {plan.profile.name} is estimated from data sheets: compare "
            "policies by it, and calibrate one before trusting seconds"
        )
    for run in runs:
        load = run.summary["offered_load"]
        if load is not None and load > 1:
            warnings.append(
                f"{run.label}: offered load {load:.2f} "
                f"({run.summary['bottleneck']}) is above 1, so the queue grows as long "
                "as requests come and TTFT says how long the trace is"
            )
    measured_s = min(run.summary["duration_s"] for run in runs)
    if plan.ssd is not None and measured_s < _HOUR_S:
        warnings.append(
            f"SSD writes a day are worked out from {measured_s:,.0f} s of traffic, in "
            "which the SSD began empty: take them from a trace of hours, with --warmup"
        )
    return warnings
