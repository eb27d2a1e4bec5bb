"""What the simulated processes share: the end of an instant, and the way to sleep.

Events of one moment are ordered by priority, then by their insertion. A step of the
engine ends behind everything else that happens at that moment, so that a transfer of no
duration is over when the step that started it is.
"""

from __future__ import annotations

import simpy
from simpy.events import EventPriority

_LAST = EventPriority(2)  # behind SimPy's URGENT (0) and NORMAL (1)


class EndOfInstant(simpy.Event):
    """An event ``delay_s`` from now, behind all others of that moment."""

    def __init__(self, env: simpy.Environment, delay_s: float = 0.0) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, _LAST, delay_s)


class Bell:
    """Wakes the one process that waits for something to happen."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._rung: simpy.Event | None = None

    def wait(self) -> simpy.Event:
        """Return an event that the next `ring` sets off."""
        self._rung = self._env.event()
        return self._rung

    def ring(self) -> None:
        """Wake the process, if it waits."""
        if self._rung is not None:
            self._rung.succeed()
            self._rung = None
