"""Watching the policy file, and handing over what is new in it.

A thread of its own looks at the file every so many seconds. It reads a new one,
compiles what it needs, and leaves it for the scheduler thread to pick up. A wrong one
is refused with one line, and what runs goes on.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter, deque
from collections.abc import Callable

from hotset.adapter.choice import read_admission, read_policy
from hotset.adapter.tuned_file import read_tuned
from hotset.policies.choice import Choice
from hotset.policies.errors import PolicyError

_LOG = logging.getLogger(__name__)

APPLIED, REFUSED = "applied", "refused"
_CLOSE_S = 1.0


def read_policy_file(path: str) -> tuple[Choice, str]:
    """Return what a file of `hotset tune` has to run, and its verdict.

    Raises
    ------
    PolicyError
        Names everything that is wrong, one fault a line.
    """
    tuned = read_tuned(path)
    faults: list[str] = []
    policy, admission = tuned.chosen
    made = read_policy(policy, f'{path}: "policy"', faults)
    rule = read_admission(admission, f'{path}: "admission"', faults)
    if made is None or rule is None:
        raise PolicyError("\n".join(faults))
    return Choice(*made, *rule), tuned.verdict


class PolicyWatcher:
    """Watches a policy file until it is closed.

    Parameters
    ----------
    path : str
        The file.
    every_s : float
        Seconds between two looks.
    current : Choice
        What runs.
    prepare : callable
        Takes a choice and compiles what it needs; what it raises refuses the file.
    log : Logger, optional
        Where lines go.

    Attributes
    ----------
    counts : Counter
        Files by what became of them.
    """

    def __init__(
        self,
        path: str,
        every_s: float,
        current: Choice,
        prepare: Callable[[Choice], None],
        log: logging.Logger = _LOG,
    ) -> None:
        # All are there from the start: one thread counts while another reads.
        self.counts: Counter[str] = Counter({APPLIED: 0, REFUSED: 0})
        self._path = path
        self._every_s = every_s
        self._current = current
        self._prepare = prepare
        self._log = log
        self._seen: object = None
        self._ready: deque[Choice] = deque(maxlen=1)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(
            target=self._look_again, name="hotset-policy-file", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Look no more; may be called again."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_CLOSE_S)

    def take(self) -> Choice | None:
        """Return what is to run from now on, once; None where nothing changes."""
        return self._ready.pop() if self._ready else None

    def look(self) -> None:
        """Look at the file; a new one is made ready or refused."""
        signature = _signature(self._path)
        if signature == self._seen:
            return
        self._seen = signature
        try:
            choice, verdict = read_policy_file(self._path)
            if _signature(self._path) != signature:
                self._seen = None  # written while it was read: once more next time
                return
            if choice == self._current:
                return
            self._prepare(choice)
        except Exception as error:
            self.counts[REFUSED] += 1
            what = "; ".join(str(error).splitlines())
            self._log.error("hotset: the policy stays as it is: %s", what)
            return
        self._current = choice
        self._ready.append(choice)
        self._log.info(
            "hotset: %s: verdict %s, %s", self._path, verdict, choice.describe()
        )

    def _look_again(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self.look()
            except Exception as error:
                self._log.error("hotset: %s is not watched: %r", self._path, error)
                return


def _signature(path: str) -> object:
    """Return what changes when a file does; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return "nothing there"
    return found.st_mtime_ns, found.st_size, found.st_ino
