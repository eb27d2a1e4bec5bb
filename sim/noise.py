"""How large a difference between two policies may be by chance.

Two runs over one trace are paired: each session, or where sessions are not known each
of 50 blocks of consecutive requests, has its own difference in hit tokens. The noise
floor is twice the standard error of the ratio of their sum to the input tokens, at
most 0.5 points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int64Array
from hotset.traces.model import Trace

MOST_NOISE = 0.005
REQUEST_BLOCKS = 50


class Groups(NamedTuple):
    """The requests of the measuring window, by what is independent of each other."""

    kind: str  # "sessions" or "blocks of requests"
    of_request: Int64Array  # int64[R - first], 0 to G - 1
    input_tokens: Int64Array  # int64[G]


def make_groups(trace: Trace, first: int) -> Groups:
    """Group the requests from ``first`` on."""
    session = trace.session[first:]
    count = len(session)
    if (session >= 0).all():
        kind = "sessions"
        _, numbers = np.unique(session, return_inverse=True)
        of_request = numbers.astype(np.int64)
    else:
        kind = "blocks of requests"
        blocks = min(REQUEST_BLOCKS, count)
        of_request = np.arange(count, dtype=np.int64) * blocks // max(count, 1)
    return Groups(kind, of_request, _sums(of_request, trace.input_tokens[first:]))


def _sums(of_request: Int64Array, values: Int64Array) -> Int64Array:
    sums = np.zeros(int(of_request.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, of_request, values)
    return sums


def sum_by_group(groups: Groups, hit_tokens: Int64Array) -> Int64Array:
    """Return the hit tokens of each group, int64[G]."""
    return _sums(groups.of_request, hit_tokens)


def noise_floor(groups: Groups, one: Int64Array, other: Int64Array) -> float:
    """Return the noise floor of the difference of two runs, a share of the tokens.

    Parameters
    ----------
    groups : Groups
        The groups.
    one, other : int64[G]
        Hit tokens of each group in either run.
    """
    count = len(groups.input_tokens)
    if count < 2:
        return MOST_NOISE
    error = standard_error(groups.input_tokens.tolist(), (one - other).tolist())
    return min(2 * error, MOST_NOISE)


def standard_error(tokens: Sequence[int], gains: Sequence[int]) -> float:
    """Return the standard error of sum of gains over sum of tokens.

    Whole numbers of any size: equal on every machine, whatever the order.

    Parameters
    ----------
    tokens, gains : sequence of int
        By group, two groups or more.
    """
    count = len(tokens)
    all_tokens, all_gains = sum(tokens), sum(gains)
    spread = sum(
        (gain * all_tokens - all_gains * part) ** 2
        for gain, part in zip(gains, tokens, strict=True)
    )
    return math.sqrt(count * spread / ((count - 1) * all_tokens**4))
