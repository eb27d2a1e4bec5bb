"""Random values of several distributions from one seeded uniform stream."""

import math
from bisect import bisect_right
from itertools import accumulate
from statistics import NormalDist

import numpy as np

_BATCH = 4096
_NORMAL = NormalDist()
_LEAST = 2.0**-53


class Draws:
    """Draws from a seeded stream; each takes exactly one uniform value.

    Parameters
    ----------
    seed : int
        0 or more.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._batch: list[float] = []

    def uniform(self) -> float:
        """Uniform value.

        Returns
        -------
        float
            In [0, 1).
        """
        if not self._batch:
            self._batch = self._rng.random(_BATCH).tolist()
            self._batch.reverse()
        return self._batch.pop()

    def below(self, limit: int) -> int:
        """Uniform integer.

        Parameters
        ----------
        limit : int
            1 or more.

        Returns
        -------
        int
            In [0, limit).
        """
        return int(self.uniform() * limit)

    def exponential(self, mean: float) -> float:
        """Exponential value.

        Parameters
        ----------
        mean : float
            Above 0.

        Returns
        -------
        float
            0 or more, in the unit of the mean.
        """
        return -math.log1p(-self.uniform()) * mean

    def log_normal(self, median: float, spread: float) -> int:
        """Log-normal whole number.

        Parameters
        ----------
        median : float
            Above 0.
        spread : float
            Standard deviation of the logarithm.

        Returns
        -------
        int
            1 or more.
        """
        normal = _NORMAL.inv_cdf(max(self.uniform(), _LEAST))
        return max(1, round(median * math.exp(spread * normal)))

    def geometric(self, mean: float) -> int:
        """Geometric number of trials.

        Parameters
        ----------
        mean : float
            At least 1 (less counts as 1).

        Returns
        -------
        int
            1 or more.
        """
        value = self.uniform()
        if mean <= 1.0:
            return 1
        return 1 + int(math.log1p(-value) / math.log1p(-1.0 / mean))

    def ranked(self, cumulative: list[float]) -> int:
        """Rank drawn by weight.

        Parameters
        ----------
        cumulative : list of float
            Running sums of the weights, from `zipf_weights`.

        Returns
        -------
        int
            0-based rank.
        """
        rank = bisect_right(cumulative, self.uniform() * cumulative[-1])
        return min(rank, len(cumulative) - 1)


def zipf_weights(count: int, exponent: float) -> list[float]:
    """Cumulative sums of Zipf's weights.

    Parameters
    ----------
    count : int
        Ranks.
    exponent : float
        Weight of rank k (from 1) is k ** -exponent.

    Returns
    -------
    list of float
        One per rank.
    """
    return list(accumulate(rank**-exponent for rank in range(1, count + 1)))
