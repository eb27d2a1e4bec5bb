"""The terms of a log-linear worth that depend on whole numbers: depth and count.

    - depth_weight * ln(depth + 1)        and        reuse_weight * ln r(count)

with r(n) = n, ln(1 + n) or 1. Logarithms of small numbers are tabulated.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int64Array
from hotset.policies.jit import inlined

REUSE = ("none", "linear", "log")
_NONE, _LINEAR, _LOG = range(3)
_DEPTHS = 4096
_COUNTS = 1024


class LogTerms(NamedTuple):
    """Terms by depth and by count, and what they are made of."""

    by_depth: Float64Array  # float64[4096]
    by_count: Float64Array  # float64[1024]
    weights: Float64Array  # float64[2]: of depth, of reuse
    mode: Int64Array  # int64[1], place in `REUSE`


def make_log_terms(
    reuse: str, reuse_weight: float = 1.0, depth_weight: float = 1.0
) -> LogTerms:
    """Return the terms for a form of reuse and two weights."""
    return LogTerms(
        by_depth=depth_weight * _logs()[0],
        by_count=reuse_weight * _logs()[1 + REUSE.index(reuse)],
        weights=np.array([depth_weight, reuse_weight]),
        mode=np.array([REUSE.index(reuse)], np.int64),
    )


def spread(
    capacity: int, depth_weight: float, reuse_weight: float, loss: float
) -> float:
    """Return how far apart the worths of residents are, about.

    Depths go into the thousands, counts into the hundreds, and ages, of which each
    request takes ``loss``, into a sixteenth of the capacity.
    """
    return 8.0 * depth_weight + 6.0 * reuse_weight + loss * capacity / 16.0


@functools.cache
def _logs() -> list[Float64Array]:
    """Return logarithms by depth, and those of each form of reuse by count."""
    counts = range(1, _COUNTS)
    return [
        np.array([math.log(depth + 1.0) for depth in range(_DEPTHS)]),
        np.zeros(_COUNTS),
        np.array([0.0] + [math.log(n) for n in counts]),
        np.array([0.0] + [math.log(math.log1p(n)) for n in counts]),
    ]


@inlined
def depth_term(terms: LogTerms, depth: int) -> float:
    """Return what is subtracted for a depth of 0 or more."""
    if depth < _DEPTHS:
        return terms.by_depth[depth]
    return terms.weights[0] * math.log(depth + 1.0)


@inlined
def count_term(terms: LogTerms, count: int) -> float:
    """Return what is added for a count of 1 or more."""
    if count < _COUNTS:
        return terms.by_count[count]
    if terms.mode[0] == _LINEAR:
        return terms.weights[1] * math.log(float(count))
    if terms.mode[0] == _LOG:
        return terms.weights[1] * math.log(math.log1p(float(count)))
    return 0.0
