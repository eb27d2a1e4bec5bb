"""A level over time, integrated: how much was taken, and for how long."""

from __future__ import annotations

import simpy


class Meter:
    """Integrates a level over simulated time.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    """

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._level = 0.0
        self._since_s = env.now
        self._sum_s = 0.0

    @property
    def total_s(self) -> float:
        """The integral up to now, in level times seconds."""
        return self._sum_s + self._level * (self._env.now - self._since_s)

    def set(self, level: float) -> None:
        """Change the level from now on."""
        if level == self._level:
            return
        now_s = self._env.now
        self._sum_s += self._level * (now_s - self._since_s)
        self._since_s = now_s
        self._level = level

    def add(self, change: float) -> None:
        """Raise the level, or lower it."""
        self.set(self._level + change)
