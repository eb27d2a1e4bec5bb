"""The shapes of the results that a page shows, by the command that writes them."""

from __future__ import annotations

from hotset.sim.page_shape import (
    Check,
    amount,
    anything,
    each,
    every,
    fields,
    number,
    one_of,
    optional,
    positive,
    ratio,
    text,
    truth,
    whole,
)

_ORIGIN = fields(path=text, sha256=text)
_COMMON: dict[str, Check] = {
    "settings": every(anything),
    "warnings": each(text),
    "provenance": fields({"hotset": text, "command": optional(text)}),
}
_KNOBS = ("scoring", "distance", "store_threshold", "budget")

_RUN = fields(
    {"hit_tokens": whole},
    policy=text,
    label=text,
    capacity_blocks=positive,
    token_hit_ratio=ratio,
    block_hit_ratio=ratio,
    stores=whole,
    evictions=whole,
)
_REPLAYED: dict[str, Check] = {
    "trace": fields(path=text, sha256=text, ceiling=fields(token_hit_ratio=ratio)),
    "runs": each(_RUN),
}
_CURVE = fields(
    knee_blocks=optional(whole),
    enough_for_percent=optional(every(optional(whole))),
    points=each(fields(capacity_blocks=positive, token_miss_ratio=ratio)),
)
_JUDGED = fields(
    {"label": optional(text)},
    role=text,
    gain=optional(fields(value=number, lower=number, upper=number)),
)
_TUNED: dict[str, Check] = {
    "verdict": text,
    "reason": text,
    "engine": every(anything),
    "cpu": fields({"blocks": optional(whole), "bytes": optional(whole)}),
    "search": fields(
        sampler=text,
        seed=whole,
        trials=whole,
        objectives=each(fields({"unit": text}, name=text), 1),
    ),
    "evidence": fields(confidence=ratio, objective=text, holdout=each(_JUDGED)),
    "provenance": fields(
        {"hotset": text, "command": optional(text)},
        trace=_ORIGIN,
    ),
}
_COMPARED: dict[str, Check] = {
    "traces": each(_ORIGIN, 1),
    "cells": each(
        fields(
            trace=whole,
            capacity=text,
            capacity_blocks=positive,
            verdict=optional(
                fields(
                    ours=text,
                    others=text,
                    outcome=text,
                    difference_points=number,
                    noise_floor_points=number,
                )
            ),
            rows=each(
                fields(
                    policy=text,
                    token_hit_ratio=ratio,
                    points_over_lru=number,
                    noise_floor_points=number,
                )
            ),
        )
    ),
}
_TIERS = ("gpu", "cpu", "ssd", "computed")
_OVER_TIME = fields(
    edges_s=each(number, 2), **{f"{tier}_tokens": each(whole) for tier in _TIERS}
)
_SSD = fields(
    read_bytes=whole, write_bytes=whole, writes_per_day_bytes=optional(amount)
)
_SIMULATED: dict[str, Check] = {
    "trace": _ORIGIN,
    "profile": fields(name=text),
    "runs": each(
        fields(
            {
                "over_time": _OVER_TIME,
                "bottleneck": optional(text),
                "ssd": optional(_SSD),
            },
            label=text,
            offered_load=optional(amount),
            ttft_s=fields(mean=amount, p95=amount),
            tokens=fields(input=whole, gpu_hit=whole, cpu_hit=whole, ssd_hit=whole),
            token_hit_ratio=ratio,
            saved_prefill_s=number,
            cpu=fields(load_bytes=whole, store_bytes=whole),
            cpu_blocks=whole,
        ),
        1,
    ),
}
_MARGIN: dict[str, Check] = {
    "tie": truth,
    "points_over_lru": number,
    "noise_points": number,
}
_AXIS = fields(name=text, label=text)
_MAP: dict[str, Check] = {
    "settings": fields(workload=text, x=_AXIS, y=_AXIS, paired_by=text, more=number),
    "x_values": each(text, 1),
    "y_values": each(text, 1),
    "cells": each(
        fields(
            x=text,
            y=text,
            winner=text,
            winner_policy=text,
            is_tie=truth,
            level=each(text),
            points_over_lru=number,
            noise_points=number,
            knob=one_of((*_KNOBS, None)),
            knobs=fields(
                **dict.fromkeys(_KNOBS, fields(setting=text, **_MARGIN)),
            ),
            sha256=each(text),
        ),
        1,
    ),
}
_SIZED: dict[str, Check] = {
    "layers": each(
        fields(
            {
                "rank_bytes_per_token": whole,
                "rank_bytes_per_state": whole,
                "window_tokens": optional(whole),
            },
            kind=text,
            count=whole,
            arithmetic=text,
        )
    ),
    "tp": positive,
    "copies": positive,
    "value_bytes": positive,
    "block_tokens": positive,
    "rank_bytes_per_token": whole,
    "rank_bytes_per_state": whole,
    "rank_bytes_per_block": whole,
    "bytes_per_block": whole,
    "tiers": each(
        fields(tier=text, bytes=whole, rank_bytes=whole, blocks=whole, tokens=whole), 1
    ),
}
_FITTED = fields(
    {"curve": each(fields(tokens=whole, token_hit_ratio=ratio))},
    path=text,
    sha256=text,
    ceiling_token_hit_ratio=optional(ratio),
    knee_tokens=optional(whole),
    lru=each(
        fields(
            {"money_per_saved_prefill_hour": optional(number)},
            tiers=each(text),
            token_hit_ratio=optional(ratio),
        )
    ),
)
_MODEL = fields(path=text, sha256=text, model_type=optional(text))

SHAPES: dict[str, Check] = {
    "replay": fields(_COMMON, **_REPLAYED),
    "mrc": fields(_COMMON, **_REPLAYED, lru_curve=_CURVE),
    "tune": fields({"warnings": each(text)}, **_TUNED),
    "compare": fields(_COMMON, **_COMPARED),
    "simulate": fields(_COMMON, **_SIMULATED),
    "regime-map": fields(
        {name: _COMMON[name] for name in ("warnings", "provenance")}, **_MAP
    ),
    "size": fields({**_COMMON, "trace": _FITTED, "model": _MODEL}, **_SIZED),
}
