"""A small tier's way through every call of a driver, so that all kernels compile."""

from __future__ import annotations

from typing import Any

from hotset.policies.keys import KeyBatch


def use_every_call(tier: Any) -> None:
    """Make every call of a `PolicyDriver` of 2 slots, and leave it empty.

    Each is made with arguments of every type that serving passes.
    """
    for key in range(4):
        request, batch = tier.begin(), KeyBatch.of([key])
        tier.observe(request, batch)
        tier.note_lookup([key])
        for _sight in range(2):
            if tier.offer(request, [key]) is not None:
                tier.complete([key])
        tier.hit(request, batch)
        held = [key] if key in tier else []
        tier.pin(held)
        tier.unpin(held)
        tier.finish(request, batch)
    tier.scores([])
    _ = tier.num_free, tier.num_evictable
    tier.evict(1)
    tier.remove([3])
    tier.reset()
    tier.announce(tier.begin(), [4], [0])
    tier.insert(tier.begin(), [4], [0])
    for _sight in range(2):
        tier.offer(tier.begin(), [5, 6])  # refused: a slot is being written
    tier.reset()


def use_all(tier: Any, *run: Any) -> None:
    """Make every call of a `PolicyDriver` of 2 slots, and again on its fallback.

    ``run`` is what it runs: policy and parameters, rule and parameters.
    """
    use_every_call(tier)
    tier.insert(tier.begin(), [1], [0])
    tier.retune(*run)
    tier.reset()
    tier.fall_back()
    use_every_call(tier)
