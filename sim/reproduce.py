"""The published GPU cells, simulated: lengths and timing fitted, then every cell run.

Lengths and timing come from the cells without the scored policy; the others are
predicted. What a cell's policy hears is what vLLM told it in the measured version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from hotset.policies.arrays import Float64Array
from hotset.sim import gpu_matrix
from hotset.sim.arrivals import JobSource, closed_loop
from hotset.sim.calibrate import Calibration, Measured, calibrate
from hotset.sim.cost import CostModel
from hotset.sim.engine import Engine, EngineSpec
from hotset.sim.gpu_matrix import Cell, Lengths
from hotset.sim.job import Job
from hotset.sim.steps import BatchLimits
from hotset.sim.tier import NoTier, OffloadTier
from hotset.sim.transfers import LinkSpec
from hotset.sim.workload import Workload

_HIT_TTFT_S = 0.4  # below it a published request was a hit
_VERDICT_BUDGETS = ("B0", "B1", "B2")
_BETWEEN_REQUESTS_S = 1.0
_FREE = CostModel()


@dataclass(frozen=True)
class Outcome:
    """A simulated cell.

    Parameters
    ----------
    cell : Cell
        The cell.
    counters : dict of str to int
        As the server's metrics name them.
    computed_tokens, cached_tokens, load_bytes, ttft_s : float64[N]
        By request, in order of issue.
    """

    cell: Cell
    counters: dict[str, int]
    computed_tokens: Float64Array
    cached_tokens: Float64Array
    load_bytes: Float64Array
    ttft_s: Float64Array

    @property
    def hot_ttft_s(self) -> tuple[float, float] | None:
        """Mean TTFT of hot requests, published and simulated; None without any."""
        hot = gpu_matrix.HOT_EXAMPLES.get(self.cell.workload)
        if hot is None:
            return None
        chosen = np.isin(np.array(self.cell.examples), hot)
        published = np.array(self.cell.ttft_s)
        return float(published[chosen].mean()), float(self.ttft_s[chosen].mean())

    @property
    def verdicts(self) -> tuple[int, int] | None:
        """Requests rightly told hit from miss, and all; None where it is not clear."""
        if not self.cell.name.endswith(_VERDICT_BUDGETS):
            return None
        published = np.array(self.cell.ttft_s) < _HIT_TTFT_S
        right = published == (self.ttft_s < _HIT_TTFT_S)
        return int(right.sum()), len(right)

    def as_json(self) -> dict[str, Any]:
        """Return the cell as JSON values."""
        hot, verdicts = self.hot_ttft_s, self.verdicts
        published = self.cell.counters
        return {
            "cell": self.cell.name,
            "simulated": {
                **self.counters,
                "ttft_mean_s": float(self.ttft_s.mean()),
                "ttft_hot_mean_s": None if hot is None else hot[1],
            },
            "published": {
                **{name: published[name] for name in gpu_matrix.COUNTERS},
                "ttft_mean_s": float(np.mean(self.cell.ttft_s)),
                "ttft_hot_mean_s": None if hot is None else hot[0],
            },
            "within": {
                name: gpu_matrix.is_within(name, published[name], value)
                for name, value in self.counters.items()
            },
            "right_verdicts": None if verdicts is None else verdicts[0],
            "verdicts": None if verdicts is None else verdicts[1],
        }


@dataclass(frozen=True)
class Reproduction:
    """All cells with a tier, and what was fitted for them."""

    lengths: dict[str, Lengths]
    timing: Calibration
    clamp: bool
    outcomes: list[Outcome]

    def as_json(self) -> dict[str, Any]:
        """Return the reproduction as JSON values."""
        return {
            "lengths": {k: dataclasses.asdict(v) for k, v in self.lengths.items()},
            "timing": dataclasses.asdict(self.timing),
            "clamp": self.clamp,
            "cells": [outcome.as_json() for outcome in self.outcomes],
        }


def reproduce(cells: Sequence[Cell], clamp: bool = True) -> Reproduction:
    """Fit lengths and timing, then simulate every cell with a tier.

    Parameters
    ----------
    cells : sequence of Cell
        The published cells.
    clamp : bool
        Whether the cells of an earlier version of the scored policy get its rule.
    """
    lengths = gpu_matrix.fit_lengths(cells)
    timing = fit_timing(cells, lengths)
    outcomes = [
        simulate_cell(
            cell, lengths[gpu_matrix.LENGTHS_OF[cell.workload]], timing, clamp
        )
        for cell in cells
        if cell.has_tier
    ]
    return Reproduction(lengths, timing, clamp, outcomes)


def fit_timing(cells: Sequence[Cell], lengths: dict[str, Lengths]) -> Calibration:
    """Fit costs to the cells without the scored policy.

    Tokens and bytes by request are simulated; that takes no costs, since requests go
    one at a time. The first request of a cell warms the server up and is left out.
    """
    columns: list[list[Float64Array]] = [[], [], [], []]
    for cell in cells:
        if not cell.is_fitted:
            continue
        own = lengths[gpu_matrix.LENGTHS_OF[cell.workload]]
        outcome = simulate_cell(cell, own, None, clamp=True)
        of_cell = (
            outcome.computed_tokens,
            outcome.cached_tokens,
            outcome.load_bytes,
            np.array(cell.ttft_s),
        )
        for column, values in zip(columns, of_cell, strict=True):
            column.append(values[1:])
    computed, cached, load_bytes, ttft_s = map(np.concatenate, columns)
    unknown = np.full(len(computed), np.nan)
    return calibrate(Measured(computed, cached, ttft_s, load_bytes, unknown, unknown))


def simulate_cell(
    cell: Cell, lengths: Lengths, timing: Calibration | None, clamp: bool
) -> Outcome:
    """Simulate a cell; without a timing nothing takes time."""
    trace = gpu_matrix.make_trace(cell, lengths)
    workload = Workload(trace, chunk_tokens=gpu_matrix.CHUNK_TOKENS)
    env = simpy.Environment()
    tier: OffloadTier = NoTier()
    if cell.has_tier:
        config = gpu_matrix.run_config(cell, clamp)
        tier = OffloadTier(workload, config, hears_all=True)
    jobs: list[Job] = []
    engine = Engine(env, _machine(timing), tier, jobs.append)
    source = JobSource(workload)
    env.process(closed_loop(env, engine, source, 1, _BETWEEN_REQUESTS_S))
    env.run(until=engine.process)
    gpu_tokens = sum(job.gpu_tokens for job in jobs)
    hit_tokens = sum(job.hit_tokens for job in jobs)
    loaded = [job.hit_tokens - job.gpu_tokens for job in jobs]
    return Outcome(
        cell=cell,
        counters=gpu_matrix.counters_of(gpu_tokens, hit_tokens, tier.counts.stores),
        computed_tokens=np.array([job.num_computed for job in jobs], np.float64),
        cached_tokens=np.array(
            [job.input_tokens - job.num_computed for job in jobs], np.float64
        ),
        load_bytes=np.array(loaded, np.float64) * gpu_matrix.KV_BYTES_PER_TOKEN,
        ttft_s=np.array([job.first_token_s - job.arrival_s for job in jobs]),
    )


def _machine(timing: Calibration | None) -> EngineSpec:
    cost, link = _FREE, LinkSpec(float("inf"))
    if timing is not None:
        cost = CostModel(timing.start_s, timing.token_s, timing.pair_s)
        if timing.load_bytes_per_s is not None:
            link = LinkSpec(timing.load_bytes_per_s)
    return EngineSpec(
        cost=cost,
        gpu_blocks=gpu_matrix.GPU_BLOCKS,
        limits=BatchLimits(
            step_tokens=gpu_matrix.STEP_TOKENS,
            max_sequences=256,
            block_tokens=gpu_matrix.BLOCK_TOKENS,
            chunk_tokens=gpu_matrix.CHUNK_TOKENS,
        ),
        kv_bytes_per_token=gpu_matrix.KV_BYTES_PER_TOKEN,
        load_link=link,
        store_link=link,
        is_async=True,
    )
