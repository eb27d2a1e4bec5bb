"""What `hotset tune` writes: one file with the answer and all it rests on.

The file holds no time of day and nothing of the machine: equal inputs give equal bytes,
whatever the number of workers.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import version
from typing import Any

from hotset.sim.bootstrap import CONFIDENCE, DRAWS, Gain
from hotset.sim.evaluate_time import TimeEvaluator
from hotset.sim.ledger import Settled
from hotset.sim.tier_choice import TierChoice
from hotset.sim.trials import BATCH
from hotset.sim.tune import TuneResult, sources_digest
from hotset.sim.tune_plan import TunePlan
from hotset.sim.verdict import PARTS, WITHOUT, Row

FORMAT = "hotset-tuned"
VERSION = 1

DEFINITIONS = {
    "fit": "requests before the holdout that the search ran on",
    "holdout": "requests behind them that the verdict is about, with the cache as warm "
    "as the requests before left it",
    "gain": "over lru, in the first objective: token_hit_ratio: difference of the "
    "ratios; saved_prefill_s: difference over the seconds that computing all prompts "
    "takes; ttft_p95_s: by what share it is lower",
    "lower, upper": f"one-sided bounds of the gain, of {CONFIDENCE:g} confidence",
    "miss_change": "change of the missed tokens against lru, a share of lru's",
    "by_part": f"the gain in each of {PARTS} equal parts of the whole trace",
    "drift": "the gain that the current tuned file promised beside the one that it has "
    "on this holdout: within, below or above the promised bounds",
    "sensitivity": "objectives on the fit part with one parameter changed",
    "verdict": "deploy: the lower bound of the best's gain is above min_gain; "
    "keep-lru: it is not; offload-does-not-pay: the upper bound of what the best gets "
    "over no offloading is below min_gain",
}


def as_json(result: TuneResult) -> dict[str, Any]:
    """Return the file's content as JSON values."""
    evaluator, plan = result.evaluator, result.evaluator.plan
    best, verdict = result.best.candidate, result.verdict
    return {
        "format": FORMAT,
        "version": VERSION,
        "verdict": verdict.decision,
        "reason": verdict.reason,
        **best.as_json(),
        "units": {
            **best.units(),
            "ages": best.policy.age_unit,
        },
        "engine": {
            "name": plan.engine.name,
            "chunk_tokens": evaluator.chunk_tokens,
            "gpu_blocks": plan.gpu_blocks,
            "step_tokens": plan.step_tokens,
        },
        "cpu": {
            "asked": plan.cpu.text,
            "blocks": evaluator.capacity_blocks,
            "bytes": _cpu_bytes(result),
            "kv_bytes_per_token": _token_bytes(plan),
        },
        **_ssd(result),
        "evidence": _evidence(result),
        "search": _search(result),
        "provenance": {
            "hotset": version("hotset"),
            "trace": _trace(result),
            "study": result.study_name,
            "sources": sources_digest(),
            "space": plan.space.digest(),
        },
        "definitions": DEFINITIONS,
        "warnings": result.warnings,
    }


def _token_bytes(plan: TunePlan) -> int | None:
    if plan.kv_bytes_per_token is None and plan.profile is not None:
        return plan.profile.kv_bytes_per_token
    return plan.kv_bytes_per_token


def _cpu_bytes(result: TuneResult) -> int | None:
    """Return the bytes that the blocks take, None where a token's are not known."""
    of_token = _token_bytes(result.evaluator.plan)
    if of_token is None:
        return None
    block_tokens = result.evaluator.trace.block_tokens
    return result.evaluator.capacity_blocks * block_tokens * of_token


def _ssd(result: TuneResult) -> dict[str, Any]:
    """Return what the best makes of RAM and SSD; nothing where there is no SSD."""
    evaluator, plan = result.evaluator, result.evaluator.plan
    if plan.tiers is None or not isinstance(evaluator, TimeEvaluator):
        return {}
    best = result.best.candidate
    cpu_blocks, ssd = evaluator.divided(best)
    assert ssd is not None
    _, given = evaluator.divided(dataclasses.replace(best, tiers=None))
    assert given is not None
    block_bytes = evaluator.trace.block_tokens * (_token_bytes(plan) or 0)
    blocks = int(ssd.size.amount)
    limit = ssd.writes_per_day
    return {
        "ssd": {
            **plan.tiers.as_json(),
            "mode": ssd.mode,
            "min_count": (best.tiers or TierChoice()).min_count,
            "cpu_blocks": cpu_blocks,
            "cpu_bytes": cpu_blocks * block_bytes,
            "blocks": blocks,
            "bytes": blocks * block_bytes,
            "given_bytes": int(given.size.amount) * block_bytes,
            "writes_per_day_bytes": None if limit is None else int(limit.amount),
        }
    }


