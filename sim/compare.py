"""Policies against each other: traces x capacities x policies, judged out of sample.

Each trace is cut in two by time. Parameters are searched on the first part alone; then
every policy runs over the whole trace and what it hits in the second part counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hotset.policies.base import Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.capacity import Capacity
from hotset.sim.contest import BASELINE, OPTIMUM, Cell, Contest, Contestant, Standing
from hotset.sim.engines import engine
from hotset.sim.mrc import lru_curve
from hotset.sim.noise import make_groups, sum_by_group
from hotset.sim.parallel import reporter, run_all
from hotset.sim.replay import Replay, RunConfig, first_measured
from hotset.sim.search import search, tuned_fields
from hotset.sim.study import check_reuse
from hotset.sim.workload import Workload, beginning
from hotset.traces.model import Tail, Trace
from hotset.traces.stats import ceiling_of

_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Parameters
    ----------
    contestants : sequence of Contestant
        The policies, `BASELINE` and `OPTIMUM` among them.
    capacities : sequence of Capacity
        Capacities, of each trace its own.
    tail : "drop" or "count"
        As in `Workload`.
    fit : float
        Share of the requests that parameters are searched on, in (0, 1).
    trials : int
        Settings that a search tries, the defaults included.
    seed : int
        Of the searches.
    kv_bytes_per_token : int, optional
        For capacities in bytes.
    """

    contestants: Sequence[Contestant]
    capacities: Sequence[Capacity]
    tail: Tail = "drop"
    fit: float = 0.5
    trials: int = 24
    seed: int = 0
    kv_bytes_per_token: int | None = None


def contestants(policies: Sequence[str], tuned: Sequence[str]) -> list[Contestant]:
    """Return who takes part, `BASELINE` first and `OPTIMUM` last.

    Parameters
    ----------
    policies : sequence of str
        Policies with their parameters; every one but those that never evict where
        there are none.
    tuned : sequence of str
        Names of policies that take part a second time, with searched parameters; all
        that have parameters to search among ``policies`` as "all", nobody as "none".

    Raises
    ------
    PolicyError
        For an unknown name, a bad parameter, or a policy that cannot take part.
    """
    texts = list(policies) or [
        name for name in POLICIES.names() if not POLICIES.get(name).unbounded
    ]
    given = [POLICIES.parse(text) for text in texts]
    for policy, _ in given:
        if policy.unbounded:
            raise PolicyError(f"--policy {policy.name}: it never evicts")
    entries = [Contestant(*pair) for pair in given]
    for name in dict.fromkeys(tuned):
        chosen = {"all": _names_to_tune(entries), "none": []}.get(name, [name])
        for each in chosen:
            policy = POLICIES.get(each)
            if policy.offline or not tuned_fields(policy):
                raise PolicyError(f"--tune {each}: it has no parameters to search")
            entries.append(Contestant(policy, policy.params(), tuned=True))
    ends = [Contestant(*POLICIES.parse(name)) for name in (BASELINE, OPTIMUM)]
    entries = [entry for entry in dict.fromkeys(entries) if entry not in ends]
    order = {text.partition(":")[0]: i for i, text in reversed([*enumerate(texts)])}
    entries.sort(key=lambda who: (order.get(who.policy.name, len(order)), who.tuned))
    return [ends[0], *entries, ends[1]]


def _names_to_tune(entries: Sequence[Contestant]) -> list[str]:
    return [
        entry.policy.name
        for entry in entries
        if not entry.policy.offline and tuned_fields(entry.policy)
    ]


def check_plan(plan: Plan) -> None:
    """Raise PolicyError where a setting is out of range."""
    if not 0 < plan.fit < 1:
        raise PolicyError(f"--fit {plan.fit}: allowed is above 0 and below 1")
    if not 1 <= plan.trials <= _MOST_TRIALS:
        raise PolicyError(f"--trials {plan.trials}: allowed is 1 to {_MOST_TRIALS}")
    if plan.seed < 0:
        raise PolicyError(f"--seed {plan.seed}: allowed is 0 or more")


