"""A budget of written bytes: in any 24 hours no more than so many."""

from __future__ import annotations

_DAY_S = 86_400.0
_BURST = 1 / 24  # of a day's budget, at once


def at_once(bytes_a_day: int) -> float:
    """Return the bytes of a day's budget that may be written at once."""
    return bytes_a_day * _BURST


class WriteBudget:
    """A bucket that holds an hour's share and is filled with the rest over a day.

    Parameters
    ----------
    bytes_a_day : int
        The budget; 0 for none.
    now_s : float
        Seconds by the caller's clock.
    """

    def __init__(self, bytes_a_day: int, now_s: float) -> None:
        self._burst = at_once(bytes_a_day)
        self._rate = bytes_a_day * (1 - _BURST) / _DAY_S
        self.level = self._burst
        self._now_s = now_s
        self._is_limited = bytes_a_day > 0

    def restore(self, level: float, away_s: float) -> None:
        """Go on from a level that was left some time ago."""
        filled = level + max(0.0, away_s) * self._rate
        self.level = min(self._burst, max(0.0, filled))

    def affords(self, size: int, now_s: float) -> int:
        """Return how many writes of a size are in the budget now."""
        if not self._is_limited:
            return 1 << 40
        passed = max(0.0, now_s - self._now_s)
        self._now_s = max(self._now_s, now_s)
        self.level = min(self._burst, self.level + passed * self._rate)
        return int(self.level // size)

    def spend(self, size: int) -> None:
        """Take written bytes from the budget."""
        if self._is_limited:
            self.level -= size
