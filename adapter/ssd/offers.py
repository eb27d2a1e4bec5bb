"""Which of the blocks that are offered are stored, and what goes for them."""

from __future__ import annotations

from typing import NamedTuple

from hotset.adapter.ssd.blocks import Blocks
from hotset.adapter.ssd.slot import MAX_KEY_BYTES
from hotset.policies.request import Request


class Bounds(NamedTuple):
    """How many blocks there is room for.

    Parameters
    ----------
    slots : int
        On the disk, now.
    budget, queue : int
        In the budget of written bytes and in the queue of writes.
    """

    slots: int
    budget: int
    queue: int


def offer(
    blocks: Blocks,
    bounds: Bounds,
    request: Request,
    keys: list[bytes],
    depths: list[int],
) -> set[bytes]:
    """Offer blocks to admission and policy, head first; return which are taken.

    What the budget or the queue has no room for is the end of the offer; those that
    admission or policy refuse take none of it.
    """
    counts = blocks.counts
    taken: set[bytes] = set()
    if not bounds.slots:
        counts["stores", "no_room"] += len(keys)
        return taken
    if any(len(key) > MAX_KEY_BYTES for key in keys):
        counts["stores", "long_key"] += len(keys)
        return taken
    left = min(bounds.budget, bounds.queue)
    at = 0
    while at < len(keys) and left > 0:
        part = slice(at, min(len(keys), at + left))
        stored = _offer_part(
            blocks, bounds.slots, request, keys[part], depths[part], keys
        )
        at = part.stop
        taken.update(stored)
        left -= len(stored)
    if at < len(keys):
        why = "queue" if bounds.queue < bounds.budget else "budget"
        counts["stores", why] += len(keys) - at
    return taken


def _offer_part(
    blocks: Blocks,
    limit: int,
    request: Request,
    keys: list[bytes],
    depths: list[int],
    protected: list[bytes],
) -> list[bytes]:
    driver, counts = blocks.driver, blocks.counts
    excess = len(driver) + len(keys) - limit
    if limit < driver.capacity and excess > 0:
        # The disk holds less than the policy thinks.
        evicted = driver.evict(min(excess, driver.num_evictable), protected)
        blocks.evicted(evicted or [], "no_room")
        room = max(0, limit - len(driver))
        counts["stores", "no_room"] += max(0, len(keys) - room)
        keys, depths = keys[:room], depths[:room]
    if not keys:
        return []
    stored = driver.offer(request, keys, depths, whole=False, protected=protected)
    if stored is None:
        counts["stores", "in_use"] += len(keys)
        return []
    blocks.evicted(stored.evicted, "policy")
    counts["stores", "admission"] += stored.refused_by_admission
    counts["stores", "policy"] += stored.refused_by_policy
    return stored.keys
