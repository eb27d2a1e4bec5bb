"""Policies whose code may fail: the boundary that a server needs.

Beside the policy's order a plain LRU order of the same slots is kept. Should the
policy raise or choose impossible victims, that is logged once and counted, and from
then on the LRU order chooses. Slots stay consistent whatever the policy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.carry_over import CarryOver
from hotset.policies.failures import log_failure
from hotset.policies.linked import make_links
from hotset.policies.lru import LinksState
from hotset.policies.native import NativeCalls
from hotset.policies.slots import (
    EVICTED,
    FAULT,
    STORED,
    evict,
    give_back,
    make_slots,
    num_evictable,
    num_free,
    place,
    slots_clear,
    store,
)
from hotset.policies.verbs import (
    NO_LINKS,
    admit,
    kernels_of,
    on_finish,
    on_hit,
    on_ready,
    on_remove,
    reset,
    scores,
)


class Placed(NamedTuple):
    """Slots that a store took, and slots that were evicted for it."""

    taken: Int32Array
    victims: Int32Array


class _Bound:
    """A state, and the machine code of what is called with it."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.run = NativeCalls()
        self._kernels = kernels_of(state)

    def tell(self, verb: Callable[..., Any], *arguments: Any) -> None:
        """Call the state's kernel for a verb."""
        self.run(getattr(self._kernels, verb.__name__), self.state, *arguments)


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
    refuses : bool
        Whether the policy may leave out blocks that it is offered, and so evict
        fewer than it could.
    """

    def __init__(
        self, name: str, state: Any, capacity: int, refuses: bool = False
    ) -> None:
        self.slots = make_slots(capacity)
        self.num_faults = 0
        self.fallen_back = False
        self.run = NativeCalls()  # what is called with the slots alone
        self._name = name
        self._refuses = refuses
        self._links = _Bound(LinksState(links=make_links(capacity)))
        self._policy = _Bound(state)
        self._outcome = np.zeros(2, np.int64)
        # Another policy that is learning what is resident; the LRU order chooses then.
        self._next: _Bound | None = None
        self._carrying: CarryOver | None = None

    @property
    def state(self) -> Any:
        """The state of whatever chooses victims now."""
        return self._policy.state

    @property
    def is_changing(self) -> bool:
        """Whether another policy is learning what is resident."""
        return self._carrying is not None

    def call(self, verb: Callable[..., Any], *arguments: Any) -> None:
        """Tell the policy and the LRU order of an event."""
        if self._carrying is not None:
            self._tell_next(verb, arguments)
        self._links.tell(verb, *arguments)
        if self._policy is self._links:
            return
        try:
            self._policy.tell(verb, *arguments)
        except Exception as error:
            self.fail(error)

    def scores(self, slots: Int32Array, now: float) -> Float64Array:
        """Return the policy's worth of resident slots, 0 without a policy."""
        out = np.zeros(len(slots), np.float64)
        try:
            self._policy.tell(scores, slots, now, out)
        except Exception as error:
            self.fail(error)
        else:
            if not np.isnan(out).any():
                return out
            self.fail("it gave a score that is no number")
        return np.zeros(len(slots), np.float64)

    def remove(self, slots: Int32Array) -> None:
        """Free resident slots."""
        self.call(on_remove, slots)
        self.run(give_back, self.slots, slots)

    def reset(self) -> None:
        """Free every slot."""
        self.run(slots_clear, self.slots)
        self.call(reset)

    def num_free(self) -> int:
        """Return the number of free slots."""
        return int(self.run(num_free, self.slots))

    def num_evictable(self) -> int:
        """Return the number of resident slots that are not blocked."""
        return int(self.run(num_evictable, self.slots))

    def evict(self, n: int, now: float) -> Int32Array | None:
        """Evict exactly n unblocked slots, or None without any change."""
        victims, keys = np.empty(n, np.int32), np.empty(n, np.int64)
        free = self.num_free()
        for _attempt in range(2):
            try:
                found = self._policy.run(
                    evict,
                    self._policy.state,
                    self._second(),
                    self.slots,
                    n,
                    now,
                    victims,
                    keys,
                )
            except Exception as error:
                self.fail(error)
                if self.num_free() > free:  # only its last step failed
                    return victims
                continue
            if found == n:
                self._note_gone(victims)
                return victims
            if found != FAULT and not self._found_too_few(n):
                return None
            self.fail("it chose impossible victims")
        return None

    def announce(
        self, keys: Int64Array, depths: Int64Array, now: float, request: Float64Array
    ) -> None:
        """Tell the policy of missing keys that will be placed, wanted or not."""
        free, blocked = self.num_free(), self.slots.blocked
        try:
            self._policy.tell(admit, keys, depths, free, blocked, now, request)
        except Exception as error:
            self.fail(error)

    def place(
        self, keys: Int64Array, depths: Int64Array, now: float, request: Float64Array
    ) -> Int32Array:
        """Put missing keys into free slots, of which there must be enough."""
        taken = np.empty(len(keys), np.int32)
        free = self.num_free()
        for _attempt in range(2):
            try:
                self._policy.run(
                    place,
                    self._policy.state,
                    self._second(),
                    self.slots,
                    keys,
                    depths,
                    now,
                    request,
                    taken,
                )
                break
            except Exception as error:
                self.fail(error)
                if self.num_free() < free:  # slots and links hold the keys by now
                    break
        return taken

    def store(
        self,
        keys: Int64Array,
        depths: Int64Array,
        now: float,
        request: Float64Array,
        whole: bool = True,
    ) -> Placed | None:
        """Store missing keys that the policy admits; None where they do not fit.

        Without ``whole`` the longest prefix that fits is stored.
        """
        n = len(keys)
        taken, victims = np.empty(n, np.int32), np.empty(n, np.int32)
        victim_keys = np.empty(n, np.int64)
        outcome = self._outcome
        gone = 0  # evicted by an attempt that failed behind that
        for _attempt in range(2):
            outcome[:] = 0
            free = self.num_free()
            try:
                self._policy.run(
                    store,
                    self._policy.state,
                    self._second(),
                    self.slots,
                    keys,
                    depths,
                    now,
                    request,
                    whole,
                    taken,
                    victims[gone:],
                    victim_keys,
                    outcome,
                )
            except Exception as error:
                self.fail(error)
                if outcome[STORED] == 0:
                    gone += self.num_free() - free
                    continue
            stored, evicted = int(outcome[STORED]), gone + int(outcome[EVICTED])
            if stored >= 0:
                self._note_gone(victims[:evicted])
                return Placed(taken[:stored], victims[:evicted])
            if stored != FAULT and not self._found_too_few(n - free):
                break
            self.fail("it chose impossible victims or places")
        return Placed(taken[:0], victims[:gone]) if gone else None

    def replace(
        self,
        name: str,
        state: Any,
        refuses: bool,
        depths: Int32Array,
        now: float,
        age_unit: str,
    ) -> None:
        """Go on under another policy, which takes over what is resident.

        It does so slice by slice, see `carry_on`, in the LRU order; a small tier's in
        one. ``name``, ``state`` and ``refuses`` are those of the class, ``depths``,
        ``now`` and ``age_unit`` as in `CarryOver`.
        """
        self._name, self._refuses = name, refuses
        self._policy, self.fallen_back = self._links, False
        self._next = _Bound(state)
        self._carrying = CarryOver(
            self._next.tell,
            self.run,
            self._links.state.links,
            self.slots,
            depths,
            now,
            age_unit,
        )
        self.carry_on()

    def carry_on(self) -> None:
        """Tell the next policy of some more blocks; once it knows all, it chooses."""
        if self._carrying is None:
            return
        try:
            if self._carrying.go_on():
                self._change()
        except Exception as error:
            self.fail(error)

    def _change(self) -> None:
        assert self._next is not None
        self._policy, self._next, self._carrying = self._next, None, None

    def _tell_next(self, verb: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Let the next policy know of an event before the LRU order does."""
        assert self._next is not None and self._carrying is not None
        try:
            if verb is reset:
                self._next.tell(reset)
                self._change()
            elif verb in (on_hit, on_finish, on_remove):
                self._carrying.before(arguments[0])
            elif verb is on_ready:
                self._carrying.ready(arguments[0])
            if verb is on_remove:
                self._carrying.gone(arguments[0])
        except Exception as error:
            self.fail(error)

    def _note_gone(self, victims: Int32Array) -> None:
        if self._carrying is None:
            return
        try:
            self._carrying.gone(victims)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception | str) -> None:
        """Log and count a fault of the policy, and fall back."""
        self.num_faults += 1
        log_failure("policy", self._name, "going on with lru", error)
        self.fall_back()

    def fall_back(self) -> None:
        """Go on with the LRU order from now on."""
        self.fallen_back = True
        self._policy, self._next, self._carrying = self._links, None, None

    def _second(self) -> Any:
        return NO_LINKS if self._policy is self._links else self._links.state

    def _found_too_few(self, needed: int) -> bool:
        """Return whether there was enough to evict, and no leave to pass over it."""
        may_pass = self._refuses or self._policy is self._links
        return not may_pass and needed <= self.num_evictable()
