"""Slots under a policy whose code may fail: the boundary that a server needs.

Beside the policy's order a plain LRU order of the same slots is kept. Should the
policy raise or choose impossible victims, that is logged once and counted, and from
then on the LRU order chooses. Slots stay consistent whatever the policy does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.linked import make_links
from hotset.policies.lru import LinksState
from hotset.policies.slots import (
    EVICTED,
    FAULT,
    STORED,
    evict,
    give_back,
    make_slots,
    num_free,
    place,
    slots_clear,
    store,
)
from hotset.policies.verbs import NO_LINKS, admit, on_remove, reset

_LOG = logging.getLogger(__name__)


class Placed(NamedTuple):
    """Slots that a store took, and slots that were evicted for it."""

    taken: Int32Array
    victims: Int32Array


class GuardedPolicy:
    """A policy's state and its slots, with LRU to fall back on.

    Parameters
    ----------
    name : str
        The policy's name, for the log.
    state : NamedTuple
        The policy's state for ``capacity`` slots.
    capacity : int
        Number of slots.
    """

    def __init__(self, name: str, state: Any, capacity: int) -> None:
        self.slots = make_slots(capacity)
        self.num_faults = 0
        self.fallen_back = False
        self._name = name
        self._state = state
        self._links = LinksState(links=make_links(capacity))
        self._outcome = np.zeros(2, np.int64)

    @property
    def state(self) -> Any:
        """The state of whatever chooses victims now."""
        return self._state

    def call(self, verb: Callable[..., Any], *arguments: Any) -> None:
        """Tell the policy and the LRU order of an event."""
        if not self.fallen_back:
            verb(self._links, *arguments)
        self._tell(verb, *arguments)

    def remove(self, slots: Int32Array) -> None:
        """Free resident slots."""
        self.call(on_remove, slots)
        give_back(self.slots, slots)

    def reset(self) -> None:
        """Free every slot."""
        slots_clear(self.slots)
        self.call(reset)

    def evict(self, n: int, now: float) -> Int32Array | None:
        """Evict exactly n unblocked slots, or None without any change."""
        victims, keys = np.empty(n, np.int32), np.empty(n, np.int64)
        free = int(num_free(self.slots))
        for _attempt in range(2):
            try:
                found = evict(
                    self._state, self._second(), self.slots, n, now, victims, keys
                )
            except Exception as error:
                self._fall_back(error)
                if int(num_free(self.slots)) > free:  # only its last step failed
                    return victims
                continue
            if found == FAULT:
                self._fall_back("it chose impossible victims")
                continue
            return victims if found == n else None
        return None

    def announce(
        self, keys: Int64Array, depths: Int64Array, now: float, request: Float64Array
    ) -> None:
        """Tell the policy of missing keys that will be placed, wanted or not."""
        try:
            admit(
                self._state,
                keys,
                depths,
                int(num_free(self.slots)),
                self.slots.blocked,
                now,
                request,
            )
        except Exception as error:
            self._fall_back(error)

    def place(
        self, keys: Int64Array, depths: Int64Array, now: float, request: Float64Array
    ) -> Int32Array:
        """Put missing keys into free slots, of which there must be enough."""
        taken = np.empty(len(keys), np.int32)
        try:
            place(
                self._state,
                self._second(),
                self.slots,
                keys,
                depths,
                now,
                request,
                taken,
            )
        except Exception as error:
            # Slots and links come first, so they hold the keys by now.
            self._fall_back(error)
        return taken

    def store(
        self, keys: Int64Array, depths: Int64Array, now: float, request: Float64Array
    ) -> Placed | None:
        """Store missing keys that the policy admits; None where they do not fit."""
        n = len(keys)
        taken, victims = np.empty(n, np.int32), np.empty(n, np.int32)
        victim_keys = np.empty(n, np.int64)
        outcome = self._outcome
        gone = 0  # evicted by an attempt that failed behind that
        for _attempt in range(2):
            outcome[:] = 0
            free = int(num_free(self.slots))
            try:
                store(
                    self._state,
                    self._second(),
                    self.slots,
                    keys,
                    depths,
                    now,
                    request,
                    True,
                    taken,
                    victims[gone:],
                    victim_keys,
                    outcome,
                )
            except Exception as error:
                self._fall_back(error)
                if outcome[STORED] == 0:
                    gone += int(num_free(self.slots)) - free
                    continue
            if outcome[STORED] == FAULT:
                self._fall_back("it chose impossible victims")
                continue
            if outcome[STORED] >= 0:
                stored, evicted = int(outcome[STORED]), gone + int(outcome[EVICTED])
                return Placed(taken[:stored], victims[:evicted])
            break
        return Placed(taken[:0], victims[:gone]) if gone else None

    def fall_back(self) -> None:
        """Go on with the LRU order from now on."""
        self.fallen_back = True
        self._state = self._links

    def _second(self) -> Any:
        return NO_LINKS if self.fallen_back else self._links

    def _tell(self, verb: Callable[..., Any], *arguments: Any) -> None:
        try:
            verb(self._state, *arguments)
        except Exception as error:
            self._fall_back(error)

    def _fall_back(self, error: Exception | str) -> None:
        self.num_faults += 1
        if not self.fallen_back:
            cause = error if isinstance(error, Exception) else None
            _LOG.error(
                "policy %s failed, going on with lru: %s",
                self._name,
                error,
                exc_info=cause,
            )
        self.fall_back()
