"""The four lists of ARC and its target, as `arc` and vLLM's versions of it share them.

T1 and T2 hold exactly the resident slots: T1 those used in one request so far, T2 those
used again. B1 and B2 hold keys that were evicted from them. ``target`` is how large T1
should be: a key that is missed and found in B1 raises it, one found in B2 lowers it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.ghosts import (
    Ghosts,
    ghost_add,
    ghost_drop_oldest,
    ghost_find,
    ghost_renew,
    ghosts_clear,
    make_ghosts,
)
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.linked import NEWER, clear_links, link_newest, make_links, unlink

T1, T2 = 0, 1
B1, B2 = 0, 1


class ArcLists(NamedTuple):
    """T1, T2, B1, B2 and the target, over C slots."""

    links: Int32Array  # int32[C + 2, 2], T1 and T2, oldest to newest
    which: Int32Array  # int32[C], the list of a resident slot
    size: Int64Array  # int64[2]
    key: Int64Array  # int64[C], of resident slots
    ghosts: Ghosts  # B1 and B2, at most 2 C keys
    target: Float64Array  # float64[1], in [0, C]


def make_arc_lists(capacity: int) -> ArcLists:
    """Return empty lists."""
    return ArcLists(
        links=make_links(capacity, 2),
        which=np.zeros(capacity, np.int32),
        size=np.zeros(2, np.int64),
        key=np.zeros(capacity, np.int64),
        ghosts=make_ghosts(2 * capacity, 2),
        target=np.zeros(1, np.float64),
    )


@kernel
def arc_clear(lists: ArcLists) -> None:
    """Forget everything, ghosts and target included."""
    clear_links(lists.links, lists.key.shape[0])
    lists.size[:] = 0
    ghosts_clear(lists.ghosts)
    lists.target[0] = 0.0


@kernel
def arc_link(lists: ArcLists, slot: int, which: int) -> None:
    """Put a slot that is in no list at the newest end of one."""
    lists.which[slot] = which
    lists.size[which] += 1
    link_newest(lists.links, lists.key.shape[0] + which, slot)


@kernel
def arc_unlink(lists: ArcLists, slot: int) -> None:
    """Take a slot out of its list."""
    lists.size[lists.which[slot]] -= 1
    unlink(lists.links, slot)


@kernel
def arc_move(lists: ArcLists, slot: int, which: int) -> None:
    """Make a slot the newest one of a list."""
    arc_unlink(lists, slot)
    arc_link(lists, slot, which)


@kernel
def arc_remove(lists: ArcLists, slots: Int32Array) -> None:
    """Forget slots without a trace."""
    for i in range(slots.shape[0]):
        arc_unlink(lists, slots[i])


@kernel
def arc_adapt(lists: ArcLists, entry: int) -> None:
    """Move the target for a ghost that is asked for, and make it its list's newest."""
    size = lists.ghosts.size
    if lists.ghosts.which[entry] == B1:
        step = max(1.0, size[B2] / size[B1])
        lists.target[0] = min(lists.target[0] + step, float(lists.key.shape[0]))
    else:
        step = max(1.0, size[B1] / size[B2])
        lists.target[0] = max(lists.target[0] - step, 0.0)
    ghost_renew(lists.ghosts, entry)


@kernel
def arc_adapt_all(lists: ArcLists, keys: KeyArray, slots: Int32Array) -> None:
    """Adapt to those of a request's keys that are ghosts, the tail first."""
    for i in range(keys.shape[0] - 1, -1, -1):
        if slots[i] < 0:
            entry = ghost_find(lists.ghosts, keys[i])
            if entry != NO_ENTRY:
                arc_adapt(lists, entry)


@kernel
def _next_free(lists: ArcLists, at: int, blocked: Int32Array) -> int:
    """Return the next newer slot that is not blocked, or the list's sentinel."""
    at = lists.links[at, NEWER]
    while at < blocked.shape[0] and blocked[at] != 0:
        at = lists.links[at, NEWER]
    return at


@kernel
def arc_choose(
    lists: ArcLists,
    n: int,
    blocked: Int32Array,
    least: int,
    falls_back: bool,
    out: Int32Array,
) -> int:
    """Write the next n victims to ``out`` and return how many there are.

    Nothing is taken out. T1 gives while it is ``least`` slots long or longer, T2
    otherwise, and T2 where nothing in T1 is free; the other way round only with
    ``falls_back``.
    """
    end = lists.key.shape[0]
    length = lists.size[T1]
    first = _next_free(lists, end + T1, blocked)
    second = _next_free(lists, end + T2, blocked)
    for found in range(n):
        from_first = length >= least and first < end
        if not from_first and second >= end:
            from_first = falls_back and first < end
            if not from_first:
                return found
        if from_first:
            out[found] = first
            first = _next_free(lists, first, blocked)
            length -= 1
        else:
            out[found] = second
            second = _next_free(lists, second, blocked)
    return n


@kernel
def arc_bury(lists: ArcLists, slot: int) -> int:
    """Move an evicted slot's key to the ghosts of its list, and return its entry.

    Each list of ghosts stays within C keys.
    """
    which = int(lists.which[slot])
    arc_unlink(lists, slot)
    if lists.ghosts.size[which] >= lists.key.shape[0]:
        ghost_drop_oldest(lists.ghosts, which)
    return ghost_add(lists.ghosts, which, lists.key[slot])
