"""Slots in order of their keys, smallest (key, tie) first: a calendar queue.

Keys are cut into days of one width, and each day that is near enough has a list of its
slots. Whatever is put in goes to the end of its day's list; order is made where victims
are taken: those of the first day that came in order leave it one by one, those of any
other one go through a heap that is as small as the day. So the order is exact whatever
the keys are, and a slot costs the same among a thousand or a million, if the days are
about as wide as the keys are apart.

Slots of days that have passed or are too far ahead are in the heap, too.

Slots whose key changes just before they are used may stand aside until then; they come
back where a victim is chosen first that one of them could be.

Source: Brown, Calendar Queues, CACM 31(10), 1988; days are sorted late, as in the
ladder queue of Tang, Goh and Thng, TOMACS 15(3), 2005.

Cost: O(1) a slot put in or taken out, and O(log of a day's slots) where its day was out
of order; O(log n) if all keys are within a day.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.jit import inlined
from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_newest,
    make_links,
    unlink,
)
from hotset.policies.wide_heap import (
    WideHeap,
    make_wide_heap,
    wide_heap_add,
    wide_heap_remove,
)

# What `day_of` holds of slots that are in no day's list.
_ABSENT, _ASIDE, _IN_HEAP = -1, -2, -3
_FIRST, _LOWEST, _NUM_IN_DAYS, _NUM_ASIDE = range(4)
_MOST_ASIDE = 1024
_FEWEST_DAYS, _MOST_DAYS = 16, 4096
_FAR = 1 << 52  # days
_NARROWEST = 1e-9


class Calendar(NamedTuple):
    """Arrays of an order of C slots with B days, a power of two."""

    key: Float64Array  # float64[C]
    tie: Int64Array  # int64[C]
    links: Int32Array  # int32[C + B, 2]; of a slot aside, [0] is its place there
    day_of: Int32Array  # int32[C], place of a slot's day, or where else it is
    in_order: Int32Array  # int32[B], whether a day's slots came in order
    heap: WideHeap
    aside: Int32Array  # int32[A]
    skipped: Int32Array  # int32[C], scratch
    numbers: Int64Array  # int64[4]: first day, lowest with slots, slots, aside
    days_per_key: Float64Array  # float64[1]


def width_for(capacity: int, span: float) -> float:
    """Return how wide days may be where keys of one time are so far apart, about."""
    return max(2.0 * span / _num_days(capacity), _NARROWEST)


def _num_days(capacity: int) -> int:
    days = _FEWEST_DAYS
    while days < _MOST_DAYS and days < capacity // 4:
        days *= 2
    return days


def make_calendar(capacity: int, width: float) -> Calendar:
    """Return an empty order of ``capacity`` slots, with days of a width above 0."""
    days = _num_days(capacity)
    return Calendar(
        key=np.zeros(capacity, np.float64),
        tie=np.zeros(capacity, np.int64),
        links=make_links(capacity, days),
        day_of=np.full(capacity, _ABSENT, np.int32),
        in_order=np.zeros(days, np.int32),
        heap=make_wide_heap(capacity),
        aside=np.zeros(min(capacity, _MOST_ASIDE), np.int32),
        skipped=np.zeros(capacity, np.int32),
        numbers=np.zeros(4, np.int64),
        days_per_key=np.array([1.0 / width]),
    )


@inlined
def calendar_clear(calendar: Calendar) -> None:
    """Take every slot out."""
    clear_links(calendar.links, calendar.key.shape[0])
    calendar.day_of[:] = _ABSENT
    calendar.heap.size[0] = 0
    calendar.numbers[_NUM_IN_DAYS] = 0
    calendar.numbers[_NUM_ASIDE] = 0


@inlined
def holds(calendar: Calendar, slot: int) -> bool:
    """Return whether a slot is in the order."""
    return bool(calendar.day_of[slot] != _ABSENT)


@inlined
def _is_before(calendar: Calendar, a: int, b: int) -> bool:
    if calendar.key[a] != calendar.key[b]:
        return bool(calendar.key[a] < calendar.key[b])
    return bool(calendar.tie[a] < calendar.tie[b])


@inlined
def _day(calendar: Calendar, key: float) -> int:
    """Return the day of a key, counted from key 0; days never go back as keys grow."""
    days = key * calendar.days_per_key[0]
    return math.floor(min(max(days, -float(_FAR)), float(_FAR)))


@inlined
def _find_lowest(calendar: Calendar) -> None:
    """Go on to the next day that has slots; there must be one."""
    capacity, last = calendar.key.shape[0], calendar.in_order.shape[0] - 1
    day = calendar.numbers[_LOWEST]
    while True:
        sentinel = capacity + (day & last)
        if calendar.links[sentinel, NEWER] != sentinel:
            break
        day += 1
    calendar.numbers[_LOWEST] = day


@inlined
def _leave_day(calendar: Calendar, slot: int) -> None:
    unlink(calendar.links, slot)
    calendar.numbers[_NUM_IN_DAYS] -= 1
    if calendar.numbers[_NUM_IN_DAYS] > 0:
        _find_lowest(calendar)


@inlined
def calendar_remove(calendar: Calendar, slot: int) -> None:
    """Take a slot out; one that is not in is left alone."""
    where = int(calendar.day_of[slot])
    calendar.day_of[slot] = _ABSENT
    if where >= 0:
        _leave_day(calendar, slot)
    elif where == _IN_HEAP:
        wide_heap_remove(calendar.heap, slot)
    elif where == _ASIDE:
        place = calendar.links[slot, OLDER]
        calendar.numbers[_NUM_ASIDE] -= 1
        last = calendar.aside[calendar.numbers[_NUM_ASIDE]]
        calendar.aside[place] = last
        calendar.links[last, OLDER] = place


@inlined
def _to_heap(calendar: Calendar, slot: int) -> None:
    calendar.day_of[slot] = _IN_HEAP
    wide_heap_add(calendar.heap, slot, calendar.key[slot], calendar.tie[slot])


@inlined
def _put(calendar: Calendar, slot: int) -> None:
    """Put a slot that is not in into its day's list, or into the heap."""
    numbers = calendar.numbers
    num_days = calendar.in_order.shape[0]
    day = _day(calendar, calendar.key[slot])
    if numbers[_NUM_IN_DAYS] == 0:
        numbers[_FIRST] = day - num_days // 4
        numbers[_LOWEST] = day
    elif day >= numbers[_FIRST] + num_days:
        numbers[_FIRST] = numbers[_LOWEST]
    if day < numbers[_FIRST] or day >= numbers[_FIRST] + num_days:
        _to_heap(calendar, slot)
        return
    numbers[_LOWEST] = min(numbers[_LOWEST], day)
    numbers[_NUM_IN_DAYS] += 1
    place = day & (num_days - 1)
    sentinel = calendar.key.shape[0] + place
    newest = calendar.links[sentinel, OLDER]
    if newest == sentinel:
        calendar.in_order[place] = 1
    elif _is_before(calendar, slot, newest):
        calendar.in_order[place] = 0
    link_newest(calendar.links, sentinel, slot)
    calendar.day_of[slot] = place


