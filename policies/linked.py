"""Doubly linked lists of slots in one array, oldest to newest.

``links`` is ``int32[C + K, 2]`` for C slots and K lists: row s holds the older and
the newer neighbour of slot s, row C + k is the sentinel of list k. Lists are
circular, so the sentinel's newer neighbour is the oldest slot of its list.
Every operation is O(1) a slot.
"""

from __future__ import annotations

import numpy as np

from hotset.policies.arrays import Int32Array
from hotset.policies.jit import inlined

OLDER = 0
NEWER = 1


def make_links(capacity: int, num_lists: int = 1) -> Int32Array:
    """Return the links of ``num_lists`` empty lists over ``capacity`` slots."""
    links = np.zeros((capacity + num_lists, 2), np.int32)
    clear_links(links, capacity)
    return links


@inlined
def clear_links(links: Int32Array, capacity: int) -> None:
    """Empty every list."""
    for sentinel in range(capacity, links.shape[0]):
        links[sentinel, OLDER] = sentinel
        links[sentinel, NEWER] = sentinel


@inlined
def unlink(links: Int32Array, slot: int) -> None:
    """Take a slot out of its list."""
    older = links[slot, OLDER]
    newer = links[slot, NEWER]
    links[older, NEWER] = newer
    links[newer, OLDER] = older


@inlined
def link_before(links: Int32Array, place: int, item: int) -> None:
    """Put an item that is in no list just older than a place of a list.

    Before its sentinel is at the newest end.
    """
    older = links[place, OLDER]
    links[older, NEWER] = item
    links[item, OLDER] = older
    links[item, NEWER] = place
    links[place, OLDER] = item


@inlined
def link_newest(links: Int32Array, sentinel: int, slot: int) -> None:
    """Put a slot that is in no list at the newest end."""
    link_before(links, sentinel, slot)


@inlined
def move_newest(links: Int32Array, sentinel: int, slot: int) -> None:
    """Move a slot of this list to its newest end."""
    if links[sentinel, OLDER] != slot:
        unlink(links, slot)
        link_newest(links, sentinel, slot)


@inlined
def link_all_newest(links: Int32Array, sentinel: int, slots: Int32Array) -> None:
    """Put slots that are in no list at the newest end, the first one newest."""
    older = links[sentinel, OLDER]
    for i in range(slots.shape[0] - 1, -1, -1):
        slot = slots[i]
        links[older, NEWER] = slot
        links[slot, OLDER] = older
        older = slot
    links[older, NEWER] = sentinel
    links[sentinel, OLDER] = older


@inlined
def unlink_oldest(
    links: Int32Array, sentinel: int, n: int, blocked: Int32Array, out: Int32Array
) -> int:
    """Unlink the n oldest unblocked slots into ``out``; return how many were found."""
    found = 0
    kept = sentinel
    slot = links[sentinel, NEWER]
    while found < n and slot != sentinel:
        if blocked[slot] == 0:
            out[found] = slot
            found += 1
        else:
            links[kept, NEWER] = slot
            links[slot, OLDER] = kept
            kept = slot
        slot = links[slot, NEWER]
    links[kept, NEWER] = slot
    links[slot, OLDER] = kept
    return found
