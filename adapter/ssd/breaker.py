"""Breakers: a disk that fails or crawls is left alone, and tried again by itself."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_LOG = logging.getLogger(__name__)

_WINDOW = 16  # transfers that are remembered
_IN_A_ROW, _IN_WINDOW = 3, 8  # failures that open it
_FIRST_S, _LONGEST_S = 1.0, 60.0


class Breaker:
    """Opens on failures; closes when a trial after a growing pause goes well.

    Parameters
    ----------
    name : str
        What it guards, for the log.
    clock : callable
        Seconds.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.name = name
        self.is_open = False
        self.num_openings = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[bool] = deque(maxlen=_WINDOW)
        self._in_a_row = 0
        self._pause_s = _FIRST_S
        self._trial_s = 0.0

    def note(self, went_well: bool, why: str = "") -> None:
        """Note how a transfer went."""
        with self._lock:
            self._recent.append(went_well)
            self._in_a_row = 0 if went_well else self._in_a_row + 1
            failures = self._recent.count(False)
            if self.is_open or went_well:
                return
            if self._in_a_row >= _IN_A_ROW or failures >= _IN_WINDOW:
                self._open(why)

    def open_now(self, why: str) -> None:
        """Open at a failure that will not go away by itself."""
        with self._lock:
            if not self.is_open:
                self._open(why)

    def wants_trial(self) -> bool:
        """Return whether it is open and has been for long enough to try."""
        return self.is_open and self._clock() >= self._trial_s

    def note_trial(self, went_well: bool) -> None:
        """Note how a trial went: it closes, or waits for longer."""
        with self._lock:
            if went_well:
                self.is_open = False
                self._recent.clear()
                self._in_a_row = 0
                self._pause_s = _FIRST_S
                _LOG.warning("hotset: %s of the SSD tier go on", self.name)
                return
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
            self._trial_s = self._clock() + self._pause_s

    def _open(self, why: str) -> None:
        self.is_open = True
        self.num_openings += 1
        self._trial_s = self._clock() + self._pause_s
        _LOG.warning("hotset: %s of the SSD tier pause: %s", self.name, why)