@inlined
def calendar_set(calendar: Calendar, slot: int, key: float, tie: int) -> None:
    """Put a slot in with this key, or change its key."""
    calendar_remove(calendar, slot)
    calendar.key[slot] = key
    calendar.tie[slot] = tie
    _put(calendar, slot)


@inlined
def calendar_set_aside(calendar: Calendar, slot: int, key: float) -> None:
    """Change the key of a slot that is in and expected to be used before it can go."""
    calendar_remove(calendar, slot)
    calendar.key[slot] = key
    place = calendar.numbers[_NUM_ASIDE]
    if place == calendar.aside.shape[0]:
        _put(calendar, slot)
        return
    calendar.day_of[slot] = _ASIDE
    calendar.links[slot, OLDER] = place
    calendar.aside[place] = slot
    calendar.numbers[_NUM_ASIDE] += 1


@inlined
def calendar_rebuild(calendar: Calendar) -> None:
    """Restore the order after keys were changed in bulk."""
    for slot in range(calendar.key.shape[0]):
        calendar.skipped[slot] = calendar.day_of[slot]
    calendar_clear(calendar)
    for slot in range(calendar.key.shape[0]):
        if calendar.skipped[slot] != _ABSENT:
            _put(calendar, slot)


@inlined
def _bring_back(calendar: Calendar, blocked: Int32Array) -> None:
    """Put in what stands aside and can go."""
    for place in range(calendar.numbers[_NUM_ASIDE] - 1, -1, -1):
        slot = int(calendar.aside[place])
        if blocked[slot] == 0:
            calendar_remove(calendar, slot)
            _put(calendar, slot)


@inlined
def _open_lowest(calendar: Calendar, sentinel: int) -> None:
    """Move a day's slots to the heap; it is the lowest that has any."""
    slot = int(calendar.links[sentinel, NEWER])
    while slot != sentinel:
        following = int(calendar.links[slot, NEWER])
        _to_heap(calendar, slot)
        calendar.numbers[_NUM_IN_DAYS] -= 1
        slot = following
    calendar.links[sentinel, NEWER] = sentinel
    calendar.links[sentinel, OLDER] = sentinel
    if calendar.numbers[_NUM_IN_DAYS] > 0:
        _find_lowest(calendar)


@inlined
def _take_from_heap(calendar: Calendar) -> int:
    slot = int(calendar.heap.slot[0])
    wide_heap_remove(calendar.heap, slot)
    return slot


@inlined
def _take_first(calendar: Calendar) -> int:
    """Take the first slot of all out; there must be one."""
    heap, lowest = calendar.heap, calendar.numbers[_LOWEST]
    if calendar.numbers[_NUM_IN_DAYS] == 0:
        return _take_from_heap(calendar)
    if heap.size[0] > 0 and _day(calendar, heap.key[0]) < lowest:
        return _take_from_heap(calendar)
    place = lowest & (calendar.in_order.shape[0] - 1)
    sentinel = calendar.key.shape[0] + place
    if calendar.in_order[place] == 0:
        _open_lowest(calendar, sentinel)
        return _take_from_heap(calendar)
    slot = int(calendar.links[sentinel, NEWER])
    if heap.size[0] > 0 and _is_before(calendar, int(heap.slot[0]), slot):
        return _take_from_heap(calendar)
    _leave_day(calendar, slot)
    return slot


@inlined
def calendar_take(
    calendar: Calendar, n: int, blocked: Int32Array, out: Int32Array
) -> int:
    """Remove the n first unblocked slots into ``out``; return how many were found."""
    _bring_back(calendar, blocked)
    found = 0
    skipped = 0
    while found < n and (
        calendar.numbers[_NUM_IN_DAYS] > 0 or calendar.heap.size[0] > 0
    ):
        slot = _take_first(calendar)
        calendar.day_of[slot] = _ABSENT
        if blocked[slot] == 0:
            out[found] = slot
            found += 1
        else:
            calendar.skipped[skipped] = slot
            skipped += 1
    for i in range(skipped):
        _put(calendar, int(calendar.skipped[i]))
    return found
