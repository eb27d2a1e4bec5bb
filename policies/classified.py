"""Resident blocks in classes by how often they were seen, with their past.

What `guard` and `adaptive` have in common: a recency list for each class
(`ClassLists`), and a memory of keys (`History`) that tells a block's class when it is
used or comes back; and the verbs that are the same for both. A resident block keeps its
entry out of the memory's list 0; when it goes, the entry becomes forgettable, unless a
shadow cache holds it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
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
from hotset.policies.jit import inlined, kernel
from hotset.policies.key_table import NO_ENTRY
from hotset.policies.linked import unlink
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.request import CUT


class Classified(NamedTuple):
    """Resident slots by class, and the keys that are remembered."""

    lists: ClassLists
    history: History
    entry: Int32Array  # int32[C], entry of a slot's key, or NO_ENTRY


class Classifying(Protocol):
    """The state of a policy over such blocks."""

    @property
    def blocks(self) -> Classified:
        """The blocks and their past."""

    @property
    def worth(self) -> Worth:
        """What a block of a class and an age is worth."""

    @property
    def least(self) -> Float64Array:
        """What newcomers of each class are worth, float64[K]."""


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


@inlined
def entry_of(blocks: Classified, key: int, slot: int) -> int:
    """Return the entry of a key, by its slot where it is resident, or NO_ENTRY."""
    if slot >= 0 and blocks.entry[slot] != NO_ENTRY:
        return blocks.entry[slot]
    return history_find(blocks.history, key)


@inlined
def bind(blocks: Classified, entry: int, slot: int) -> None:
    """Note that the key of an entry is in a slot, if that is no shadow's business."""
    blocks.entry[slot] = entry
    blocks.history.slot[entry] = slot
    if blocks.history.listed[entry] == FORGETTABLE:
        history_take_out(blocks.history, entry)


@inlined
def class_of_key(blocks: Classified, key: int) -> int:
    """Return the class that a block would have; 0 where its key is not remembered."""
    entry = history_find(blocks.history, key)
    return 0 if entry == NO_ENTRY else class_of(blocks.history.seen[entry])


@kernel
def classified_admit(
    state: Classifying,
    keys: KeyArray,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Return how many keys, the first ones, displace only what is worth no more."""
    blocks, worth = state.blocks, state.worth
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
        mine = state.least[class_of_key(blocks, keys[admitted])]
        if blocks.lists.value[k] > mine:
            request[CUT] = 1.0
            return admitted
        pass_over(blocks.lists, worth, k, blocked, now)
        admitted += 1
    return n


@kernel
def classified_select(
    state: Classifying, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Choose the least worthy slots."""
    return take_weakest(state.blocks.lists, state.worth, n, blocked, now, out)


@kernel
def classified_on_evict(state: Classifying, slots: Int32Array) -> None:
    """Remember the keys of slots that are no longer resident."""
    blocks, history = state.blocks, state.blocks.history
    for i in range(slots.shape[0]):
        entry = blocks.entry[slots[i]]
        if entry == NO_ENTRY:
            continue
        blocks.entry[slots[i]] = NO_ENTRY
        history.slot[entry] = NO_SLOT
        if history.listed[entry] == UNLISTED:
            history_list(history, entry, FORGETTABLE)


@kernel
def classified_on_remove(state: Classifying, slots: Int32Array) -> None:
    """Take slots out, whatever they are worth."""
    for i in range(slots.shape[0]):
        unlink(state.blocks.lists.links, slots[i])
    classified_on_evict(state, slots)


@kernel
def classified_on_insert(
    state: Classifying,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, the head newest."""
    blocks = state.blocks
    start_placing(blocks.lists)
    for i in range(slots.shape[0]):
        entry = history_find(blocks.history, keys[i])
        k = 0
        if entry != NO_ENTRY:
            k = class_of(blocks.history.seen[entry])
            bind(blocks, entry, slots[i])
        place(blocks.lists, slots[i], k, now)
    note_insert(request)


@inlined
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
def classified_on_hit(
    state: Classifying, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Make slots the newest of their classes, the head newest of all."""
    _move_all(state.blocks, slots, now)
    note_hit(request, slots.shape[0])


@kernel
def classified_on_finish(
    state: Classifying, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Put slots in order where tails look newer than heads."""
    if needs_order(request):
        _move_all(state.blocks, slots, now)


@kernel
def classified_scores(
    state: Classifying, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write what slots are worth."""
    lists = state.blocks.lists
    for i in range(slots.shape[0]):
        slot = slots[i]
        out[i] = worth_of(state.worth, lists.member[slot], lists.used[slot], now)
