"""What an engine did in the measuring window: from the arrival of its first request on.

Requests of the warm-up that are still there then are not measured, but what the
machine does for them in the window is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hotset.sim.engine import Engine
from hotset.sim.tiers import TwoTiers
from hotset.sim.transfers import Link

Counters = dict[str, Any]  # numbers that only grow, some of them in dicts of their own


class Window:
    """The measuring window of a run.

    Parameters
    ----------
    engine : Engine
        The engine, before it has done anything.
    first, middle : int
        The first measured request, and the first one of the window's second half;
        requests come in order.
    """

    def __init__(self, engine: Engine, first: int, middle: int) -> None:
        self.first, self.middle = first, middle
        self._engine = engine
        before = _counters(engine)
        self._before = {first: before, middle: before}

    def note_arrival(self, index: int) -> None:
        """Take note of a request that comes now."""
        if index in self._before:
            self._before[index] = _counters(self._engine)

    def counters(self) -> Counters:
        """Return what happened since the window began."""
        return _difference(_counters(self._engine), self._before[self.first])

    def halves(self) -> list[tuple[int, Counters]]:
        """Return what happened since the window began, and since its second half did.

        Each with the request that came then.
        """
        now = _counters(self._engine)
        return [
            (index, _difference(now, self._before[index]))
            for index in (self.first, self.middle)
        ]

    def reuse_ages_s(self) -> list[float]:
        """Return the ages of what was loaded since the window began."""
        return self._engine.tier.reuse_ages_s[self._before[self.first]["loads"] :]


def device_links(engine: Engine) -> dict[str, Link]:
    """Return an engine's links by name."""
    links = {"cpu_load": engine.load_link, "cpu_store": engine.store_link}
    if not engine.spec.is_duplex:
        links = {"cpu": engine.load_link}
    if engine.ssd is not None:
        links["ssd_read"] = engine.ssd.read_link
        links["ssd_write"] = engine.ssd.write_link
    return links


def _counters(engine: Engine) -> Counters:
    tier = engine.tier
    found: Counters = {
        "time_s": engine.env.now,
        "busy_s": engine.busy.total_s,
        "present_s": engine.present.total_s,
        "pool_s": engine.pool_use.total_s,
        "held_blocks_s": engine.held_blocks.total_s,
        "holders_s": engine.holders.total_s,
        "steps": engine.batcher.step,
        "crowded_steps": engine.num_crowded_steps,
        "crowded_sequences": engine.num_crowded_sequences,
        "loaded_tokens": engine.num_loaded_tokens,
        "loads": len(tier.reuse_ages_s),
        "policy_faults": tier.num_faults,
        "cpu": dataclasses.asdict(tier.counts),
        "links": {name: _link(link) for name, link in device_links(engine).items()},
    }
    if isinstance(tier, TwoTiers):
        found["ssd"] = dataclasses.asdict(tier.ssd.counts)
        found["ssd_policy_faults"] = tier.ssd.driver.num_faults
    return found


def _link(link: Link) -> Counters:
    return {
        "bytes": link.num_bytes,
        "transfers": link.num_transfers,
        "busy_s": link.busy.total_s,
        "wait_s": link.wait_s,
    }


def _difference(after: Counters, before: Counters) -> Counters:
    return {
        name: _difference(value, before[name])
        if isinstance(value, dict)
        else value - before[name]
        for name, value in after.items()
    }
