"""The offloading manager with an SSD tier behind the CPU tier.

It answers vLLM as `HotsetManager` does, and puts what concerns the SSD to an `SsdTier`.
What fails there is logged once and counted; from then on nothing is read from SSD or
written to it, and the CPU tier goes on.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hotset.adapter import compat
from hotset.adapter.live import Live
from hotset.adapter.manager import HotsetManager
from hotset.adapter.ssd.tier import SsdTier
from hotset.policies.outcomes import Status, Stored

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class SsdManager(HotsetManager):
    """A CPU tier and an SSD tier, each under one of hotset's policies.

    Parameters
    ----------
    ssd : SsdTier
        The SSD tier, over the same driver.
    flush_steps : int
        Steps after a reset in which vLLM's own transfers may still be under way.
    close_s : float
        How long the end may take.
    on_closed : callable
        Frees the memory of the CPU tier, once nothing uses it.
    **tier
        The CPU tier, as `HotsetManager` takes it.
    """

    def __init__(
        self,
        ssd: SsdTier,
        flush_steps: int,
        close_s: float,
        on_closed: Callable[[], None],
        **tier: Any,
    ) -> None:
        super().__init__(**tier)
        self.ssd = ssd
        self.num_ssd_faults = 0
        self._flush_steps = flush_steps
        self._close_s = close_s
        self._on_closed = on_closed
        self._is_closed = False
        ssd.watch(self._note_promotion, self._note_arrival)
        atexit.register(self.shutdown)  # an engine in the client's process is not ended

    # What vLLM calls

    def get_load_source(self, key: Any, req_context: Any) -> Any:
        """Return where a chunk was when the request asked for it first."""
        live = self._requests.find(req_context)
        if live is not None and key in live.from_ssd:
            return compat.load_source("DISK")
        return compat.load_source()

    def prepare_load(self, keys: Any, req_context: Any) -> Any:
        """Pin chunks for a load, and count those that came from SSD."""
        answer = super().prepare_load(keys, req_context)
        self._try(self._note_load, list(keys), req_context)
        return answer

    def on_schedule_end(self, *context: Any) -> None:
        """Begin the promotions of a step; vLLM up to 0.22 does not call this."""
        self._try(self.ssd.promote, self._requests.found)

    def take_events(self) -> Iterable[Any]:
        """Return the events since the last call, and take in what the SSD did."""
        self._try(self.ssd.promote, self._requests.found)
        self._try(self.ssd.poll)
        self.ssd.end_step()
        return super().take_events()

    def reset_cache(self) -> None:
        """Empty both tiers: vLLM may have changed what the chunks were made with."""
        super().reset_cache()
        self._try(self.ssd.reset, self._flush_steps)

    def on_reset_flushed(self) -> None:
        """Note that vLLM's transfers of before a reset have ended; from 0.33 on."""
        self.ssd.note_flushed()

    def get_stats(self) -> Any:
        """Return what is new since the last call."""
        self._try(self._count_ssd)
        return super().get_stats()

    def shutdown(self) -> None:
        """Write what is still to be written, for so long at most."""
        super().shutdown()
        atexit.unregister(self.shutdown)
        if not self._is_closed:
            self._is_closed = True
            self._try(self.ssd.close, self._close_s)
            self._try(self._on_closed)

    # What the tier below adds

    def _hear(self, req_context: Any, keys: Iterable[Any]) -> Live:
        live = super()._hear(req_context, keys)
        self._try(self.ssd.hear, live)
        return live

    def _find(self, key: Any, live: Live | None) -> Status:
        status = super()._find(key, live)
        if live is None:
            return status
        return self._try(self.ssd.find, key, live, status) or status

    def lookup(self, key: Any, req_context: Any) -> Any:
        """Return whether a chunk can be loaded, now or once it is promoted."""
        if not compat.HAS_REQUEST_HOOKS and self._requests.find(req_context) is None:
            self._start(req_context)
        return super().lookup(key, req_context)

    def _chunks_in(self, slots: list[int]) -> list[int]:
        return self.ssd.rows_of(slots)

    def _take_leave(self, live: Live, stored: Stored[Any]) -> None:
        self._try(self.ssd.demote, stored.evicted, stored.freed)
        self._try(self.ssd.note_store, live, stored)

    def _note_readable(self, live: Live, keys: list[Any]) -> None:
        self._try(self.ssd.write, live, keys)

    # What the SSD tier tells

    def _note_promotion(self, live: Live, stored: Stored[Any]) -> None:
        self._count(self.tally.note_promotion, live.tags.source_type, stored)
        if not compat.HAS_REQUEST_HOOKS:
            # No end is told of that would put heads behind what was promoted.
            self.driver.finish(live.request, live.batch)
        self._note_event(stored.evicted, removed=True)

    def _note_arrival(self, keys: list[Any], success: bool) -> None:
        self._count(self.tally.note_arrival, len(keys), success)
        if success:
            self._note_event(keys, removed=False)

    def _note_load(self, keys: list[Any], req_context: Any) -> None:
        live = self._requests.find(req_context)
        if live is None or not keys:
            return
        if not live.num_from_ssd and live.num_loaded == len(set(keys)):
            live.is_head_from_ssd = keys[0] in live.from_ssd
        live.num_from_ssd += len(live.from_ssd.intersection(keys))
        self.ssd.note_load(live)

    def _count_ssd(self) -> None:
        for (name, labels), count in self.ssd.statistics().items():
            self.tally.note_total(name, count, labels)
        self.tally.note_total("ssd_faults", self.num_ssd_faults, ("tier",))
        self.tally.more_gauges.update(self.ssd.gauges())

    def _try(self, call: Callable[..., T], *what: Any) -> T | None:
        """Call into the SSD tier; what fails there ends its use."""
        try:
            return call(*what)
        except Exception as error:
            if not self.num_ssd_faults:
                _LOG.error("hotset: the SSD tier failed: %r", error, exc_info=error)
                self.ssd.stop()
            self.num_ssd_faults += 1
            return None