def make_contest(trace: Trace, plan: Plan) -> Contest:
    """Cut a trace in two.

    Raises
    ------
    PolicyError
        If a part would be empty.
    TraceError
        For a trace of lengths alone.
    """
    check_reuse(trace)
    first = first_measured(plan.fit, trace.num_requests)
    if first == 0:
        raise PolicyError(
            f"{trace.provenance.path}: --fit {plan.fit} leaves no request to fit on"
        )
    workload = Workload(trace, plan.tail)
    most = ceiling_of(workload.chunks, trace.block_tokens, trace.input_tokens, first)
    curve = lru_curve(workload, plan.fit)
    enough = curve.enough_for(100, most.hit_tokens) if most.hit_tokens else None
    return Contest(
        workload=workload,
        fit_workload=Workload(beginning(trace, first), plan.tail),
        first=first,
        groups=make_groups(trace, first),
        ceiling=most,
        working_set_blocks=enough,
    )


def run_comparison(
    traces: Sequence[Trace],
    plan: Plan,
    progress: Callable[[int, int], None] | None = None,
    jobs: int = 1,
) -> list[Cell]:
    """Run everyone on every trace at every capacity; return cells by trace, then size.

    Parameters
    ----------
    traces : sequence of Trace
        The traces.
    plan : Plan
        What to compare.
    progress : callable, optional
        Told accesses done and accesses in all, now and then.
    jobs : int
        Runs at once, at least 1; changes nothing in the result.

    Raises
    ------
    PolicyError
        If a capacity is less than a block, or a part of a trace empty.
    """
    contests = [make_contest(trace, plan) for trace in traces]
    sizes = [
        (contest, capacity, _blocks(contest, capacity, plan))
        for contest in contests
        for capacity in plan.capacities
    ]
    for contest in contests:
        for workload in (contest.workload, contest.fit_workload):
            _ = workload.stream
        _ = contest.workload.next_use
    work = [(place, who) for place in range(len(sizes)) for who in plan.contestants]
    costs = [_cost(sizes[place][0], who, plan) for place, who in work]
    report = reporter(sum(costs), progress)

    def one(place: int, who: Contestant) -> Standing:
        contest, _, blocks = sizes[place]
        return _stand(contest, blocks, who, plan, report)

    # The longest first, so that no thread ends up alone with one.
    order = sorted(range(len(work)), key=lambda i: -costs[i])
    done = run_all([partial(one, *work[i]) for i in order], jobs)
    standing = dict(zip(order, done, strict=True))
    each = len(plan.contestants)
    return [
        Cell(*size, [standing[place * each + i] for i in range(each)])
        for place, size in enumerate(sizes)
    ]


def _blocks(contest: Contest, capacity: Capacity, plan: Plan) -> int:
    return capacity.blocks(
        contest.workload.blocks.num_distinct,
        contest.workload.trace.block_tokens,
        plan.kv_bytes_per_token,
    )


def _cost(contest: Contest, who: Contestant, plan: Plan) -> int:
    """Return the accesses that a contestant replays, at most."""
    trials = plan.trials if who.tuned else 0
    return int(
        len(contest.workload.chunks.ids) + trials * len(contest.fit_workload.chunks.ids)
    )


def _stand(
    contest: Contest,
    capacity_blocks: int,
    who: Contestant,
    plan: Plan,
    report: Callable[[int], None],
) -> Standing:
    """Search where that is asked for, then judge."""
    if who.tuned:

        def score(params: Params) -> int:
            on_fit = _replay(contest.fit_workload, who.policy, params, capacity_blocks)
            return on_fit.run(report).hit_tokens

        # The policy's own stream of chance: who else takes part changes nothing.
        digest = zlib.crc32(who.policy.name.encode())
        rng = np.random.default_rng([plan.seed, digest, capacity_blocks])
        who = replace(who, params=search(who.policy, score, plan.trials, rng))
    replay = _replay(contest.workload, who.policy, who.params, capacity_blocks)
    replay.run(report)
    hits = replay.hit_tokens[contest.first :]
    return Standing(who, int(hits.sum()), sum_by_group(contest.groups, hits))


def _replay(
    workload: Workload, policy: PolicySpec, params: Params, capacity_blocks: int
) -> Replay:
    admission, admission_params = ADMISSIONS.parse("always")
    return Replay(
        workload,
        RunConfig(
            policy=policy,
            params=params,
            admission=admission,
            admission_params=admission_params,
            capacity_blocks=capacity_blocks,
            engine=engine("none"),
        ),
    )
