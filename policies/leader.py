"""Follow the leader: hold what the policy with the best record so far would hold.

Idea: which policy is best depends on the traffic and on the size of the cache, and the
traffic changes. Each of several policies, the members, rules a shadow cache of keys,
as large as the real cache; the one whose shadow has the best fading record of hits
leads. The real cache follows it: blocks that the leader would not hold go first, and of
a request it stores what the leader stores.

Source: ours; prediction with expert advice ("follow the leader").

State: a `Shadow` for each member; `Directory`, who holds which key; `Followed`, the
residents by last use, and for each member those that its shadow does not hold. While
one member leads from the start the real cache holds what its shadow holds. When the
leader changes, what the new one lacks is at hand as victims; what it holds and the real
cache lacks comes back with its next use.

The members are `lru`, `adaptive`, and `relevance` twice: with recency that halves over
as many keys as the cache holds, and over a tenth of them with more weight on reuse. The
record counts leading blocks found, once for each request. `lru` leads at first, and
where records are equal.

Deviations: shadows serve a request whole when it comes; a server stores its blocks
later, and an admission rule or a pin is not known to them. A request longer than 65,536
blocks and than the capacity is served up to there. Blocks that are removed stay in the
shadows.

Cost: that of the members, and one hash look-up a key for all their caches. About 900
bytes for each block of capacity, and 9 MB: the counts of two `relevance`, and room for
a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies import adaptive, lru, relevance
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.directory import (
    Directory,
    directory_clear,
    directory_enter,
    directory_leave,
    make_directory,
)
from hotset.policies.followed import (
    Followed,
    followed_choose,
    followed_clear,
    followed_enter,
    followed_leave,
    followed_stray,
    followed_use,
    make_followed,
)
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY, table_find
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.request import CUT
from hotset.policies.shadow import (
    Room,
    Shadow,
    make_room,
    make_shadow,
    room_fill,
    shadow_clear,
    shadow_serve,
)
from hotset.policies.verbs import Kernels, register_kernels

# The field CUT of a request: whether it was seen, and whether a block was refused.
_SEEN, _REFUSED = 1.0, 2.0

LEADER, _SERVED, _WINDOW = 0, 1, 2  # fields of LeaderState.numbers

_NUM_MEMBERS = 4
_REAL = _NUM_MEMBERS  # the real cache's number in the directory


@dataclass(frozen=True)
class LeaderParams(Params):
    """Parameters of `leader`."""

    half_life: float = param(
        1000.0,
        "requests after which a record counts half",
        low=50.0,
        high=1e6,
        log=True,
        unit="request",
    )
    window: int = param(
        25,
        "requests between two choices of the leader",
        low=1,
        high=1_000_000,
        log=True,
        unit="request",
        tuned=False,
    )


class LeaderState(NamedTuple):
    """The members' shadows, their records, and the real cache's residents."""

    first: Shadow
    second: Shadow
    third: Shadow
    fourth: Shadow
    directory: Directory
    followed: Followed
    room: Room
    record: Float64Array  # float64[M], blocks found in past windows, fading
    hits: Int64Array  # int64[M], blocks found in this window
    fade: Float64Array  # float64[1], what a window counts beside the next one
    numbers: Int64Array  # int64[3]: who leads, requests in this window, its length


def members_of(capacity: int) -> list[tuple[PolicySpec, Any]]:
    """Return the members of a cache of so many blocks, with their parameters."""
    slow, fast = float(capacity), max(1.0, capacity / 10)
    return [
        (lru.SPEC, lru.LruParams(order="tail-first")),
        (adaptive.SPEC, adaptive.AdaptiveParams()),
        (relevance.SPEC, relevance.RelevanceParams(half_life=slow)),
        (relevance.SPEC, relevance.RelevanceParams(half_life=fast, w_reuse=1.0)),
    ]


def make_leader(
    params: LeaderParams, capacity: int, next_use: Any = None
) -> LeaderState:
    """Build the state."""
    first, second, third, fourth = (
        make_shadow(spec, chosen, capacity) for spec, chosen in members_of(capacity)
    )
    return LeaderState(
        first=first,
        second=second,
        third=third,
        fourth=fourth,
        directory=make_directory(_REAL + 1, capacity),
        followed=make_followed(_NUM_MEMBERS, capacity),
        room=make_room(capacity),
        record=np.zeros(_NUM_MEMBERS, np.float64),
        hits=np.zeros(_NUM_MEMBERS, np.int64),
        fade=np.array([0.5 ** (params.window / params.half_life)]),
        numbers=np.array([0, 0, params.window], np.int64),
    )


@kernel
def leader_on_request(
    state: LeaderState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Serve a request in every shadow; its first call counts for the record."""
    room, directory, followed = state.room, state.directory, state.followed
    n = room_fill(room, directory, keys, slots, followed.entry)
    a = shadow_serve(state.first, 0, room, n, directory, followed, now, request)
    b = shadow_serve(state.second, 1, room, n, directory, followed, now, request)
    c = shadow_serve(state.third, 2, room, n, directory, followed, now, request)
    d = shadow_serve(state.fourth, 3, room, n, directory, followed, now, request)
    if request[CUT] == 0.0:
        request[CUT] = _SEEN
        state.hits[0] += a
        state.hits[1] += b
        state.hits[2] += c
        state.hits[3] += d
        _count(state.record, state.hits, state.fade[0], state.numbers)


