"""Lets the reading threads have Python's lock while an engine only waits for them.

An engine that has nothing to do but wait for a promotion, in a process that drives it
in a loop of its own, takes steps so fast that the threads which read never get Python's
lock: it releases the lock and has it back before they are awake. vLLM's own engine
process sleeps after such a step; nobody else does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SHORT_S, _PAUSE_S = 0.001, 0.0001


class ShortSteps:
    """Pauses at the end of a short step in which reads are waited for.

    Parameters
    ----------
    clock : callable, optional
        Seconds by a clock that nobody sets.
    sleep : callable, optional
        Takes the seconds of a pause.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._ended_s: float | None = None

    def end_step(self, is_waiting: bool) -> None:
        """Note that a step has ended, with reads under way or not."""
        ended_s = self._ended_s
        if is_waiting and ended_s is not None and self._clock() - ended_s < _SHORT_S:
            self._sleep(_PAUSE_S)
        self._ended_s = self._clock()
