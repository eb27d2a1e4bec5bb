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
from hotset.policies.verbs import (
    admit,
    has_order,
    on_evict,
    on_insert,
    on_remove,
    select,
)

RESIDENT = 0
BLOCKED = 1
GIVEN = 2
RETURNED = 3

# Fields of an outcome, and what it may hold instead of a count.
STORED = 0
EVICTED = 1
REFUSED = -1
FAULT = -2

EMPTY = -1  # the key of a free slot; keys are not negative


class Slots(NamedTuple):
    """Arrays of C slots."""

    key: Int64Array  # int64[C], of resident slots
    blocked: Int32Array  # int32[C], pins and protections of resident slots
    returned: Int32Array  # int32[C], stack of slots given back
    numbers: Int64Array  # int64[4]: resident, resident and blocked, given, returned


def make_slots(capacity: int) -> Slots:
    """Return ``capacity`` free slots."""
    return Slots(
        key=np.full(capacity, EMPTY, np.int64),
        blocked=np.zeros(capacity, np.int32),
        returned=np.zeros(capacity, np.int32),
        numbers=np.zeros(4, np.int64),
    )


@kernel
def slots_clear(slots: Slots) -> None:
    """Free every slot."""
    slots.key[:] = EMPTY
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
        slots.key[slot] = EMPTY
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
def _are_victims(slots: Slots, victims: Int32Array) -> bool:
    """Return whether slots are resident, unblocked and all different."""
    good = 0
    for i in range(victims.shape[0]):
        slot = victims[i]
        if slot < 0 or slot >= slots.key.shape[0] or slots.key[slot] == EMPTY:
            break
        if slots.blocked[slot] != 0:
            break
        slots.blocked[slot] = 1  # so that the same slot does not pass twice
        good += 1
    for i in range(good):
        slots.blocked[victims[i]] = 0
    return good == victims.shape[0]


@kernel
def evict(
    policy: Any,
    links: Any,
    slots: Slots,
    n: int,
    now: float,
    victims: Int32Array,
    victim_keys: Int64Array,
) -> int:
    """Evict n slots; return n, 0 where there are not so many, or `FAULT`.

    0 means that nothing has changed, given a policy that keeps to the contract.

    Parameters
    ----------
    policy : state
        Chooses the victims.
    links : state
        A second order of the same slots that is kept in step, or `NO_LINKS`. Where
        there is one, the policy's choice is checked before it counts.
    slots : Slots
        The slots.
    n : int
        How many, at least 1.
    now : float
        The policy's clock.
    victims, victim_keys : int32[n], int64[n]
        Receive the slots and the keys that were in them.
    """
    if n > num_evictable(slots):
        return 0
    found = select(policy, n, slots.blocked, now, victims)
    possible = 0 <= found <= n
    if has_order(links) and not (possible and _are_victims(slots, victims[:found])):
        return FAULT
    if found < n:
        return 0
    returned = slots.numbers[RETURNED]
    for i in range(n):
        slot = victims[i]
        victim_keys[i] = slots.key[slot]
        slots.key[slot] = EMPTY
        slots.returned[returned + i] = slot
    slots.numbers[RETURNED] += n
    slots.numbers[RESIDENT] -= n
    on_remove(links, victims[:n])
    on_evict(policy, victims[:n])
    return n


@kernel
def place(
    policy: Any,
    links: Any,
    slots: Slots,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
    taken: Int32Array,
) -> None:
    """Put missing keys into free slots, of which there must be enough.

    The arguments are those of `store`; nobody is asked whether the keys are wanted.
    """
    take_slots(slots, keys, taken)
    on_insert(links, taken, keys, depths, now, request)
    on_insert(policy, taken, keys, depths, now, request)


@kernel
def store(
    policy: Any,
    links: Any,
    slots: Slots,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
    whole: bool,
    taken: Int32Array,
    victims: Int32Array,
    victim_keys: Int64Array,
    outcome: Int64Array,
) -> None:
    """Store missing keys, evicting what they need.

    Parameters
    ----------
    policy, links, slots
        The cache, as in `evict`.
    keys, depths : integer[n], int64[n]
        Keys to store, none of them resident, in head-to-tail order.
    now, request
        As in `hotset.policies.verbs`.
    whole : bool
        Whether what the policy admits must fit as a whole (vLLM); otherwise the
        longest prefix that fits is stored.
    taken, victims, victim_keys : int32[n], int32[n], int64[n]
        Receive the new slots, the evicted slots and the evicted keys.
    outcome : int64[2]
        Receives how many keys were stored, or `REFUSED` where they did not fit, or
        `FAULT` where the policy chose what cannot be; and how many were evicted.
        Valid even where a later step of the policy fails.
    """
    outcome[STORED] = 0
    outcome[EVICTED] = 0
    free = num_free(slots)
    wanted = admit(policy, keys, depths, free, slots.blocked, now, request)
    if has_order(links) and (wanted < 0 or wanted > keys.shape[0]):
        outcome[STORED] = FAULT
        return
    wanted = min(wanted, keys.shape[0])
    need = wanted - free
    if need > 0:
        if not whole:
            need = min(need, num_evictable(slots))
        evicted = 0
        if need > 0:
            evicted = evict(policy, links, slots, need, now, victims, victim_keys)
        if evicted < 0 or (whole and evicted < need):
            outcome[STORED] = FAULT if evicted < 0 else REFUSED
            return
        outcome[EVICTED] = evicted
        wanted = free + evicted
    if wanted <= 0:
        return
    take_slots(slots, keys[:wanted], taken)
    on_insert(links, taken[:wanted], keys[:wanted], depths[:wanted], now, request)
    outcome[STORED] = wanted
    on_insert(policy, taken[:wanted], keys[:wanted], depths[:wanted], now, request)
