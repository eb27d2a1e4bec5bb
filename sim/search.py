"""A small search over a policy's parameters: seeded, sequential, nothing to install.

The defaults come first. Then each trial changes some parameters of the best setting so
far, or, every fourth time, of the defaults: a new value from the whole range, or one
nearby. Equal seeds give equal settings, on any machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hotset.policies.base import Params, PolicySpec, Spec

Field = dataclasses.Field[Any]

_WIDE = 100  # a range over two orders of magnitude is searched by its logarithm
_SMALLEST_SHARE = 1e-6  # of a range from 0, where its logarithms begin
_ZERO_SHARE = 0.125  # of the draws from such a range that are 0 itself
_NEARBY = 0.15
_RESTART_EVERY = 4


def tuned_fields(spec: Spec) -> list[Field]:
    """Return what a search may change: choices, flags and bounded numbers."""
    return [
        field
        for field in dataclasses.fields(spec.params)
        if field.metadata["tuned"] and _is_bounded(field)
    ]


def _is_bounded(field: Field) -> bool:
    meta = field.metadata
    if isinstance(field.default, bool):
        return True
    if isinstance(field.default, str):
        return meta["choices"] is not None
    return meta["low"] is not None and meta["high"] is not None


def search(
    spec: PolicySpec,
    score: Callable[[Params], int],
    trials: int,
    rng: np.random.Generator,
) -> Params:
    """Return the parameters of the highest score; of equal ones the first tried.

    Parameters
    ----------
    spec : PolicySpec
        The policy; without parameters to change its defaults are returned.
    score : callable
        Judges parameters, higher is better.
    trials : int
        Settings to try, the defaults included; one met twice is judged once.
    rng : numpy.random.Generator
        Where chance comes from.
    """
    default = spec.params()
    fields = tuned_fields(spec)
    if not fields or trials < 2:
        return default
    scores = {default: score(default)}
    best = default
    for trial in range(1, trials):
        afresh = trial % _RESTART_EVERY == 0
        params = _changed(default if afresh else best, fields, afresh, rng)
        if params not in scores:
            scores[params] = score(params)
        if scores[params] > scores[best]:
            best = params
    return best


def _changed(
    origin: Params, fields: list[Field], afresh: bool, rng: np.random.Generator
) -> Params:
    """Return parameters with some values changed, on average half of them or two."""
    share = 0.5 if afresh else min(2 / len(fields), 1.0)
    chosen = [field for field in fields if rng.random() < share]
    if not chosen:
        chosen = [fields[int(rng.random() * len(fields))]]
    values = {}
    for field in chosen:
        near = not afresh and rng.random() < 0.5
        values[field.name] = _value(field, getattr(origin, field.name), near, rng)
    return dataclasses.replace(origin, **values)


def _value(field: Field, value: Any, near: bool, rng: np.random.Generator) -> Any:
    """Return a new value of a parameter."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        choices = field.metadata["choices"]
        return choices[int(rng.random() * len(choices))]
    low, high = float(field.metadata["low"]), float(field.metadata["high"])
    least = least_logarithm(field, low, high)
    if least is not None and low == 0 and not near and rng.random() < _ZERO_SHARE:
        return 0 if isinstance(value, int) else 0.0
    bottom, top = (low, high) if least is None else (math.log(least), math.log(high))
    at = rng.random()
    if near:
        now = value if least is None else math.log(max(value, least))
        at = (now - bottom) / (top - bottom) + _NEARBY * (2 * at - 1)
    found = bottom + min(max(at, 0.0), 1.0) * (top - bottom)
    found = min(max(found if least is None else math.exp(found), low), high)
    if isinstance(value, int):
        return round(found)
    return min(max(float(f"{found:.3g}"), low), high)


def least_logarithm(field: Field, low: float, high: float) -> float | None:
    """Return where a range's logarithms begin, None where it is searched evenly."""
    if low < 0 or not (field.metadata["log"] or high >= _WIDE * max(low, 1.0)):
        return None
    if low > 0:
        return low
    return 1.0 if isinstance(field.default, int) else high * _SMALLEST_SHARE
