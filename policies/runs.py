"""Slots in order of their keys, smallest (key, tie) first, kept in sorted runs.

The blocks of a request are used tail first at one moment, and the nearer the head the
more a block is worth: what is put in one after the other is mostly in order already.
Each such run is a list, and the smallest slot of all is in front of some run: a heap of
runs is far smaller than one of slots, and victims leave a run one after another. A slot
that would stand out of order in the last run begins another, so the order is exact
whatever the keys are.

What the heap knows of a run is the key of a slot that was its front, so not more than
that of its front, and is mended when it comes first.

Slots whose key changes just before they are used may stand aside until then; they come
back where a victim is chosen first that one of them could be.

Cost: O(1) a slot within a run, O(log of the runs) where one begins or ends, and for a
victim in front of another run than the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.fronts import (
    Fronts,
    fronts_add,
    fronts_mend,
    fronts_remove,
    make_fronts,
)
from hotset.policies.jit import inlined
from hotset.policies.linked import (
    NEWER,
    OLDER,
    clear_links,
    link_newest,
    make_links,
    unlink,
)

# What `run_of` holds of slots that are in no run.
_ABSENT, _ASIDE = -1, -2
_LAST, _NUM_FREE, _NUM_ASIDE = 0, 1, 2
_NONE = -1
_MOST_ASIDE = 1024


class Runs(NamedTuple):
    """Arrays of at most C runs of C slots."""

    key: Float64Array  # float64[C]
    tie: Int64Array  # int64[C]
    links: Int32Array  # int32[2 C, 2]; of a slot aside, [0] is its place there
    run_of: Int32Array  # int32[C], run of a slot, or where else it is
    fronts: Fronts  # runs that are not empty
    free: Int32Array  # int32[C], stack of runs not in use
    aside: Int32Array  # int32[A]
    skipped: Int32Array  # int32[C], scratch
    numbers: Int64Array  # int64[3]: the last run or -1, free runs, slots aside


def make_runs(capacity: int) -> Runs:
    """Return an empty order of ``capacity`` slots."""
    return Runs(
        key=np.zeros(capacity, np.float64),
        tie=np.zeros(capacity, np.int64),
        links=make_links(capacity, capacity),
        run_of=np.full(capacity, _ABSENT, np.int32),
        fronts=make_fronts(capacity),
        free=np.arange(capacity, dtype=np.int32),
        aside=np.zeros(min(capacity, _MOST_ASIDE), np.int32),
        skipped=np.zeros(capacity, np.int32),
        numbers=np.array([_NONE, capacity, 0], np.int64),
    )


@inlined
def runs_clear(runs: Runs) -> None:
    """Take every slot out."""
    capacity = runs.key.shape[0]
    clear_links(runs.links, capacity)
    runs.run_of[:] = _ABSENT
    runs.fronts.size[0] = 0
    for which in range(capacity):
        runs.free[which] = which
    runs.numbers[_LAST] = _NONE
    runs.numbers[_NUM_FREE] = capacity
    runs.numbers[_NUM_ASIDE] = 0


@inlined
def holds(runs: Runs, slot: int) -> bool:
    """Return whether a slot is in the order."""
    return bool(runs.run_of[slot] != _ABSENT)


@inlined
def _is_before(runs: Runs, a: int, b: int) -> bool:
    if runs.key[a] != runs.key[b]:
        return bool(runs.key[a] < runs.key[b])
    return bool(runs.tie[a] < runs.tie[b])


@inlined
def _end_if_empty(runs: Runs, which: int) -> None:
    sentinel = runs.key.shape[0] + which
    if runs.links[sentinel, NEWER] == sentinel:
        fronts_remove(runs.fronts, which)
        runs.free[runs.numbers[_NUM_FREE]] = which
        runs.numbers[_NUM_FREE] += 1
        if runs.numbers[_LAST] == which:
            runs.numbers[_LAST] = _NONE


@inlined
def runs_remove(runs: Runs, slot: int) -> None:
    """Take a slot out; one that is not in is left alone."""
    which = int(runs.run_of[slot])
    runs.run_of[slot] = _ABSENT
    if which >= 0:
        unlink(runs.links, slot)
        _end_if_empty(runs, which)
    elif which == _ASIDE:
        place = runs.links[slot, OLDER]
        runs.numbers[_NUM_ASIDE] -= 1
        last = runs.aside[runs.numbers[_NUM_ASIDE]]
        runs.aside[place] = last
        runs.links[last, OLDER] = place


@inlined
def _put(runs: Runs, slot: int) -> None:
    """Put a slot that is not in at the end of the last run, or begin another."""
    capacity = runs.key.shape[0]
    which = runs.numbers[_LAST]
    if which == _NONE or _is_before(runs, slot, runs.links[capacity + which, OLDER]):
        runs.numbers[_NUM_FREE] -= 1
        which = int(runs.free[runs.numbers[_NUM_FREE]])
        runs.numbers[_LAST] = which
        fronts_add(runs.fronts, which, runs.key[slot], runs.tie[slot])
    link_newest(runs.links, capacity + which, slot)
    runs.run_of[slot] = which


@inlined
def runs_set(runs: Runs, slot: int, key: float, tie: int) -> None:
    """Put a slot in with this key, or change its key."""
    runs_remove(runs, slot)
    runs.key[slot] = key
    runs.tie[slot] = tie
    _put(runs, slot)


@inlined
def runs_set_aside(runs: Runs, slot: int, key: float) -> None:
    """Change the key of a slot that is in and expected to be used before it can go."""
    runs_remove(runs, slot)
    runs.key[slot] = key
    place = runs.numbers[_NUM_ASIDE]
    if place == runs.aside.shape[0]:
        _put(runs, slot)
        return
    runs.run_of[slot] = _ASIDE
    runs.links[slot, OLDER] = place
    runs.aside[place] = slot
    runs.numbers[_NUM_ASIDE] += 1


@inlined
def runs_rebuild(runs: Runs) -> None:
    """Restore the order after keys were changed in bulk."""
    for slot in range(runs.key.shape[0]):
        runs.skipped[slot] = runs.run_of[slot]
    capacity = runs.key.shape[0]
    runs_clear(runs)
    for slot in range(capacity):
        if runs.skipped[slot] != _ABSENT:
            _put(runs, slot)


@inlined
def _bring_back(runs: Runs, blocked: Int32Array) -> None:
    """Put in what stands aside and can go."""
    for place in range(runs.numbers[_NUM_ASIDE] - 1, -1, -1):
        slot = int(runs.aside[place])
        if blocked[slot] == 0:
            runs_remove(runs, slot)
            _put(runs, slot)


@inlined
def runs_take(runs: Runs, n: int, blocked: Int32Array, out: Int32Array) -> int:
    """Remove the n first unblocked slots into ``out``; return how many were found."""
    capacity, fronts = runs.key.shape[0], runs.fronts
    _bring_back(runs, blocked)
    found = 0
    skipped = 0
    while found < n and fronts.size[0] > 0:
        slot = int(runs.links[capacity + fronts.run[0], NEWER])
        key, tie = runs.key[slot], runs.tie[slot]
        if fronts.key[0] != key or fronts.tie[0] != tie:
            fronts_mend(fronts, key, tie)
            continue
        runs_remove(runs, slot)
        if blocked[slot] == 0:
            out[found] = slot
            found += 1
        else:
            runs.skipped[skipped] = slot
            skipped += 1
    for i in range(skipped):
        _put(runs, int(runs.skipped[i]))
    return found
