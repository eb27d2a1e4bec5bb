"""Resident blocks in classes by how often they were seen, with their past.

What `guard` and `adaptive` have in common: a recency list for each class
(`ClassLists`), and a memory of keys (`History`) that tells a block's class when it is
used or comes back. A resident block keeps its entry out of the memory's list 0; when it
goes, the entry becomes forgettable, unless a shadow cache holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, KeyArray
from hotset.policies.class_lists import (
    ClassLists,
    Worth,
    class_lists_clear,
    make_class_lists,
    pass_over,
    place,
    start_choosing,
    start_placing,
    take_weakest,
    weakest,
    worth_of,
)
from hotset.policies.history import (
    FORGETTABLE,
    NO_SLOT,
    NUM_CLASSES,
    UNLISTED,
    History,
    class_of,
    history_clear,
    history_find,
    history_list,
    history_take_out,
    make_history,
)
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.linked import unlink
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.request import CUT


class Classified(NamedTuple):
    """Resident slots by class, and the keys that are remembered."""

    lists: ClassLists
    history: History
    entry: Int32Array  # int32[C], entry of a slot's key, or NO_ENTRY


def make_classified(capacity: int, memory: int, num_lists: int = 1) -> Classified:
    """Return an empty cache that remembers ``memory`` keys for each of its slots."""
    return Classified(
        lists=make_class_lists(capacity, NUM_CLASSES),
        history=make_history((1 + memory) * capacity, num_lists),
        entry=np.full(capacity, NO_ENTRY, np.int32),
    )


@kernel
def classified_clear(blocks: Classified) -> None:
    """Forget every block and key."""
    class_lists_clear(blocks.lists)
    history_clear(blocks.history)
    blocks.entry[:] = NO_ENTRY


@kernel
def entry_of(blocks: Classified, key: int, slot: int) -> int:
    """Return the entry of a key, by its slot where it is resident, or NO_ENTRY."""
    if slot >= 0 and blocks.entry[slot] != NO_ENTRY:
        return blocks.entry[slot]
    return history_find(blocks.history, key)


@kernel
def bind(blocks: Classified, entry: int, slot: int) -> None:
    """Note that the key of an entry is in a slot, if that is no shadow's business."""
    blocks.entry[slot] = entry
    blocks.history.slot[entry] = slot
    if blocks.history.listed[entry] == FORGETTABLE:
        history_take_out(blocks.history, entry)


@kernel
def class_of_key(blocks: Classified, key: int) -> int:
    """Return the class that a block would have; 0 where its key is not remembered."""
    entry = history_find(blocks.history, key)
    return 0 if entry == NO_ENTRY else class_of(blocks.history.seen[entry])


@kernel
def classified_admit(
    blocks: Classified,
    worth: Worth,
    least: Float64Array,
    keys: KeyArray,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Return how many keys are worth more than what they would displace.

    Parameters
    ----------
    least : float64[K]
        What a new block of each class is worth: it displaces only blocks that are
        worth no more.
    """
    n = keys.shape[0]
    if n > 0 and request[CUT] != 0.0:
        return 0
    admitted = min(num_free, n)
    if admitted == n:
        return n
    start_choosing(blocks.lists, worth, blocked, now)
    while admitted < n:
        k = weakest(blocks.lists)
        if k < 0:
            # Nothing is left that could be evicted: the driver's business.
            return n
        mine = least[class_of_key(blocks, keys[admitted])]
        if blocks.lists.value[k] > mine:
            request[CUT] = 1.0
            return admitted
        pass_over(blocks.lists, worth, k, blocked, now)
        admitted += 1
    return n


@kernel
def classified_select(
    blocks: Classified,
    worth: Worth,
    n: int,
    blocked: Int32Array,
    now: float,
    out: Int32Array,
) -> int:
    """Take the least worthy slots out of their lists."""
    return take_weakest(blocks.lists, worth, n, blocked, now, out)


@kernel
def release(blocks: Classified, slots: Int32Array) -> None:
    """Note that the keys of slots are no longer resident."""
    history = blocks.history
    for i in range(slots.shape[0]):
        entry = blocks.entry[slots[i]]
        if entry == NO_ENTRY:
            continue
        blocks.entry[slots[i]] = NO_ENTRY
        history.slot[entry] = NO_SLOT
        if history.listed[entry] == UNLISTED:
            history_list(history, entry, FORGETTABLE)


@kernel
def classified_remove(blocks: Classified, slots: Int32Array) -> None:
    """Take slots out, whatever they are worth."""
    for i in range(slots.shape[0]):
        unlink(blocks.lists.links, slots[i])
    release(blocks, slots)


@kernel
def classified_insert(
    blocks: Classified,
    slots: Int32Array,
    keys: KeyArray,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, the head newest."""
    start_placing(blocks.lists)
    for i in range(slots.shape[0]):
        entry = history_find(blocks.history, keys[i])
        k = 0
        if entry != NO_ENTRY:
            k = class_of(blocks.history.seen[entry])
            bind(blocks, entry, slots[i])
        place(blocks.lists, slots[i], k, now)
    note_insert(request)


@kernel
def _move_all(blocks: Classified, slots: Int32Array, now: float) -> None:
    start_placing(blocks.lists)
    for i in range(slots.shape[0]):
        slot = slots[i]
        entry = blocks.entry[slot]
        k = blocks.lists.member[slot]
        if entry != NO_ENTRY:
            k = class_of(blocks.history.seen[entry])
        unlink(blocks.lists.links, slot)
        place(blocks.lists, slot, k, now)


@kernel
def classified_use(
    blocks: Classified, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest of their classes, the head newest of all."""
    _move_all(blocks, slots, now)
    note_hit(request, slots.shape[0])


@kernel
def classified_finish(
    blocks: Classified, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Put slots in order where tails look newer than heads."""
    if needs_order(request):
        _move_all(blocks, slots, now)


@kernel
def classified_scores(
    blocks: Classified, worth: Worth, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write what slots are worth to ``out``."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        k = blocks.lists.member[slot]
        out[i] = worth_of(worth, k, blocks.lists.used[slot], now)
