"""Small results as commands write them, for pages of `hotset report`."""

TRACE = {"path": "week.jsonl", "sha256": "ab" * 32}
MADE_BY = {"hotset": "9.9", "command": "hotset replay week.jsonl --policy lru"}


def run_of(policy, ratio, blocks=100, label=None):
    return {
        "policy": policy,
        "label": label or policy,
        "capacity_blocks": blocks,
        "token_hit_ratio": ratio,
        "block_hit_ratio": ratio,
        "stores": 1,
        "evictions": 0,
    }


def replayed(*runs):
    return {
        "trace": {**TRACE, "ceiling": {"token_hit_ratio": 0.9}},
        "settings": {"engine": "none"},
        "warnings": [],
        "runs": list(runs),
        "provenance": MADE_BY,
    }


def simulated(*runs):
    """Runs of (policy, offered load, p95 TTFT, token hit ratio)."""
    return {
        "trace": TRACE,
        "profile": {"name": "box"},
        "settings": {},
        "runs": [
            {
                "label": label,
                "offered_load": load,
                "ttft_s": {"mean": p95 / 2, "p95": p95},
                "tokens": {"input": 10, "gpu_hit": 1, "cpu_hit": 2, "ssd_hit": 0},
                "token_hit_ratio": ratio,
                "saved_prefill_s": 1.0,
                "cpu": {"load_bytes": 1, "store_bytes": 1},
                "cpu_blocks": 5,
            }
            for label, load, p95, ratio in runs
        ],
    }


def tuned(objectives, **best):
    """A tuning by these objectives, (name, unit), and what its best got."""
    gain = {"value": 0.25, "lower": 0.1, "upper": 0.3}
    return {
        "verdict": "deploy",
        "reason": "because",
        "engine": {"name": "none"},
        "cpu": {"asked": "5%", "blocks": 151, "bytes": None},
        "search": {
            "sampler": "tpe",
            "seed": 0,
            "trials": 2,
            "objectives": [{"name": name, "unit": unit} for name, unit in objectives],
        },
        "evidence": {
            "objective": objectives[0][0],
            "confidence": 0.95,
            "holdout": [{"role": "best", "label": "guard", "gain": gain, **best}],
        },
        "provenance": {**MADE_BY, "trace": TRACE},
        "warnings": [],
    }


def map_of(xs, ys, knob="scoring", setting="marconi"):
    """A map where marconi wins at the first place, and nothing matters elsewhere."""

    def margin(value):
        tie = value == 0
        return {"points_over_lru": value, "noise_points": 1.5, "tie": tie}

    cells = [
        {
            "x": x,
            "y": y,
            "winner": "lru" if at else "marconi",
            "winner_policy": "lru" if at else "marconi",
            "is_tie": at > 0,
            "level": ["marconi", "guard"],
            "sha256": [],
            **margin(0.0 if at else 12.3),
            "knob": None if at else knob,
            "knobs": {
                "scoring": {"setting": setting, **margin(0.0 if at else 12.3)},
                "distance": {"setting": "guard", **margin(0.0)},
                "store_threshold": {"setting": "threshold:2", **margin(-22.4)},
                "budget": {"setting": "2 times", **margin(22.4)},
            },
        }
        for at, (y, x) in enumerate((y, x) for y in ys for x in xs)
    ]
    return {
        "settings": {
            "workload": "generate:chat",
            "x": {"name": "think", "label": "time between turns, s"},
            "y": {"name": "budget", "label": "budget"},
            "paired_by": "seeds",
            "more": 2.0,
        },
        "x_values": list(xs),
        "y_values": list(ys),
        "cells": cells,
    }