@kernel
def _count(
    record: Float64Array, hits: Int64Array, fade: float, numbers: Int64Array
) -> None:
    """Count a request; choose the leader where it was the last of its window."""
    numbers[_SERVED] += 1
    if numbers[_SERVED] < numbers[_WINDOW]:
        return
    numbers[_SERVED] = 0
    best = 0
    for m in range(record.shape[0]):
        record[m] = record[m] * fade + hits[m]
        hits[m] = 0
        if record[m] > record[best]:
            best = m
    numbers[LEADER] = best


@kernel
def leader_admit(
    state: LeaderState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys up to the first that the leader does not hold, or into free slots.

    Of a request that nobody told of, the shadows know nothing: all of it is admitted.
    """
    n = keys.shape[0]
    if request[CUT] == 0.0:
        return n
    if request[CUT] == _REFUSED:
        return 0
    directory, leader = state.directory, state.numbers[LEADER]
    wanted = min(num_free, n)
    while wanted < n:
        entry = table_find(directory.table, keys[wanted])
        if entry == NO_ENTRY or directory.slot[entry, leader] < 0:
            request[CUT] = _REFUSED
            break
        wanted += 1
    return wanted


@kernel
def leader_select(
    state: LeaderState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose what the leader does not hold, then what was used longest ago."""
    return followed_choose(state.followed, state.numbers[LEADER], n, blocked, out)


@kernel
def leader_on_evict(state: LeaderState, slots: Int32Array) -> None:
    """Forget slots of the real cache."""
    followed_leave(state.followed, slots)
    for i in range(slots.shape[0]):
        directory_leave(state.directory, state.followed.entry[slots[i]], _REAL)


@kernel
def leader_on_insert(
    state: LeaderState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks."""
    directory, followed = state.directory, state.followed
    followed_enter(followed, slots)
    for i in range(slots.shape[0] - 1, -1, -1):
        entry = table_find(directory.table, keys[i])
        entry = directory_enter(directory, entry, keys[i], _REAL, slots[i])
        followed.entry[slots[i]] = entry
        for m in range(_NUM_MEMBERS):
            if directory.slot[entry, m] < 0:
                followed_stray(followed, slots[i], m)
    note_insert(request)


@kernel
def leader_on_hit(
    state: LeaderState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones, the head newest of all."""
    followed_use(state.followed, slots)
    note_hit(request, slots.shape[0])


@kernel
def leader_on_finish(
    state: LeaderState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest ones where tails look newer than heads."""
    if needs_order(request):
        followed_use(state.followed, slots)


@kernel
def leader_reset(state: LeaderState) -> None:
    """Empty the caches; the records and what members learned of traffic stay."""
    shadow_clear(state.first)
    shadow_clear(state.second)
    shadow_clear(state.third)
    shadow_clear(state.fourth)
    directory_clear(state.directory)
    followed_clear(state.followed)


register_kernels(
    LeaderState,
    Kernels(
        on_request=leader_on_request,
        admit=leader_admit,
        select=leader_select,
        on_evict=leader_on_evict,
        on_remove=leader_on_evict,
        on_insert=leader_on_insert,
        on_hit=leader_on_hit,
        on_finish=leader_on_finish,
        reset=leader_reset,
    ),
)


def _refuses(params: LeaderParams) -> bool:
    return True


SPEC = PolicySpec(
    name="leader",
    summary="what the policy with the best record would not hold goes first",
    params=LeaderParams,
    make=make_leader,
    refuses=_refuses,
)
