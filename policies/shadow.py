"""A cache of keys only, under any policy, that serves requests as a replay would.

It tells what a policy would have hit on the traffic at hand, and what it would hold. A
request is served whole and at one moment: looked up, its missing keys stored head first
beside those that are there, those used; that is `hotset.sim.loop` without admission.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import PolicySpec
from hotset.policies.directory import (
    NOWHERE,
    Directory,
    directory_enter,
    directory_leave,
)
from hotset.policies.followed import Followed, followed_return, followed_stray
from hotset.policies.jit import kernel
from hotset.policies.key_table import table_find
from hotset.policies.request import CUT, HIT_BLOCKS, REQUEST_FIELDS, SCRATCH
from hotset.policies.slots import (
    EVICTED,
    STORED,
    Slots,
    block,
    make_slots,
    slots_clear,
    store,
    unblock,
)
from hotset.policies.verbs import (
    NO_LINKS,
    on_finish,
    on_hit,
    on_ready,
    on_request,
    reset,
)

LONGEST = 1 << 16  # keys of a request that are served, or as many as fit
_BY_KEY, _KEYS_USED = 0, 1


class Shadow(NamedTuple):
    """A policy's state and the cache that it rules, of C slots."""

    policy: Any
    slots: Slots
    entry: Int32Array  # int32[C], of taken slots: their entry in the directory
    clock: Float64Array  # float64[2]: 1 where keys are counted, keys used


class Room(NamedTuple):
    """The request that is served, N keys at most, and scratch; kernels cannot allocate.

    ``before`` and ``after`` are where its keys are in the cache that serves it.
    """

    keys: Int64Array  # int64[N]
    entry: Int32Array  # int32[N], entries in the directory, or NO_ENTRY
    found: Int32Array  # int32[N], slots in the shadow that serves, or NOWHERE
    used: Int32Array  # int32[N]
    victims: Int32Array  # int32[N]
    victim_keys: Int64Array  # int64[N]
    missing: Int64Array  # int64[N]
    depths: Int64Array  # int64[N]
    request: Float64Array  # float64[REQUEST_FIELDS], as the shadow's policy sees it
    outcome: Int64Array  # int64[2]


def make_shadow(spec: PolicySpec, params: Any, capacity: int) -> Shadow:
    """Return an empty cache under a policy that counts requests or keys."""
    by_key = float(spec.age_unit == "key")
    return Shadow(
        policy=spec.make(params, capacity, None),
        slots=make_slots(capacity),
        entry=np.zeros(capacity, np.int32),
        clock=np.array([by_key, 0.0]),
    )


def make_room(capacity: int) -> Room:
    """Return room for the longest request."""
    longest = max(capacity, LONGEST)
    return Room(
        keys=np.zeros(longest, np.int64),
        entry=np.zeros(longest, np.int32),
        found=np.zeros(longest, np.int32),
        used=np.zeros(longest, np.int32),
        victims=np.zeros(longest, np.int32),
        victim_keys=np.zeros(longest, np.int64),
        missing=np.zeros(longest, np.int64),
        depths=np.zeros(longest, np.int64),
        request=np.zeros(REQUEST_FIELDS, np.float64),
        outcome=np.zeros(2, np.int64),
    )


@kernel
def room_fill(
    room: Room,
    directory: Directory,
    keys: KeyArray,
    slots: Int32Array,
    entry_of: Int32Array,
) -> int:
    """Take in a request; return how many of its keys will be served.

    ``slots`` are those of the cache that ``entry_of`` belongs to, negative elsewhere.
    """
    n = min(keys.shape[0], room.keys.shape[0])
    for i in range(n):
        room.keys[i] = keys[i]
        if slots[i] >= 0:
            room.entry[i] = entry_of[slots[i]]
        else:
            room.entry[i] = table_find(directory.table, room.keys[i])
    return n


@kernel
def shadow_clear(shadow: Shadow) -> None:
    """Empty the cache; its clock and what its policy learned stay."""
    reset(shadow.policy)
    slots_clear(shadow.slots)


