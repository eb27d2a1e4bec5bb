"""Confidence bounds of a gain, by resampling what is independent of each other.

Sessions are drawn with replacement, or, where sessions are not known, runs of
consecutive requests, which keep together neighbours that share prefixes. Chance is the
uniform stream of numpy's default generator: equal seeds give equal bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hotset.policies.arrays import Float64Array, Int64Array
from hotset.sim.noise import Groups

CONFIDENCE = 0.99
DRAWS = 2000
_AT_ONCE = 1 << 22  # numbers drawn at a time
_TTFT_SHARE = 0.95


@dataclass(frozen=True)
class Gain:
    """How much better one run is than another.

    Parameters
    ----------
    value : float
        As measured.
    lower, upper : float
        One-sided bounds, each with `CONFIDENCE`.
    """

    value: float
    lower: float
    upper: float


def gain_of_ratio(
    groups: Groups,
    weights: Float64Array,
    one: Float64Array,
    other: Float64Array,
    seed: int,
) -> Gain:
    """Return the gain of the ratio of summed values to summed weights.

    Parameters
    ----------
    groups : Groups
        Of the requests.
    weights, one, other : float64[R - first]
        By request: the denominator, and the values of the two runs.
    seed : int
        Seed.
    """
    more = np.bincount(groups.of_request, one - other)
    whole = np.bincount(groups.of_request, weights)
    value = float(more.sum() / whole.sum())
    if len(whole) < 2:
        return Gain(value, -1.0, 1.0)
    found = np.concatenate(
        [more[drawn].sum(axis=1) / whole[drawn].sum(axis=1)
         for drawn in _draws(len(whole), seed)]
    )  # fmt: skip
    return _bounds(value, found)


def gain_of_ttft(
    groups: Groups, one: Float64Array, other: Float64Array, seed: int
) -> Gain:
    """Return by what share the 95th percentile of one run is below that of another.

    Parameters
    ----------
    groups : Groups
        Of the requests.
    one, other : float64[R - first]
        By request, seconds.
    seed : int
        Seed.
    """
    orders = [np.argsort(values, kind="stable") for values in (one, other)]
    all_once = np.ones(len(groups.input_tokens))
    value = _faster(groups, orders, (one, other), all_once)
    if len(groups.input_tokens) < 2:
        return Gain(value, -1.0, 1.0)
    count = len(groups.input_tokens)
    found = [
        _faster(groups, orders, (one, other), np.bincount(each, minlength=count))
        for drawn in _draws(count, seed)
        for each in drawn
    ]
    return _bounds(value, np.array(found))


def _faster(
    groups: Groups,
    orders: list[Int64Array],
    runs: tuple[Float64Array, Float64Array],
    times: Float64Array,
) -> float:
    """Return the gain where each group counts a number of times."""
    of_request = times[groups.of_request]
    found = []
    for order, values in zip(orders, runs, strict=True):
        passed = np.cumsum(of_request[order])
        at = int(np.searchsorted(passed, _TTFT_SHARE * passed[-1]))
        found.append(float(values[order[min(at, len(order) - 1)]]))
    return (found[1] - found[0]) / found[1] if found[1] > 0 else 0.0


def _draws(count: int, seed: int) -> Iterator[Int64Array]:
    """Yield `DRAWS` samples of ``count`` group numbers, int64[n, G] at a time."""
    rng = np.random.default_rng([seed, count])
    at_once = max(min(_AT_ONCE // count, DRAWS), 1)
    sizes = [at_once] * (DRAWS // at_once)
    if DRAWS % at_once:
        sizes.append(DRAWS % at_once)
    for size in sizes:
        yield (rng.random((size, count)) * count).astype(np.int64)


def _bounds(value: float, found: Float64Array) -> Gain:
    lower, upper = np.quantile(found, [1 - CONFIDENCE, CONFIDENCE])
    return Gain(value, float(lower), float(upper))
