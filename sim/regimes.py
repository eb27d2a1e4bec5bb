"""A regime map: every policy at every place of a grid, and what helps where.

Each place is replayed with several seeds. Two runs are compared pair by pair: over the
seeds, or with one seed over its sessions or blocks of consecutive requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.contest import BASELINE, OPTIMUM
from hotset.sim.engines import EngineRules, engine
from hotset.sim.noise import make_groups, sum_by_group
from hotset.sim.parallel import reporter, run_all
from hotset.sim.regime_axes import Axis, Place, Supply, check_axes, place
from hotset.sim.regime_cells import Cell, Sum
from hotset.sim.replay import Replay, RunConfig, first_measured
from hotset.sim.study import check_reuse, too_small_gpu
from hotset.sim.workload import Workload
from hotset.traces.stats import ceiling_of

_MOST_CELLS = 400
_MOST_SEEDS = 64


@dataclass(frozen=True)
class Plan:
    """What to map.

    Parameters
    ----------
    supply : Supply
        Where workloads come from.
    x, y : Axis
        The two dimensions.
    policies : sequence of (PolicySpec, Params)
        Who runs at every place, `BASELINE` first and `OPTIMUM` last.
    seeds : tuple of int
        Of the generator.
    budget : str, optional
        The budget, where no dimension is.
    engine : EngineRules
        Of all runs, with ``gpu_blocks``, ``chunk_tokens`` and ``step_tokens``.
    kv_bytes_per_token : int, optional
        For budgets in bytes.
    scoring, distance : (PolicySpec, Params)
        The policies that stand for these knobs.
    thresholds : tuple of int
        Store thresholds that are tried with `BASELINE`.
    more : float
        How many times the budget is tried with `BASELINE`, above 1.
    least : float
        Margins below it are ties, whatever the noise; in token hit ratio.
    warmup : float
        As in `RunConfig`.
    """

    supply: Supply
    x: Axis
    y: Axis
    policies: Sequence[tuple[PolicySpec, Params]]
    seeds: tuple[int, ...] = (0,)
    budget: str | None = None
    engine: EngineRules = field(default_factory=lambda: engine("none"))
    gpu_blocks: int = 0
    chunk_tokens: int | None = None
    step_tokens: int = 8192
    kv_bytes_per_token: int | None = None
    scoring: tuple[PolicySpec, Params] = field(
        default_factory=lambda: POLICIES.parse("relevance")
    )
    distance: tuple[PolicySpec, Params] = field(
        default_factory=lambda: POLICIES.parse("guard")
    )
    thresholds: tuple[int, ...] = (2, 4, 7)
    more: float = 2.0
    least: float = 0.005
    warmup: float = 0.0


@dataclass(frozen=True)
class RegimeMap:
    """A map: its cells by y, then by x."""

    plan: Plan
    cells: list[Cell]
    paired_by: str
    warnings: list[str] = field(default_factory=list)

    def cell(self, x: str, y: str) -> Cell:
        """Return the cell of two values, as written."""
        return next(c for c in self.cells if (c.x, c.y) == (x, y))


def everyone(texts: Sequence[str]) -> list[tuple[PolicySpec, Params]]:
    """Return who runs at every place: those named, or all that can.

    Raises
    ------
    PolicyError
        For an unknown name, a bad parameter, or a policy that never evicts.
    """
    every = [name for name in POLICIES.names() if not POLICIES.get(name).unbounded]
    given = [POLICIES.parse(text) for text in texts or every]
    for policy, _ in given:
        if policy.unbounded:
            raise PolicyError(f"--policy {policy.name}: it never evicts")
    ends = [POLICIES.parse(name) for name in (BASELINE, OPTIMUM)]
    between = [pair for pair in dict.fromkeys(given) if pair not in ends]
    return [ends[0], *between, ends[1]]


def check_plan(plan: Plan) -> None:
    """Raise PolicyError where a setting is out of range."""
    check_axes(plan.supply, plan.x, plan.y, plan.budget)
    cells = len(plan.x.values) * len(plan.y.values)
    if cells > _MOST_CELLS:
        raise PolicyError(f"--x, --y: {cells} places, allowed are {_MOST_CELLS}")
    if not 1 <= len(set(plan.seeds)) == len(plan.seeds) <= _MOST_SEEDS:
        raise PolicyError(f"--seeds: allowed are 1 to {_MOST_SEEDS}, each once")
    if min(plan.seeds) < 0:
        raise PolicyError(f"--seeds {min(plan.seeds)}: allowed is 0 or more")
    scored = plan.scoring[0]
    if scored.offline or scored.unbounded:
        why = "knows the future" if scored.offline else "never evicts"
        raise PolicyError(f"--scoring {scored.name}: it {why}, so nobody can run it")
    if plan.supply.trace is not None and len(plan.seeds) > 1:
        raise PolicyError("--seeds: of a generator; a trace has none")
    if not 1 < plan.more <= 100:
        raise PolicyError(f"--more {plan.more:g}: allowed is above 1 to 100")
    if not 0 <= plan.least < 1:
        raise PolicyError(f"--least {plan.least:g}: allowed is 0 to below 1")
    if not 0 <= plan.warmup < 1:
        raise PolicyError(f"--warmup {plan.warmup:g}: allowed is 0 to below 1")
    if not 1 <= len(set(plan.thresholds)) == len(plan.thresholds):
        raise PolicyError("--store-threshold: at least one is needed, each once")


@dataclass(frozen=True)
class _Run:
    """A replay of a workload; equal ones are run once."""

    workload: int
    policy: PolicySpec
    params: Params
    admission: tuple[AdmissionSpec, Params]
    capacity_blocks: int
    gpu_blocks: int


def run_map(
    plan: Plan, progress: Callable[[int, int], None] | None = None, jobs: int = 1
) -> RegimeMap:
    """Replay everything; neither jobs nor the order of runs change the map.

    Raises
    ------
    PolicyError, TraceError
        If a setting is out of range, or a workload has nothing to hit.
    """
    check_plan(plan)
    spots = [
        (x, y, place(plan.supply, {plan.x.name: x, plan.y.name: y}, plan.budget,
                     plan.gpu_blocks))
        for y in plan.y.values
        for x in plan.x.values
    ]  # fmt: skip
    workloads, numbers = _workloads(plan, [spot for _, _, spot in spots])
    wanted = [
        [_runs(plan, workloads, numbers[spot.options, seed], spot)
         for seed in plan.seeds]
        for _, _, spot in spots
    ]  # fmt: skip
    unique = list(dict.fromkeys(r for cell in wanted for runs in cell for r in runs))
    sums = _replay_all(plan, workloads, unique, progress, jobs)
    cells = [
        _cell(plan, workloads, x, y, runs, sums)
        for (x, y, _), runs in zip(spots, wanted, strict=True)
    ]
    by = "seeds"
    if len(plan.seeds) == 1:
        first = first_measured(plan.warmup, workloads[0].trace.num_requests)
        by = make_groups(workloads[0].trace, first).kind
    warnings = [each for w in workloads for each in w.trace.provenance.warnings]
    for _, _, spot in spots:
        for seed in plan.seeds:
            workload = workloads[numbers[spot.options, seed]]
            warnings += too_small_gpu(workload, spot.gpu_blocks)
    return RegimeMap(plan, cells, by, list(dict.fromkeys(warnings)))


def _workloads(
    plan: Plan, places: Sequence[Place]
) -> tuple[list[Workload], dict[tuple[object, int], int]]:
    """Make each trace once; return them, and their numbers by options and seed."""
    workloads: list[Workload] = []
    numbers: dict[tuple[object, int], int] = {}
    for spot in places:
        for seed in plan.seeds:
            if (spot.options, seed) in numbers:
                continue
            trace = plan.supply.make(dict(spot.options), seed)
            check_reuse(trace)
            workload = Workload(trace, chunk_tokens=plan.chunk_tokens)
            # What runs share is made before they start, so that threads only read it.
            _ = workload.stream, workload.next_use
            numbers[spot.options, seed] = len(workloads)
            workloads.append(workload)
    return workloads, numbers


def _runs(
    plan: Plan, workloads: Sequence[Workload], number: int, spot: Place
) -> list[_Run]:
    """Return the runs of a place and a seed, policies first, then the knobs."""
    workload = workloads[number]
    blocks = spot.capacity.blocks(
        workload.blocks.num_distinct,
        workload.trace.block_tokens,
        plan.kv_bytes_per_token,
    )
    always = ADMISSIONS.parse("always")
    lru = plan.policies[0]
    larger = int(blocks * plan.more)
    tried = [(pair, always, blocks) for pair in plan.policies]
    tried += [(plan.scoring, always, blocks), (plan.distance, always, blocks)]
    tried += [(lru, always, larger)]
    tried += [
        (lru, ADMISSIONS.parse(f"threshold:{count}"), blocks)
        for count in plan.thresholds
    ]
    return [
        _Run(number, *pair, admission, size, spot.gpu_blocks)
        for pair, admission, size in tried
    ]


def _replay_all(
    plan: Plan,
    workloads: Sequence[Workload],
    runs: Sequence[_Run],
    progress: Callable[[int, int], None] | None,
    jobs: int,
) -> dict[_Run, tuple[int, ...]]:
    """Return the hit tokens of each run: by group with one seed, else all in one."""
    total = sum(int(workloads[run.workload].chunks.offsets[-1]) for run in runs)
    report = reporter(total, progress)

    def one(run: _Run) -> tuple[int, ...]:
        workload = workloads[run.workload]
        config = RunConfig(
            policy=run.policy,
            params=run.params,
            admission=run.admission[0],
            admission_params=run.admission[1],
            capacity_blocks=run.capacity_blocks,
            engine=plan.engine,
            gpu_blocks=run.gpu_blocks,
            step_tokens=plan.step_tokens,
            warmup=plan.warmup,
        )
        replay = Replay(workload, config)
        replay.run(report)
        hits = replay.hit_tokens[replay.first_measured :]
        if len(plan.seeds) > 1:
            return (int(hits.sum()),)
        groups = make_groups(workload.trace, replay.first_measured)
        return tuple(sum_by_group(groups, hits).tolist())

    tasks = [partial(one, run) for run in runs]
    return dict(zip(runs, run_all(tasks, jobs), strict=True))


def _cell(
    plan: Plan,
    workloads: Sequence[Workload],
    x: str,
    y: str,
    by_seed: Sequence[Sequence[_Run]],
    sums: dict[_Run, tuple[int, ...]],
) -> Cell:
    def hits(at: int) -> tuple[int, ...]:
        return tuple(tokens for runs in by_seed for tokens in sums[runs[at]])

    def of(at: int, label: str | None = None) -> Sum:
        run = by_seed[0][at]
        return Sum(label or run.policy.label(run.params), run.policy.name, hits(at))

    own = [workloads[runs[0].workload] for runs in by_seed]
    count = len(plan.policies)
    tokens: list[int] = []
    most = 0
    for workload, runs in zip(own, by_seed, strict=True):
        trace = workload.trace
        first = first_measured(plan.warmup, trace.num_requests)
        groups = make_groups(trace, first)
        by_group = groups.input_tokens.tolist()
        tokens += by_group if len(plan.seeds) == 1 else [sum(by_group)]
        # The GPU tier serves single blocks, also within a chunk.
        units = workload.blocks if runs[0].gpu_blocks else workload.chunks
        size = trace.block_tokens if runs[0].gpu_blocks else workload.chunk_tokens
        most += ceiling_of(units, size, trace.input_tokens, first).hit_tokens
    return Cell(
        x=x,
        y=y,
        capacity_blocks=tuple(runs[0].capacity_blocks for runs in by_seed),
        input_tokens=tuple(tokens),
        ceiling_tokens=most,
        digests=tuple(workload.trace.provenance.sha256 for workload in own),
        policies=[of(at) for at in range(count)],
        scored=of(count),
        guarded=of(count + 1),
        larger=of(count + 2, f"{plan.more:g} times the budget"),
        thresholds=[
            of(count + 3 + i, f"threshold:{number}")
            for i, number in enumerate(plan.thresholds)
        ],
        least=plan.least,
    )
