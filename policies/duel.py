"""Two shadow caches of one traffic: LRU, and the order of learned worth.

A shadow cache holds keys only. Both are as large as the real cache and see every
request whole; what each would have hit says which order the real cache should follow.
Leaving LRU takes evidence, the sum of differences against its own noise; going back
takes none.

The entries are those of a `History`: members of the learned cache stand in its lists
1 to K, one a class; the LRU cache has links of its own. A shadow cache protects the
blocks of the request that it serves, stores the rest of it head first, and stops where
nothing is left that may go.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.history import (
    FORGETTABLE,
    NO_SLOT,
    NUM_CLASSES,
    History,
    history_list,
    history_place,
    history_take_out,
)
from hotset.policies.jit import inlined
from hotset.policies.linked import NEWER, clear_links, link_before, make_links, unlink
from hotset.policies.reuse_model import Ages, age_bucket

# Fields of Duel.numbers.
CAPACITY, IN_LRU, IN_LEARNED, REQUESTS = 0, 1, 2, 3
LRU_HITS, LEARNED_HITS, LRU_RUNS, LEARNED_RUNS, LEARNED_STORES = 4, 5, 6, 7, 8
_NUM_NUMBERS = 9

# Fields of Duel.sums: of past windows, fading; then of the window that runs.
_GAIN, _SQUARES, _ACCESSES, _WINDOW_GAIN, _WINDOW_ACCESSES = 0, 1, 2, 3, 4
_NUM_SUMS = 5

WINDOW = 10  # requests between two judgements


class Duel(NamedTuple):
    """Arrays of two shadow caches over N entries."""

    links: Int32Array  # int32[N + 1, 2], the LRU cache, oldest to newest
    recent: Int32Array  # int32[N], 1 in the LRU cache
    place: Int32Array  # int32[K + 2], scratch: where the next block goes in each list
    head: Int32Array  # int32[K], scratch: oldest member of each class that may go
    value: Float64Array  # float64[K], scratch: what it is worth
    numbers: Int64Array  # int64[9]
    sums: Float64Array  # float64[5]


def make_duel(entries: int, capacity: int) -> Duel:
    """Return two empty shadow caches of ``capacity`` keys."""
    numbers = np.zeros(_NUM_NUMBERS, np.int64)
    numbers[CAPACITY] = capacity
    return Duel(
        links=make_links(entries),
        recent=np.zeros(entries, np.int32),
        place=np.zeros(NUM_CLASSES + 2, np.int32),
        head=np.zeros(NUM_CLASSES, np.int32),
        value=np.zeros(NUM_CLASSES, np.float64),
        numbers=numbers,
        sums=np.zeros(_NUM_SUMS, np.float64),
    )


@inlined
def duel_clear(duel: Duel) -> None:
    """Empty both caches; what they scored stays."""
    clear_links(duel.links, duel.recent.shape[0])
    duel.recent[:] = 0
    duel.numbers[IN_LRU] = 0
    duel.numbers[IN_LEARNED] = 0


@inlined
def duel_forget(duel: Duel, entry: int) -> None:
    """Take an entry that gets another key out of the LRU cache."""
    if duel.recent[entry] != 0:
        unlink(duel.links, entry)
        duel.recent[entry] = 0
        duel.numbers[IN_LRU] -= 1


@inlined
def duel_start(
    duel: Duel, history: History, table: Float64Array, ages: Ages, now: float
) -> None:
    """Begin with a request."""
    entries = duel.recent.shape[0]
    for which in range(NUM_CLASSES + 1):
        duel.place[which] = entries + which
    duel.place[NUM_CLASSES + 1] = entries
    numbers = duel.numbers
    numbers[LRU_HITS] = 0
    numbers[LEARNED_HITS] = 0
    numbers[LRU_RUNS] = 1
    numbers[LEARNED_RUNS] = 1
    numbers[LEARNED_STORES] = 1
    for k in range(NUM_CLASSES):
        _look_at(duel, history, table, ages, k, now)


@inlined
def duel_miss(duel: Duel) -> None:
    """Note a key that has no entry: both caches miss it."""
    duel.numbers[LRU_RUNS] = 0
    duel.numbers[LEARNED_RUNS] = 0


@inlined
def duel_lru(duel: Duel, history: History, entry: int, now: float) -> None:
    """Use a key in the LRU cache, storing it where it is missing."""
    numbers, links, entries = duel.numbers, duel.links, duel.recent.shape[0]
    if duel.recent[entry] != 0:
        numbers[LRU_HITS] += numbers[LRU_RUNS]
        unlink(links, entry)
    else:
        numbers[LRU_RUNS] = 0
        if numbers[IN_LRU] < numbers[CAPACITY]:
            numbers[IN_LRU] += 1
        else:
            oldest = links[entries, NEWER]
            if history.last[oldest] == now:
                return
            unlink(links, oldest)
            duel.recent[oldest] = 0
        duel.recent[entry] = 1
    link_before(links, duel.place[NUM_CLASSES + 1], entry)
    duel.place[NUM_CLASSES + 1] = entry


@inlined
def duel_learned(
    duel: Duel,
    history: History,
    table: Float64Array,
    ages: Ages,
    entry: int,
    k: int,
    now: float,
) -> None:
    """Use a key of class k in the learned cache, storing it where it is worth it.

    A key that stays outside goes to the newest end of list 0, unless it is resident in
    the real cache.
    """
    numbers = duel.numbers
    was_in = history.listed[entry] - 1
    if was_in >= 0:
        numbers[LEARNED_HITS] += numbers[LEARNED_RUNS]
        _place(duel, history, entry, 1 + k)
        if duel.head[was_in] == entry:
            _look_at(duel, history, table, ages, was_in, now)
        return
    numbers[LEARNED_RUNS] = 0
    if numbers[LEARNED_STORES] != 0:
        if numbers[IN_LEARNED] < numbers[CAPACITY]:
            numbers[IN_LEARNED] += 1
            _place(duel, history, entry, 1 + k)
            return
        weakest = _weakest(duel, history)
        if weakest >= 0 and duel.value[weakest] <= table[k, 0]:
            victim = duel.head[weakest]
            if history.slot[victim] == NO_SLOT:
                history_list(history, victim, FORGETTABLE)
            else:
                history_take_out(history, victim)
            _look_at(duel, history, table, ages, weakest, now)
            _place(duel, history, entry, 1 + k)
            return
        numbers[LEARNED_STORES] = 0
    if history.slot[entry] == NO_SLOT:
        _place(duel, history, entry, FORGETTABLE)


@inlined
def _place(duel: Duel, history: History, entry: int, which: int) -> None:
    history_place(history, entry, which, duel.place[which])
    duel.place[which] = entry


@inlined
def _look_at(
    duel: Duel,
    history: History,
    table: Float64Array,
    ages: Ages,
    k: int,
    now: float,
) -> None:
    """Find the oldest member of a class, unless the request that is served uses it."""
    entries = history.last.shape[0]
    entry = history.links[entries + 1 + k, NEWER]
    duel.head[k] = -1
    if entry < entries and history.last[entry] != now:
        duel.head[k] = entry
        duel.value[k] = table[k, age_bucket(ages, now - history.last[entry])]


@inlined
def _weakest(duel: Duel, history: History) -> int:
    """Return the class of the least worthy member, or -1."""
    best = -1
    for k in range(NUM_CLASSES):
        if duel.head[k] < 0 or (best >= 0 and duel.value[k] > duel.value[best]):
            continue
        if (
            best < 0
            or duel.value[k] < duel.value[best]
            or history.last[duel.head[k]] < history.last[duel.head[best]]
        ):
            best = k
    return best


@inlined
def duel_end(duel: Duel, num_keys: int) -> bool:
    """Count a request; return whether it was the last of its window."""
    numbers, sums = duel.numbers, duel.sums
    sums[_WINDOW_GAIN] += numbers[LEARNED_HITS] - numbers[LRU_HITS]
    sums[_WINDOW_ACCESSES] += num_keys
    numbers[REQUESTS] += 1
    return bool(numbers[REQUESTS] % WINDOW == 0)


@inlined
def duel_judge(
    duel: Duel, fade: float, evidence: float, min_gain: float, learned: bool
) -> bool:
    """Close a window; return whether the learned order should be followed.

    Parameters
    ----------
    fade : float
        What older windows count, for each window.
    evidence : float
        Standard deviations of the summed gain that leaving LRU takes.
    min_gain : float
        Gain that it takes as well, hits by accesses.
    learned : bool
        Whether the learned order is followed now; it is until its gain is lost.
    """
    sums = duel.sums
    gain = sums[_WINDOW_GAIN]
    sums[_GAIN] = sums[_GAIN] * fade + gain
    sums[_SQUARES] = sums[_SQUARES] * fade * fade + gain * gain
    sums[_ACCESSES] = sums[_ACCESSES] * fade + sums[_WINDOW_ACCESSES]
    sums[_WINDOW_GAIN] = 0.0
    sums[_WINDOW_ACCESSES] = 0.0
    if learned:
        return bool(sums[_GAIN] >= 0.0)
    noise = np.sqrt(sums[_SQUARES])
    enough = sums[_GAIN] > min_gain * sums[_ACCESSES]
    return bool(enough and sums[_GAIN] > evidence * noise)