def _trace(result: TuneResult) -> dict[str, Any]:
    trace = result.evaluator.trace
    provenance = trace.provenance
    return {
        "path": provenance.path,
        "sha256": provenance.sha256,
        "format": provenance.format,
        "requests": trace.num_requests,
        "block_tokens": trace.block_tokens,
        "rejected": provenance.rows_rejected,
        "options": dict(provenance.options),
        "steps": list(provenance.steps),
        "tail": result.evaluator.plan.tail,
    }


def _evidence(result: TuneResult) -> dict[str, Any]:
    verdict, plan = result.verdict, result.evaluator.plan
    return {
        "objective": plan.objectives[0].name,
        "min_gain": plan.min_gain,
        "confidence": CONFIDENCE,
        "fit_requests": verdict.first,
        "holdout_requests": result.evaluator.trace.num_requests - verdict.first,
        "bootstrap": {
            "over": verdict.groups.kind,
            "groups": len(verdict.groups.input_tokens),
            "draws": DRAWS,
            "seed": plan.seed,
        },
        "holdout": [_row(row, verdict.row("lru")) for row in verdict.rows],
        "walk_forward": [
            {
                "fit_requests": split.fit_requests,
                "judged_requests": split.judged_requests,
                "gain": split.gain,
                "best": split.best.label,
            }
            for split in result.splits
        ],
        "sensitivity": [
            {
                "parameter": each.parameter,
                "value": each.value,
                **dict(zip(_names(plan), each.score.values, strict=True)),
            }
            for each in result.neighbours
        ],
        "at_bounds": result.at_bounds,
        "drift": None if result.drift is None else result.drift.as_json(),
    }


def _row(row: Row, lru: Row | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "role": row.role,
        "label": "" if row.role == WITHOUT else row.candidate.label,
        **row.objectives,
        "gain": None if row.gain is None else _gain(row.gain),
        "by_part": row.by_part,
    }
    if lru is not None and "token_hit_ratio" in row.objectives:
        missed = 1 - lru.objectives["token_hit_ratio"]
        more = row.objectives["token_hit_ratio"] - lru.objectives["token_hit_ratio"]
        told["miss_change"] = -more / missed if missed > 0 else 0.0
    return told


def _gain(gain: Gain) -> dict[str, float]:
    return dataclasses.asdict(gain)


def _search(result: TuneResult) -> dict[str, Any]:
    plan = result.evaluator.plan
    return {
        "policies": [spec.name for spec in plan.space.policies],
        "admissions": [spec.name for spec in plan.space.admissions],
        "objectives": [
            {
                "name": each.name,
                "unit": each.unit,
                "direction": each.direction,
                "definition": each.definition,
            }
            for each in plan.objectives
        ],
        "sampler": plan.sampler,
        "seed": plan.seed,
        "batch": BATCH,
        "fit": plan.fit,
        "trials": plan.trials,
        "trials_run": len(result.settled),
        "trials_failed": sum(bool(each.fault) for each in result.settled),
        "complete": result.is_complete,
        "profile": None if plan.profile is None else plan.profile.as_json(),
        "speed": plan.speed,
        "current": None if plan.current is None else plan.current.as_json(),
        "best": _trial(result.best, plan),
        "front": [_trial(each, plan) for each in result.front],
    }


def _trial(settled: Settled, plan: TunePlan) -> dict[str, Any]:
    return {
        "trial": settled.place,
        "label": settled.candidate.label,
        **settled.candidate.as_json(),
        **dict(zip(_names(plan), settled.score.values, strict=True)),
    }


def _names(plan: TunePlan) -> list[str]:
    return [each.name for each in plan.objectives]
