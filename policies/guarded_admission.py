"""Admission rules whose code may fail: a rule that fails is left out from then on."""

from __future__ import annotations

from typing import Any

from hotset.policies.admission import AlwaysState, admission_kernels
from hotset.policies.arrays import Int64Array
from hotset.policies.failures import log_failure
from hotset.policies.native import NativeCalls


class GuardedAdmission:
    """An admission rule's state; a rule that fails is left out from then on.

    Parameters
    ----------
    name : str
        The rule's name, for the log.
    state : NamedTuple
        The rule's state.
    """

    def __init__(self, name: str, state: Any) -> None:
        self.num_faults = 0
        self._name = name
        self._state = state
        self._kernels = admission_kernels(state)
        self._run = NativeCalls()
        self._admits_all = isinstance(state, AlwaysState)

    def on_lookup(self, folded: Int64Array) -> None:
        """Note keys that were looked up, the first miss included."""
        self._note("on_lookup", folded)

    def on_offer(self, folded: Int64Array) -> None:
        """Note keys that were offered for storing, resident ones included."""
        self._note("on_offer", folded)

    def keep(self, folded: Int64Array, places: Int64Array) -> Int64Array:
        """Return those places of missing keys that may be stored, in order."""
        if self._admits_all:
            return places
        keys, kept = folded[places], places.copy()
        try:
            n = self._run(self._kernels["keep"], self._state, keys, kept, len(kept))
        except Exception as error:
            self._fail(error)
            return places
        if not 0 <= n <= len(places):
            self._fail(f"it kept {n} of {len(places)} blocks")
            return places
        return kept[:n]

    def _note(self, name: str, folded: Int64Array) -> None:
        if self._admits_all:
            return
        try:
            self._run(self._kernels[name], self._state, folded)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception | str) -> None:
        self.num_faults += 1
        self._admits_all = True
        log_failure("admission", self._name, "going on without", error)
