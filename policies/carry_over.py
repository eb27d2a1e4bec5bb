"""Residents of a tier, told to another policy that goes on with them.

The new policy hears of them as of requests that store their blocks one after another,
from the one used longest ago to the one used last: their depths and the order of their
uses are kept, how often they were used and who stored them is not. Blocks that are next
to each other in that order, tail to head, count as one request; so that a large tier
takes no more than some calls, several such may be put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hotset.policies.arrays import Int32Array, Int64Array
from hotset.policies.jit import kernel
from hotset.policies.linked import NEWER
from hotset.policies.request import Request
from hotset.policies.slots import Slots
from hotset.policies.verbs import on_finish, on_insert, on_ready, on_request

MAX_BATCHES = 1024


@kernel
def oldest_first(links: Int32Array, sentinel: int, out: Int32Array) -> int:
    """Write the slots of a list to ``out``, the oldest first; return how many."""
    found = 0
    slot = links[sentinel, NEWER]
    while slot != sentinel:
        out[found] = slot
        found += 1
        slot = links[slot, NEWER]
    return found


def carry_over(
    tell: Callable[..., None],
    slots: Slots,
    order: Int32Array,
    depths: Int32Array,
    now: float,
    age_unit: str,
) -> None:
    """Tell a policy of all residents.

    Parameters
    ----------
    tell : callable
        Calls the policy's kernel for a verb.
    slots : Slots
        What is resident, and what is in use.
    order : int32[n]
        The resident slots, the one used longest ago first.
    depths : int32[C]
        Places of blocks in their requests, by slot.
    now : float
        The policy's clock.
    age_unit : str
        What it counts.
    """
    parts = batches(order, depths)
    ahead = len(order) if age_unit == "key" else len(parts)
    for part in parts:
        newest_first = part[::-1].copy()
        keys = slots.key[newest_first]
        fields = Request.of(num_blocks=len(part)).fields
        at = float(now) if age_unit == "second" else max(0.0, float(now) - ahead)
        ahead -= len(part) if age_unit == "key" else 1
        unseen = np.full(len(part), -1, np.int32)
        tell(on_request, keys, unseen, at, fields)
        places: Int64Array = depths[newest_first].astype(np.int64)
        tell(on_insert, newest_first, keys, places, at, fields)
        tell(on_ready, part[slots.blocked[part] == 0])
        tell(on_finish, newest_first, at, fields)


def batches(order: Int32Array, depths: Int32Array) -> list[Any]:
    """Cut an order of slots, oldest first, between requests, in at most `MAX_BATCHES`.

    Within a request tails are older than heads: where a depth is not below the one
    before, another request begins.
    """
    if not len(order):
        return []
    cuts = np.flatnonzero(np.diff(depths[order]) >= 0) + 1
    if len(cuts) >= MAX_BATCHES:
        chosen = np.linspace(0, len(cuts) - 1, MAX_BATCHES - 1).astype(np.int64)
        cuts = cuts[chosen]
    return np.split(order, cuts)
