"""Residents of a cache that follows what one of several shadow caches holds.

All residents stand in one list by their last use. Those that a shadow does not hold
stand in a list of that shadow as well, by the moment that it let go of them or that
they were last used, whichever came later. So victims are at hand whichever shadow is
followed, and to follow another one takes no scan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array
from hotset.policies.jit import kernel
from hotset.policies.linked import (
    NEWER,
    clear_links,
    link_all_newest,
    link_newest,
    make_links,
    move_newest,
    unlink,
)


class Followed(NamedTuple):
    """Arrays of C slots beside M shadows; lists run from oldest to newest."""

    recent: Int32Array  # int32[C + 1, 2], all residents
    strays: Int32Array  # int32[M, C + 1, 2], residents that shadow m does not hold
    is_stray: Int32Array  # int32[C, M], 1 in the list of shadow m
    entry: Int32Array  # int32[C], of residents: their entry in the directory


def make_followed(num_shadows: int, capacity: int) -> Followed:
    """Return the lists of an empty cache."""
    return Followed(
        recent=make_links(capacity),
        strays=np.stack([make_links(capacity) for _ in range(num_shadows)]),
        is_stray=np.zeros((capacity, num_shadows), np.int32),
        entry=np.zeros(capacity, np.int32),
    )


@kernel
def followed_clear(followed: Followed) -> None:
    """Empty every list."""
    capacity = followed.entry.shape[0]
    clear_links(followed.recent, capacity)
    for m in range(followed.strays.shape[0]):
        clear_links(followed.strays[m], capacity)
    followed.is_stray[:] = 0


@kernel
def followed_stray(followed: Followed, slot: int, m: int) -> None:
    """Note that shadow m does not hold a resident any more."""
    link_newest(followed.strays[m], followed.entry.shape[0], slot)
    followed.is_stray[slot, m] = 1


@kernel
def followed_return(followed: Followed, slot: int, m: int) -> None:
    """Note that shadow m holds a resident again, if it did not."""
    if followed.is_stray[slot, m] != 0:
        unlink(followed.strays[m], slot)
        followed.is_stray[slot, m] = 0


@kernel
def followed_enter(followed: Followed, slots: Int32Array) -> None:
    """Take in residents, the first one newest; no shadow is asked yet."""
    link_all_newest(followed.recent, followed.entry.shape[0], slots)


@kernel
def followed_use(followed: Followed, slots: Int32Array) -> None:
    """Make residents the newest ones, the first one newest of all."""
    sentinel = followed.entry.shape[0]
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        move_newest(followed.recent, sentinel, slot)
        for m in range(followed.strays.shape[0]):
            if followed.is_stray[slot, m] != 0:
                move_newest(followed.strays[m], sentinel, slot)


@kernel
def followed_leave(followed: Followed, slots: Int32Array) -> None:
    """Take residents out."""
    for i in range(slots.shape[0]):
        unlink(followed.recent, slots[i])
        for m in range(followed.strays.shape[0]):
            followed_return(followed, slots[i], m)


@kernel
def followed_choose(
    followed: Followed, m: int, n: int, blocked: Int32Array, out: Int32Array
) -> int:
    """Write n unblocked residents, strays of shadow m first; return how many.

    Nothing is taken out.
    """
    sentinel = followed.entry.shape[0]
    found = 0
    slot = followed.strays[m, sentinel, NEWER]
    while found < n and slot != sentinel:
        if blocked[slot] == 0:
            out[found] = slot
            found += 1
        slot = followed.strays[m, slot, NEWER]
    slot = followed.recent[sentinel, NEWER]
    while found < n and slot != sentinel:
        # All strays that may go are chosen by now.
        if blocked[slot] == 0 and followed.is_stray[slot, m] == 0:
            out[found] = slot
            found += 1
        slot = followed.recent[slot, NEWER]
    return found
