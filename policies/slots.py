"""Slots of a cache: what is in them, which are free, which must not be evicted.

This is the part of a cache that is the same in every driver: the replay loop, the
simulated tier and the vLLM adapter. Keys are found by the driver (an array, a dict);
here everything is by slot. Slots are given out ascending, then the last one given back
first, as vLLM does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.jit import kernel
from hotset.policies.verbs import admit, on_evict, on_insert, select

RESIDENT = 0
BLOCKED = 1
GIVEN = 2
RETURNED = 3

REFUSED = -1


class Slots(NamedTuple):
    """Arrays of C slots."""

    key: Int64Array  # int64[C], of resident slots
    blocked: Int32Array  # int32[C], pins and protections of resident slots
    returned: Int32Array  # int32[C], stack of slots given back
    numbers: Int64Array  # int64[4]: resident, resident and blocked, given, returned


def make_slots(capacity: int) -> Slots:
    """Return ``capacity`` free slots."""
    return Slots(
        key=np.full(capacity, -1, np.int64),
        blocked=np.zeros(capacity, np.int32),
        returned=np.zeros(capacity, np.int32),
        numbers=np.zeros(4, np.int64),
    )


@kernel
def slots_clear(slots: Slots) -> None:
    """Free every slot."""
    slots.key[:] = -1
    slots.blocked[:] = 0
    slots.numbers[:] = 0


@kernel
def num_free(slots: Slots) -> int:
    """Return the number of free slots."""
    numbers = slots.numbers
    return slots.key.shape[0] - numbers[GIVEN] + numbers[RETURNED]


@kernel
def num_evictable(slots: Slots) -> int:
    """Return the number of resident slots that are not blocked."""
    return slots.numbers[RESIDENT] - slots.numbers[BLOCKED]


@kernel
def block(slots: Slots, chosen: Int32Array) -> None:
    """Add a pin or protection to each resident slot; negative slots are passed over."""
    newly = 0
    for i in range(chosen.shape[0]):
        slot = chosen[i]
        if slot >= 0:
            newly += slots.blocked[slot] == 0
            slots.blocked[slot] += 1
    slots.numbers[BLOCKED] += newly


@kernel
def unblock(slots: Slots, chosen: Int32Array) -> None:
    """Take a pin or protection off each slot; negative slots are passed over."""
    freed = 0
    for i in range(chosen.shape[0]):
        slot = chosen[i]
        if slot >= 0:
            slots.blocked[slot] -= 1
            freed += slots.blocked[slot] == 0
    slots.numbers[BLOCKED] -= freed


@kernel
def give_back(slots: Slots, chosen: Int32Array) -> None:
    """Free resident slots."""
    returned = slots.numbers[RETURNED]
    freed = 0
    for i in range(chosen.shape[0]):
        slot = chosen[i]
        freed += slots.blocked[slot] != 0
        slots.blocked[slot] = 0
        slots.key[slot] = -1
        slots.returned[returned + i] = slot
    slots.numbers[RETURNED] += chosen.shape[0]
    slots.numbers[BLOCKED] -= freed
    slots.numbers[RESIDENT] -= chosen.shape[0]


@kernel
def take_slots(slots: Slots, keys: KeyArray, taken: Int32Array) -> None:
    """Put keys into free slots, written to ``taken``; there must be enough of them."""
    wanted = keys.shape[0]
    given = slots.numbers[GIVEN]
    fresh = min(wanted, slots.key.shape[0] - given)
    for i in range(fresh):
        slots.key[given + i] = keys[i]
        taken[i] = given + i
    top = slots.numbers[RETURNED] - 1 + fresh
    for i in range(fresh, wanted):
        slot = slots.returned[top - i]
        slots.key[slot] = keys[i]
        taken[i] = slot
    slots.numbers[GIVEN] += fresh
    slots.numbers[RETURNED] -= wanted - fresh
    slots.numbers[RESIDENT] += wanted


@kernel
def evict(
    policy: Any, slots: Slots, n: int, now: float, victims: Int32Array
) -> int:
    """Evict exactly n slots into ``victims``, or none; return how many.

    The victims' keys stay in ``slots.key`` until `give_back`.
    """
    if n <= 0 or n > num_evictable(slots):
        return 0
    found = select(policy, n, slots.blocked, now, victims)
    if found < n:
        return 0
    on_evict(policy, victims[:n])
    return n


@kernel
def store(
    policy: Any,
    slots: Slots,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
    whole: bool,
    taken: Int32Array,
    victims: Int32Array,
    victim_keys: Int64Array,
) -> tuple[int, int]:
    """Store missing keys, evicting what they need.

    Parameters
    ----------
    policy, slots
        The cache.
    keys, depths : integer[n], int64[n]
        Keys to store, none of them resident, in head-to-tail order.
    now, request
        As in `hotset.policies.verbs`.
    whole : bool
        Whether what the policy admits must fit as a whole (vLLM); otherwise the
        longest prefix that fits is stored.
    taken, victims, victim_keys : int32[n], int32[n], int64[n]
        Receive the new slots, the evicted slots and the evicted keys.

    Returns
    -------
    stored : int
        How many keys were stored; `REFUSED` where they did not fit.
    evicted : int
        How many were evicted for them.
    """
    free = num_free(slots)
    wanted = admit(policy, keys, depths, free, slots.blocked, now, request)
    need = wanted - free
    if need > 0:
        room = num_evictable(slots)
        if need > room:
            if whole:
                return REFUSED, 0
            need = room
        if evict(policy, slots, need, now, victims) < need:
            if whole:
                return REFUSED, 0
            need = 0
        wanted = free + need
        for i in range(need):
            victim_keys[i] = slots.key[victims[i]]
        give_back(slots, victims[:need])
    else:
        need = 0
    if wanted <= 0:
        return 0, need
    take_slots(slots, keys[:wanted], taken)
    on_insert(policy, taken[:wanted], keys[:wanted], depths[:wanted], now, request)
    return wanted, need
