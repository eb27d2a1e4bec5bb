"""How soon blocks of a class are used again, learned from traffic.

For each class the model holds how many blocks entered it (by a use) and at which age
they were used again, both fading with a half-life. From these follows what a block of
an age is worth: the most hits that it can be expected to bring for each request that
it is kept through,

    worth(age) = max over T > age of  P(used in (age, T]) / E[time kept until T]

given that it was not used up to ``age``: the index of an optimal stopping problem
(Gittins, J. R. Stat. Soc. B 41(2), 1979). Where reuse needs a while, an old block can
be worth more than a new one, which no recency order can say; where it only fades, the
order is that of recency.

The maximum over all T is found by merging neighbouring age buckets while the later one
has the higher ratio: O(B) a class.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array
from hotset.policies.jit import inlined

NUM_BUCKETS = 64
_GROWTH = 1.25
_SMALL = 4096
# Blocks that are added to each class as never used again, so that a few early reuses
# are not taken for a certainty.
_DOUBT = 10.0
# Worth is rounded, so that sums in another order still tie.
_GRAIN = 2.0**40


class Ages(NamedTuple):
    """Buckets of age: one request wide at first, then growing by a quarter."""

    edge: Float64Array  # float64[B + 1], bucket b holds edge[b] <= age < edge[b + 1]
    small: Int32Array  # int32[4096], bucket of each whole age


class ReuseModel(NamedTuple):
    """Fading counts of K classes."""

    entered: Float64Array  # float64[K], blocks that entered the class
    reused: Float64Array  # float64[K, B], of these, used again at an age
    hits: Float64Array  # float64[B], scratch
    time: Float64Array  # float64[B], scratch
    end: Int32Array  # int32[B], scratch


def make_ages() -> Ages:
    """Return the buckets; the last one takes all greater ages."""
    edge = [0.0, 1.0, 2.0, 3.0, 4.0]
    while len(edge) < NUM_BUCKETS + 1:
        edge.append(max(edge[-1] + 1, float(int(edge[-1] * _GROWTH))))
    edges = np.array(edge)
    small = np.searchsorted(edges, np.arange(_SMALL), side="right") - 1
    return Ages(edge=edges, small=small.astype(np.int32))


def make_reuse_model(num_classes: int) -> ReuseModel:
    """Return a model that knows nothing."""
    return ReuseModel(
        entered=np.zeros(num_classes, np.float64),
        reused=np.zeros((num_classes, NUM_BUCKETS), np.float64),
        hits=np.zeros(NUM_BUCKETS, np.float64),
        time=np.zeros(NUM_BUCKETS, np.float64),
        end=np.zeros(NUM_BUCKETS, np.int32),
    )


@inlined
def age_bucket(ages: Ages, age: float) -> int:
    """Return the bucket of an age of 0 or more."""
    if age < _SMALL:
        return ages.small[int(age)]
    bucket = ages.small[_SMALL - 1]
    while bucket < NUM_BUCKETS - 1 and age >= ages.edge[bucket + 1]:
        bucket += 1
    return bucket


@inlined
def model_fade(model: ReuseModel, factor: float) -> None:
    """Make all that was learned weigh less."""
    for k in range(model.entered.shape[0]):
        model.entered[k] *= factor
        for b in range(NUM_BUCKETS):
            model.reused[k, b] *= factor


@inlined
def model_worth(model: ReuseModel, ages: Ages, table: Float64Array) -> None:
    """Write the worth of each class and age bucket to ``table``."""
    hits, time, end = model.hits, model.time, model.end
    for k in range(model.entered.shape[0]):
        left = model.entered[k] + _DOUBT
        for b in range(NUM_BUCKETS):
            hits[b] = model.reused[k, b]
            after = max(left - hits[b], 0.0)
            time[b] = (ages.edge[b + 1] - ages.edge[b]) * (left + after) / 2.0
            left = after
        for b in range(NUM_BUCKETS - 1, -1, -1):
            end[b] = b + 1
            while end[b] < NUM_BUCKETS and _is_better(hits, time, end[b], b):
                following = end[b]
                hits[b] += hits[following]
                time[b] += time[following]
                end[b] = end[following]
            ratio = hits[b] / time[b] if time[b] > 0.0 else 0.0
            table[k, b] = np.floor(ratio * _GRAIN + 0.5) / _GRAIN


@inlined
def _is_better(hits: Float64Array, time: Float64Array, a: int, b: int) -> bool:
    """Return whether bucket a brings more hits for its time than bucket b."""
    return bool(hits[a] * time[b] > hits[b] * time[a])