@kernel
def _moment(shadow: Shadow, now: float) -> float:
    return shadow.clock[_KEYS_USED] if shadow.clock[_BY_KEY] != 0.0 else now


@kernel
def _look_up(room: Room, directory: Directory, which: int, n: int) -> int:
    """Tell the request's resident keys from missing ones; return how many are here."""
    resident = 0
    for i in range(n):
        slot = NOWHERE
        if room.entry[i] >= 0:
            slot = directory.slot[room.entry[i], which]
        room.found[i] = slot
        if slot >= 0:
            room.used[resident] = slot
            resident += 1
        else:
            room.missing[i - resident] = room.keys[i]
            room.depths[i - resident] = i
    return resident


@kernel
def _tell(room: Room, request: Float64Array, run: int) -> None:
    for field in range(REQUEST_FIELDS):
        room.request[field] = request[field]
    room.request[HIT_BLOCKS] = run
    room.request[SCRATCH] = 0.0
    room.request[CUT] = 0.0


@kernel
def _settle(
    room: Room,
    directory: Directory,
    followed: Followed,
    entry_of: Int32Array,
    which: int,
    taken: Int32Array,
) -> None:
    """Enter a store's outcome into the directory and the lists of residents."""
    real = directory.slot.shape[1] - 1
    for i in range(room.outcome[EVICTED]):
        entry = entry_of[room.victims[i]]
        slot = directory.slot[entry, real]
        if slot >= 0:
            followed_stray(followed, slot, which)
        directory_leave(directory, entry, which)
    for i in range(taken.shape[0]):
        at = room.depths[i]
        entry = directory_enter(
            directory, room.entry[at], room.missing[i], which, taken[i]
        )
        room.entry[at] = entry
        room.found[at] = taken[i]
        entry_of[taken[i]] = entry
        slot = directory.slot[entry, real]
        if slot >= 0:
            followed_return(followed, slot, which)


@kernel
def _gather(room: Room, n: int) -> int:
    """Write the slots of the request's resident keys, in order; return how many."""
    remaining = 0
    for i in range(n):
        if room.found[i] >= 0:
            room.used[remaining] = room.found[i]
            remaining += 1
    return remaining


@kernel
def shadow_serve(
    shadow: Shadow,
    which: int,
    room: Room,
    n: int,
    directory: Directory,
    followed: Followed,
    now: float,
    request: Float64Array,
) -> int:
    """Serve the request in the room; return how many leading keys were here.

    Parameters
    ----------
    shadow, which : Shadow, int
        The cache, and its number in the directory.
    room, n : Room, int
        The request of n keys.
    directory : Directory
        Who holds what; the last cache is the real one.
    followed : Followed
        Residents of the real cache.
    now : float
        The clock of policies that count requests.
    request : float64[REQUEST_FIELDS]
        What is known of it.
    """
    resident = _look_up(room, directory, which, n)
    run = room.depths[0] if resident < n else n
    _tell(room, request, run)
    policy, told, used = shadow.policy, room.request, room.used
    on_request(policy, room.keys[:n], room.found[:n], _moment(shadow, now), told)

    block(shadow.slots, used[:resident])
    store(
        policy,
        NO_LINKS,
        shadow.slots,
        room.missing[: n - resident],
        room.depths[: n - resident],
        _moment(shadow, now),
        told,
        False,
        used[resident:],
        room.victims,
        room.victim_keys,
        room.outcome,
    )
    unblock(shadow.slots, used[:resident])
    stored = room.outcome[STORED]
    taken = used[resident : resident + stored]
    _settle(room, directory, followed, shadow.entry, which, taken)
    shadow.clock[_KEYS_USED] += stored
    on_ready(policy, taken)
    on_hit(policy, used[:resident], _moment(shadow, now), told)
    shadow.clock[_KEYS_USED] += resident

    remaining = resident + stored
    if resident > run and stored > 0:
        remaining = _gather(room, n)
    on_finish(policy, used[:remaining], _moment(shadow, now), told)
    return run
