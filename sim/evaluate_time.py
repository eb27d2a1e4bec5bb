"""Candidates judged by simulation in time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.sim import metrics
from hotset.sim.candidate import Candidate
from hotset.sim.evaluate import Outcome
from hotset.sim.simulate import Plan, SimulationResult, run_plan
from hotset.sim.ssd_plan import SsdPlan
from hotset.sim.tier_choice import TierChoice
from hotset.sim.tune_plan import TunePlan
from hotset.sim.workload import beginning
from hotset.traces.model import Trace


class TimeEvaluator:
    """Simulates candidates.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : TunePlan
        The plan, with a profile.
    """

    def __init__(self, trace: Trace, plan: TunePlan) -> None:
        self.trace = trace
        self.plan = plan
        self.chunk_tokens = plan.chunk_tokens or trace.block_tokens
        assert plan.profile is not None
        distinct = trace.accesses("drop").num_distinct
        self.capacity_blocks = plan.cpu.blocks(
            distinct,
            trace.block_tokens,
            plan.profile.kv_bytes_per_token,
        )
        self._ssd_blocks = 0
        if plan.tiers is not None:
            self._ssd_blocks = plan.tiers.ssd.size.blocks(
                distinct,
                trace.block_tokens,
                plan.profile.kv_bytes_per_token,
            )
        self._weights: Float64Array | None = None

    @property
    def weights(self) -> Float64Array | None:
        """Of the first objective, once there is an outcome; None where it is TTFT."""
        return self._weights

    def score(self, candidate: Candidate, stop: int) -> tuple[float, ...]:
        """Return the objectives over the first requests alone, ``stop`` of them."""
        result = self._simulate(beginning(self.trace, stop), candidate, 0.0)
        return tuple(self._objectives(result).values())

    def outcome(self, candidate: Candidate) -> Outcome:
        """Run over the whole trace."""
        result = self._simulate(self.trace, candidate, self.plan.fit)
        records = result.runs[0].records
        first = self.plan.objectives[0].name
        if first == "ttft_p95_s":
            values = records.spans()["ttft_s"]
        elif first == "saved_prefill_s":
            self._weights, values = metrics.prefill_each_s(records, result.spec)
        else:
            values = records.hit_tokens.astype(np.float64)
            self._weights = self.trace.input_tokens.astype(np.float64)
        return Outcome(values, self._objectives(result))

    def _simulate(
        self, trace: Trace, candidate: Candidate, warmup: float
    ) -> SimulationResult:
        plan = self.plan
        assert plan.profile is not None
        cpu_blocks, ssd = self.divided(candidate)
        asked = Plan(
            policies=[(candidate.policy, candidate.params)],
            admission=(candidate.admission, candidate.admission_params),
            engine=plan.engine,
            profile=plan.profile,
            # A share is one of the whole trace, whichever part is simulated.
            cpu=replace(plan.cpu, amount=Fraction(cpu_blocks), unit="blocks"),
            ssd=ssd,
            chunk_tokens=plan.chunk_tokens,
            gpu_blocks=plan.gpu_blocks or None,
            speed=plan.speed,
            warmup=warmup,
        )
        return run_plan(trace, asked)

    def divided(self, candidate: Candidate) -> tuple[int, SsdPlan | None]:
        """Return the blocks of the CPU tier and the SSD tier that a candidate uses."""
        if self.plan.tiers is None:
            return self.capacity_blocks, None
        choice = candidate.tiers or TierChoice()
        return self.plan.tiers.divide(choice, self.capacity_blocks, self._ssd_blocks)

    def _objectives(self, result: SimulationResult) -> dict[str, float]:
        summary = result.runs[0].summary
        values: dict[str, float] = {}
        for objective in self.plan.objectives:
            if objective.name == "ttft_p95_s":
                values[objective.name] = metrics.ttft_objective_s(summary)
            elif objective.name == "ssd_bytes_per_day":
                values[objective.name] = float(summary["ssd"]["writes_per_day_bytes"])
            elif objective.name == "stored_bytes":
                values[objective.name] = float(summary["cpu"]["store_bytes"])
            else:
                values[objective.name] = float(summary[objective.name])
        return values
