"""Residents of a tier, told to another policy that takes over.

The new policy hears of them as of requests that store their blocks one after another,
from the one used longest ago to the one used last: their depths and the order of their
uses are kept, how often they were used and who stored them is not. Blocks that are next
to each other in that order, tail to head, count as one request; so that a large tier
takes no more than some calls, several such may be put together.

A large tier is told of slice by slice, while it goes on under its own LRU order. What
is used meanwhile moves to the newest end of that order, so everything that is older
than the last block told of is told of and unused since. A block that was told of and
used again is told of once more, as used, when its new place is reached. So the policy
hears of all in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import kernel
from hotset.policies.linked import NEWER, OLDER
from hotset.policies.request import Request
from hotset.policies.slots import Slots
from hotset.policies.verbs import (
    on_finish,
    on_hit,
    on_insert,
    on_ready,
    on_remove,
    on_request,
)

SLICE_BLOCKS = 2048
SLICE_BATCHES = 64
_REQUESTS = 1024.0  # that all residents count for at the most, for their ages

_UNKNOWN, _TOLD, _USED_SINCE = 0, 1, 2


@kernel
def _next_newer(links: Int32Array, sentinel: int, last: int, out: Int32Array) -> int:
    """Write the slots that are newer than one to ``out``, the oldest first."""
    found = 0
    slot = links[last, NEWER]
    while slot != sentinel and found < out.shape[0]:
        out[found] = slot
        found += 1
        slot = links[slot, NEWER]
    return found


@kernel
def _step_back(links: Int32Array, sentinel: int, known: Int32Array, last: int) -> int:
    """Return the newest slot from one on to the older that was told of and stays."""
    while last != sentinel and known[last] != _TOLD:
        last = links[last, OLDER]
    return last


@kernel
def _step_forward(links: Int32Array, sentinel: int, known: Int32Array) -> int:
    """Return the last of the oldest slots that were told of, or the sentinel."""
    last = sentinel
    while known[links[last, NEWER]] == _TOLD and links[last, NEWER] != sentinel:
        last = links[last, NEWER]
    return last


class CarryOver:
    """One policy's way of learning what is resident.

    Parameters
    ----------
    tell : callable
        Calls the new policy's kernel for a verb.
    run : callable
        Calls a kernel by its machine code.
    links : int32[C + 1, 2]
        The tier's own LRU order.
    slots : Slots
        What is resident, and what is in use.
    depths : int32[C]
        Places of blocks in their requests, by slot.
    now : float
        The policy's clock at the start.
    age_unit : str
        What it counts.
    """

    def __init__(
        self,
        tell: Callable[..., None],
        run: Callable[..., Any],
        links: Int32Array,
        slots: Slots,
        depths: Int32Array,
        now: float,
        age_unit: str,
    ) -> None:
        capacity = len(slots.key)
        self._tell, self._run = tell, run
        self._links, self._slots, self._depths = links, slots, depths
        self._sentinel = self._last = capacity
        self._known = np.zeros(capacity + 1, np.int32)
        self._out = np.empty(SLICE_BLOCKS, np.int32)
        self._now = float(now)
        self._is_timeless = age_unit == "second"
        # Called now as well, so that they are compiled before they are needed.
        self._step_back()
        self._step_forward()
        # Ages of what is resident at the start: a key, or a share of a request each.
        ahead = int(slots.numbers[0])
        self._age = 1.0 if age_unit == "key" else min(1.0, _REQUESTS / max(ahead, 1))
        self._ahead = ahead * self._age

    def before(self, slots: Int32Array) -> None:
        """Note slots that are about to move to the newest end, or to go."""
        known = self._known
        told = slots[known[slots] == _TOLD]
        known[told] = _USED_SINCE
        if known[self._last] == _USED_SINCE:
            self._step_back()

    def gone(self, slots: Int32Array) -> None:
        """Note slots that are no longer resident, and tell of those that were known."""
        known = self._known
        told = slots[known[slots] != _UNKNOWN]
        lost_place = bool((slots == self._last).any())
        known[slots] = _UNKNOWN
        if len(told):
            self._tell(on_remove, told)
        if lost_place:
            # The oldest go first: what was told of before it is gone, or in use.
            self._step_forward()

    def ready(self, slots: Int32Array) -> None:
        """Tell of known slots that may go from now on."""
        known = slots[self._known[slots] != _UNKNOWN]
        if len(known):
            self._tell(on_ready, known)

    def _step_back(self) -> None:
        place = self._links, self._sentinel, self._known, self._last
        self._last = int(self._run(_step_back, *place))

    def _step_forward(self) -> None:
        place = self._links, self._sentinel, self._known
        self._last = int(self._run(_step_forward, *place))

    def go_on(self) -> bool:
        """Tell of the next slice; return whether that was the last one."""
        arguments = self._links, self._sentinel, self._last, self._out
        found = int(self._run(_next_newer, *arguments))
        for part in batches(self._out[:found], self._depths):
            self._tell_of(part)
        if found:
            self._last = int(self._out[found - 1])
        return found < len(self._out)

    def _tell_of(self, part: Int32Array) -> None:
        newest_first = part[::-1].copy()
        keys = self._slots.key[newest_first]
        fields = Request.of(num_blocks=len(part)).fields
        at = self._now
        if not self._is_timeless:
            at = max(0.0, self._now - max(self._ahead, 0.0))
            self._ahead -= len(part) * self._age
        is_new = self._known[newest_first] == _UNKNOWN
        here = np.where(is_new, np.int32(-1), newest_first).astype(np.int32)
        self._tell(on_request, keys, here, at, fields)
        new = newest_first[is_new]
        if len(new):
            places: Int64Array = self._depths[new].astype(np.int64)
            self._tell(on_insert, new, keys[is_new], places, at, fields)
            self._tell(on_ready, new[::-1][self._slots.blocked[new[::-1]] == 0])
        if len(new) < len(part):
            self._tell(on_hit, newest_first, at, fields)
        self._tell(on_finish, newest_first, at, fields)
        self._known[newest_first] = _TOLD


def batches(order: Int32Array, depths: Int32Array) -> list[Any]:
    """Cut an order of slots, oldest first, between requests; `SLICE_BATCHES` at most.

    Within a request tails are older than heads: where a depth is not below the one
    before, another request begins.
    """
    if not len(order):
        return []
    cuts = np.flatnonzero(np.diff(depths[order]) >= 0) + 1
    if len(cuts) >= SLICE_BATCHES:
        chosen = np.linspace(0, len(cuts) - 1, SLICE_BATCHES - 1).astype(np.int64)
        cuts = cuts[chosen]
    return np.split(order, cuts)
