"""Recency lists of slots, one for each class, and the least worthy slot among them.

Within a class the block unused for the longest time is worth the least, so the least
worthy of all is at the old end of some list: O(K) a victim, whatever the capacity.
What blocks of a class are worth at an age is a `Worth`; the lowest goes first, equals
by last use, then by class.

Blocks of one request are placed head first, each just older than the one before it in
its class, so that tails age before heads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined
from hotset.policies.linked import (
    NEWER,
    clear_links,
    link_before,
    make_links,
    unlink,
)
from hotset.policies.reuse_model import Ages, age_bucket, make_ages


class ClassLists(NamedTuple):
    """Arrays of K lists over C slots."""

    links: Int32Array  # int32[C + K, 2], each list oldest to newest
    member: Int32Array  # int32[C], class of a listed slot
    used: Float64Array  # float64[C], last use of a listed slot
    at: Int32Array  # int32[K], scratch: a place in each list
    value: Float64Array  # float64[K], scratch: what the block there is worth


class Worth(NamedTuple):
    """What a block is worth, by class and age.

    By expiry (``learned`` 0), that is ``span[class] + last use``; learned (1), that is
    ``table[class, bucket of age]``.
    """

    span: Float64Array  # float64[K]
    table: Float64Array  # float64[K, B]
    learned: Int64Array  # int64[1]
    ages: Ages


def make_class_lists(capacity: int, num_classes: int) -> ClassLists:
    """Return empty lists."""
    return ClassLists(
        links=make_links(capacity, num_classes),
        member=np.zeros(capacity, np.int32),
        used=np.zeros(capacity, np.float64),
        at=np.zeros(num_classes, np.int32),
        value=np.zeros(num_classes, np.float64),
    )


def make_worth(num_classes: int) -> Worth:
    """Return the worth that makes the lists one LRU order."""
    ages = make_ages()
    return Worth(
        span=np.zeros(num_classes, np.float64),
        table=np.zeros((num_classes, ages.edge.shape[0] - 1), np.float64),
        learned=np.zeros(1, np.int64),
        ages=ages,
    )


@inlined
def class_lists_clear(lists: ClassLists) -> None:
    """Empty every list."""
    clear_links(lists.links, lists.member.shape[0])


@inlined
def start_placing(lists: ClassLists) -> None:
    """Begin with the blocks of a request: the next placed is the newest."""
    capacity = lists.member.shape[0]
    for k in range(lists.at.shape[0]):
        lists.at[k] = capacity + k


@inlined
def place(lists: ClassLists, slot: int, k: int, now: float) -> None:
    """Put an unlisted slot into class k as the next block of the request."""
    link_before(lists.links, lists.at[k], slot)
    lists.at[k] = slot
    lists.member[slot] = k
    lists.used[slot] = now


@inlined
def worth_of(worth: Worth, k: int, used: float, now: float) -> float:
    """Return what a block of class k is worth."""
    if worth.learned[0]:
        return worth.table[k, age_bucket(worth.ages, now - used)]
    return worth.span[k] + used


@inlined
def _go_to(
    lists: ClassLists, worth: Worth, k: int, slot: int, blocked: Int32Array, now: float
) -> None:
    """Go to a slot of class k, or the next unblocked one behind it."""
    capacity = lists.member.shape[0]
    while slot < capacity and blocked[slot] != 0:
        slot = lists.links[slot, NEWER]
    lists.at[k] = slot
    if slot < capacity:
        lists.value[k] = worth_of(worth, k, lists.used[slot], now)


@inlined
def start_choosing(
    lists: ClassLists, worth: Worth, blocked: Int32Array, now: float
) -> None:
    """Begin with victims: go to the oldest unblocked slot of every class."""
    capacity = lists.member.shape[0]
    for k in range(lists.at.shape[0]):
        _go_to(lists, worth, k, lists.links[capacity + k, NEWER], blocked, now)


@inlined
def weakest(lists: ClassLists) -> int:
    """Return the class with the least worthy slot, -1 where all are used up.

    The slot is ``lists.at[class]``, what it is worth ``lists.value[class]``.
    """
    capacity = lists.member.shape[0]
    best = -1
    for k in range(lists.at.shape[0]):
        if lists.at[k] >= capacity:
            continue
        if best >= 0 and lists.value[k] > lists.value[best]:
            continue
        if (
            best < 0
            or lists.value[k] < lists.value[best]
            or lists.used[lists.at[k]] < lists.used[lists.at[best]]
        ):
            best = k
    return best


@inlined
def pass_over(
    lists: ClassLists, worth: Worth, k: int, blocked: Int32Array, now: float
) -> None:
    """Go on to the next unblocked slot of class k."""
    _go_to(lists, worth, k, lists.links[lists.at[k], NEWER], blocked, now)


@inlined
def take_weakest(
    lists: ClassLists,
    worth: Worth,
    n: int,
    blocked: Int32Array,
    now: float,
    out: Int32Array,
) -> int:
    """Unlink the n least worthy unblocked slots into ``out``; return how many."""
    start_choosing(lists, worth, blocked, now)
    for found in range(n):
        k = weakest(lists)
        if k < 0:
            return found
        slot = lists.at[k]
        pass_over(lists, worth, k, blocked, now)
        unlink(lists.links, slot)
        out[found] = slot
    return n
