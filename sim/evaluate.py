"""How good a candidate is, on the beginning of a trace or on the rest behind it.

By replay, or, for objectives in time, by simulation. What a request finds depends on
the requests before it alone, so one run over the whole trace also tells what each part
of it got, with the cache as warm as the parts before left it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.policies.errors import PolicyError
from hotset.sim.candidate import Candidate
from hotset.sim.replay import Replay, RunConfig, first_measured
from hotset.sim.study import check_reuse
from hotset.sim.tune_plan import TunePlan
from hotset.sim.workload import Workload, beginning
from hotset.traces.model import Trace


@dataclass(frozen=True)
class Outcome:
    """What one run got, by request.

    Parameters
    ----------
    values : float64[R]
        Hit tokens, saved seconds, or TTFT in seconds, by the first objective.
    objectives : dict of str to float
        All objectives over the holdout.
    """

    values: Float64Array
    objectives: dict[str, float]


class Evaluator(Protocol):
    """Runs candidates on one trace."""

    trace: Trace
    plan: TunePlan
    capacity_blocks: int
    chunk_tokens: int

    @property
    def weights(self) -> Float64Array | None:
        """What `Outcome.values` are a part of, float64[R]; None for TTFT."""

    def score(self, candidate: Candidate, stop: int) -> tuple[float, ...]:
        """Return the objectives over the first requests alone, ``stop`` of them."""

    def outcome(self, candidate: Candidate) -> Outcome:
        """Run over the whole trace."""


def first_of_holdout(trace: Trace, plan: TunePlan) -> int:
    """Return the index of the holdout's first request.

    Raises
    ------
    PolicyError
        If no request is left to search on.
    """
    first = first_measured(plan.fit, trace.num_requests)
    if first == 0:
        raise PolicyError(
            f"{trace.provenance.path}: --fit {plan.fit} leaves no request to search on"
        )
    return first


def make_evaluator(trace: Trace, plan: TunePlan) -> Evaluator:
    """Return what runs a plan's candidates on a trace.

    Raises
    ------
    PolicyError
        If the capacity holds no chunk, or a part of the trace is empty.
    TraceError
        For a trace of lengths alone.
    """
    check_reuse(trace)
    first_of_holdout(trace, plan)
    if plan.in_time:
        from hotset.sim.evaluate_time import TimeEvaluator

        return TimeEvaluator(trace, plan)
    return ReplayEvaluator(trace, plan)


class ReplayEvaluator:
    """Replays candidates.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : TunePlan
        The plan.
    """

    def __init__(self, trace: Trace, plan: TunePlan) -> None:
        self.trace = trace
        self.plan = plan
        self.workload = Workload(trace, plan.tail, plan.chunk_tokens)
        self.chunk_tokens = self.workload.chunk_tokens
        self.capacity_blocks = plan.cpu.blocks(
            self.workload.blocks.num_distinct,
            trace.block_tokens,
            plan.kv_bytes_per_token,
        )
        per_chunk = self.workload.blocks_per_chunk
        if self.capacity_blocks < per_chunk:
            raise PolicyError(
                f"{plan.cpu.option} {plan.cpu.text}: {self.capacity_blocks} blocks "
                f"hold no chunk of {per_chunk} blocks"
            )
        self._beginnings: dict[int, Workload] = {}

    @property
    def weights(self) -> Float64Array:
        """Input tokens of each request."""
        return self.trace.input_tokens.astype(np.float64)

    def score(self, candidate: Candidate, stop: int) -> tuple[float, ...]:
        """Return the objectives over the first requests alone, ``stop`` of them."""
        if stop not in self._beginnings:
            part = beginning(self.trace, stop)
            self._beginnings[stop] = Workload(
                part, self.plan.tail, self.plan.chunk_tokens
            )
        replay = self._replay(self._beginnings[stop], candidate, 0.0)
        return tuple(self._objectives(replay).values())

    def outcome(self, candidate: Candidate) -> Outcome:
        """Run over the whole trace."""
        replay = self._replay(self.workload, candidate, self.plan.fit)
        objectives = self._objectives(replay)
        return Outcome(replay.hit_tokens.astype(np.float64), objectives)

    def _objectives(self, replay: Replay) -> dict[str, float]:
        result = replay.run()
        token_bytes = self.plan.kv_bytes_per_token or 0
        all_values = {
            "token_hit_ratio": result.token_hit_ratio,
            "stored_bytes": float(result.stores * self.chunk_tokens * token_bytes),
        }
        return {each.name: all_values[each.name] for each in self.plan.objectives}

    def _replay(
        self, workload: Workload, candidate: Candidate, warmup: float
    ) -> Replay:
        plan = self.plan
        return Replay(
            workload,
            RunConfig(
                policy=candidate.policy,
                params=candidate.params,
                admission=candidate.admission,
                admission_params=candidate.admission_params,
                capacity_blocks=self.capacity_blocks,
                engine=plan.engine,
                gpu_blocks=plan.gpu_blocks,
                step_tokens=plan.step_tokens,
                warmup=warmup,
            ),
        )
