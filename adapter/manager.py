"""The offloading manager: vLLM's calls, put to a policy driver.

The driver owns which chunk is where and what goes; this module owns the order in which
a policy hears of a request: its keys once, its resident chunks as used once, its
stores, its end. vLLM's calls differ between versions in what they report and how often;
what the policy hears does not.

Nothing that goes wrong here reaches the engine: it is logged once and counted, the tier
goes on under plain LRU, and the call answers what is always true, a miss or a refusal.
The one call that raises is `HotsetManager.prepare_load` for a chunk that no look-up
found: any answer would let the engine read another prompt's KV.

Memory for each resident chunk under `lru`, measured in a process that serves a million
of them: 195 to 205 bytes. 80 are the key, about 60 its entries in the maps from keys to
slots and back, 39 the arrays (slot table, the policy's links and the fallback's, depth,
what the tally keeps).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from hotset.adapter import compat
from hotset.adapter.compat import base
from hotset.adapter.endings import Endings
from hotset.adapter.errors import AdapterError
from hotset.adapter.live import Live, LiveRequests
from hotset.adapter.policy_file import APPLIED, PolicyWatcher
from hotset.adapter.tags import TagReader, Tags
from hotset.adapter.tally import Tally
from hotset.policies.driver import PolicyDriver
from hotset.policies.outcomes import Status, Stored
from hotset.policies.request import Request

_LOG = logging.getLogger(__name__)

_HIT, _MISS, _PENDING = map(
    compat.lookup_answer, (Status.HIT, Status.MISS, Status.PENDING)
)


class HotsetManager(base.OffloadingManager):  # type: ignore[misc]
    """A CPU tier under one of hotset's policies.

    Parameters
    ----------
    driver : PolicyDriver
        The tier.
    enable_events : bool
        Whether stores and removals are collected for `take_events`.
    trusted_tags : bool
        Whether clients' tenants and ends of sessions count.
    tally : Tally, optional
        Counts; default one without lines in the log.
    endings : Endings, optional
        Takes requests at their end.
    watcher : PolicyWatcher, optional
        Says when another policy is to go on.
    """

    def __init__(
        self,
        driver: PolicyDriver[Any],
        enable_events: bool = False,
        trusted_tags: bool = False,
        tally: Tally | None = None,
        endings: Endings | None = None,
        watcher: PolicyWatcher | None = None,
    ) -> None:
        self.driver = driver
        self.tags = TagReader(trusted_tags)
        self.num_own_faults = 0
        self._has_miscounted = False
        self._events: list[Any] | None = [] if enable_events else None
        self.tally = tally or Tally(driver)
        self.endings = endings or Endings(self.tally)
        self.watcher = watcher
        self._requests = LiveRequests(self.endings.end)

    @property
    def num_faults(self) -> int:
        """How often the policy or this module failed."""
        return self.num_own_faults + self.driver.num_faults

    @property
    def num_requests(self) -> int:
        """Requests that are known by their ids, transfers of ended ones included."""
        return len(self._requests)

    # Requests

    def on_new_request(self, req_context: Any) -> Any:
        """Start a request."""
        self._start(req_context)
        return base.RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        """End a request: its chunks are put in order, heads last to go."""
        try:
            live = self._requests.find(req_context)
            if live is not None:
                live.found.clear()
                self._requests.settle(req_context.req_id, is_ended=True)
                live.learn(req_context, ())
                self.endings.end(live, req_context.req_id)
                self.driver.finish(live.request, live.batch)
        except Exception as error:
            self._contain(error)

    def touch(self, keys: Collection[Any], req_context: Any) -> None:
        """Learn a request's keys; vLLM up to 0.30 names them all here."""
        self._hear(req_context, keys)

    # Loads

    def lookup(self, key: Any, req_context: Any) -> Any:
        """Return whether a chunk can be loaded.

        A chunk that is found stays until the request loads it or the step ends.
        """
        try:
            live = self._requests.find(req_context)
            status = self._find(key, live)
            if compat.HAS_POSITIONS and live is not None and not live.is_started:
                self._hear(req_context, ())
            if status is Status.HIT:
                if live is not None:
                    self._requests.note_found(live, key)
                return _HIT
            self.tally.num_misses += 1
            return _MISS if status is Status.MISS else _PENDING
        except Exception as error:
            self._contain(error)
            return compat.MISS

    def get_load_source(self, key: Any, req_context: Any) -> Any:
        """Return where loads come from; vLLM asks from 0.32 on."""
        return compat.load_source()

    def prepare_load(self, keys: Collection[Any], req_context: Any) -> Any:
        """Pin chunks for a load.

        Raises
        ------
        AdapterError
            If a chunk is not here and readable. No look-up said that it was.
        """
        live = self._hear(req_context, keys)
        live.found.clear()
        wanted = list(keys)
        absent = sum(self.driver.lookup(key) is not Status.HIT for key in wanted)
        if absent:
            raise AdapterError(
                f"vLLM loads {len(wanted)} chunks of request {req_context.req_id}, and "
                f"{absent} of them are not in the CPU tier"
            )
        once = list(dict.fromkeys(wanted))  # as vLLM's set of them does at the end
        slots = self.driver.pin(once)
        self._count(self.tally.note_load, slots)
        chunk_of = dict(zip(once, self._chunks_in(slots), strict=True))
        for key in once:
            live.loading[key] = live.loading.get(key, 0) + 1
        live.num_loaded += len(once)
        return compat.load_store_spec([chunk_of[key] for key in wanted])

    def complete_load(self, keys: Collection[Any], req_context: Any) -> None:
        """Unpin chunks; those that are not being read for the request stay."""
        try:
            live = self._requests.find(req_context)
            if live is None:
                return
            # A set: vLLM's own has the order of its hashes, the driver one of its own.
            done = {key for key in keys if key in live.loading}
            for key in done:
                live.loading[key] -= 1
                if not live.loading[key]:
                    del live.loading[key]
            self._requests.settle(req_context.req_id)
            self.driver.unpin(done)
        except Exception as error:
            self._contain(error)

    # Stores

    def prepare_store(self, keys: Collection[Any], req_context: Any) -> Any:
        """Make room for those of the chunks that are worth it; None where none fits."""
        offered = list(dict.fromkeys(keys))
        live = self._hear(req_context, offered)
        live.found.clear()
        stored: Stored[Any] | None = None
        try:
            stored = self.driver.offer(
                live.request, *live.part(offered), protected=self._requests.found()
            )
            if stored is None:
                self._count(self.tally.note_refused_offer)
                return None
            self._count(self.tally.note_store, live.tags.source_type, stored)
            self._take_leave(live, stored)
            output = base.PrepareStoreOutput(
                keys_to_store=stored.keys,
                store_spec=compat.load_store_spec(self._chunks_in(stored.slots)),
                evicted_keys=stored.evicted,
            )
            self._note_event(stored.evicted, removed=True)
            if stored.keys:
                live.storing.update(stored.keys)
                live.num_stored += len(stored.keys)
                # Now, not at the end: vLLM tells of an end after the next request's
                # start.
                self.driver.finish(live.request, live.batch)
            return output
        except Exception as error:
            self._contain(error)
            self._take_back(live, stored)
            return None

    def complete_store(
        self, keys: Collection[Any], req_context: Any, success: bool = True
    ) -> None:
        """End the writing of chunks: readable from now on, or gone.

        Those that are not being written for the request stay as they are.
        """
        try:
            live = self._requests.find(req_context)
            if live is None:
                return
            mine = {key for key in keys if key in live.storing}
            live.storing.difference_update(mine)
            self._requests.settle(req_context.req_id)
            done = self.driver.complete(mine, success)
            self._count(self.tally.note_written, len(done), success)
            if success:
                self._note_event(done, removed=False)
                self._note_readable(live, done)
        except Exception as error:
            self._contain(error)

    # The tier

    def reset_cache(self) -> None:
        """Empty the tier; transfers in flight are flushed by the scheduler."""
        try:
            self._requests.reset()
            self._count(self.tally.note_reset, self.driver.resident_slots())
            self.driver.reset()
        except Exception as error:
            self._contain(error)

    def shutdown(self) -> None:
        """Write what is still to be recorded."""
        self.endings.close()
        if self.watcher is not None:
            self.watcher.close()

    def get_stats(self) -> Any:
        """Return what is new since the last call; vLLM asks each step, from 0.24 on."""
        try:
            tally = self.tally
            tally.note_total("policy_faults", self.num_faults)
            if self.tags.invalid:
                tally.note_counts("invalid_tags", self.tags.invalid)
            if self.endings.recorder is not None:
                tally.note_counts("recorded_requests", self.endings.recorder.counts)
            if self.watcher is not None:
                tally.note_counts("policy_files", self.watcher.counts)
            stats = compat.new_stats()
            tally.drain(stats)
            return None if stats.is_empty() else stats
        except Exception as error:
            self._contain(error)
            return None

    def take_events(self) -> Iterable[Any]:
        """Return the events since the last call; every version calls this each step."""
        self._requests.end_step()
        if self.watcher is not None:
            self._retune(self.watcher)
            self.driver.carry_on()
        taken, self._events = self._events, None if self._events is None else []
        return taken or ()

    # What a tier below this one adds

    def _find(self, key: Any, live: Live | None) -> Status:
        """Return what a look-up finds."""
        return self.driver.lookup(key)

    def _chunks_in(self, slots: list[int]) -> list[int]:
        """Return the chunks of vLLM's memory that slots lie in."""
        return slots

    def _take_leave(self, live: Live, stored: Stored[Any]) -> None:
        """Note what a store evicted, before anything is written there."""

    def _note_readable(self, live: Live, keys: list[Any]) -> None:
        """Note chunks that were stored."""

    # Inside

    def _hear(self, req_context: Any, keys: Iterable[Any]) -> Live:
        """Tell the policy of a request, on the first call that knows its keys."""
        live = self._requests.find(req_context)
        if live is None:
            live = self._start(req_context)
        try:
            self.endings.meet(live, req_context.req_id)
            known = live.learn(req_context, keys)
            if not live.is_started and len(live.batch):
                live.is_started = True
                self.driver.observe(live.request, live.batch)
                self.driver.hit(live.request, live.batch)
            elif len(live.batch) > known:
                self.driver.observe(live.request, live.batch.behind(known))
        except Exception as error:
            self._contain(error)
        return live

    def _start(self, req_context: Any) -> Live:
        now_s, tags, request = time.monotonic(), Tags(), Request()
        try:
            params = getattr(req_context, "kv_transfer_params", None)
            tags = self.tags.read(params)
            request = self.driver.begin(
                source_type=tags.source_type, priority=tags.priority
            )
        except Exception as error:
            self._contain(error)
        live = self._requests.start(req_context, request, tags, now_s)
        self.endings.begin(live, req_context.req_id)
        return live

    def _note_event(self, keys: list[Any], removed: bool) -> None:
        if keys and self._events is not None:
            self._events.append(compat.removal_events(keys, removed=removed))

    def _take_back(self, live: Live, stored: Stored[Any] | None) -> None:
        """Free chunks that were taken for a store of which vLLM will not hear."""
        if stored is None:
            return
        live.storing.difference_update(stored.keys)
        try:
            done = self.driver.complete(stored.keys, success=False)
            self._count(self.tally.note_written, len(done), False)
        except Exception as error:
            self._contain(error)

    def _retune(self, watcher: PolicyWatcher) -> None:
        """Go on under what the watched policy file asks for, if it is a new one."""
        choice = watcher.take()
        if choice is None:
            return
        try:
            self.driver.retune(
                choice.policy, choice.params, choice.admission, choice.admission_params
            )
            watcher.counts[APPLIED] += 1
            compat.LOG.info(
                "hotset: %d chunks go on under %s", len(self.driver), choice.describe()
            )
        except Exception as error:
            self._contain(error)

    def _count(self, note: Callable[..., None], *what: Any) -> None:
        """Count something; a count that fails is no reason to stop at."""
        try:
            note(*what)
        except Exception as error:
            if not self._has_miscounted:
                self._has_miscounted = True
                _LOG.error("hotset: counts are wrong from now on: %r", error)

    def _contain(self, error: Exception) -> None:
        """Count a failure of this module, and go on under plain LRU."""
        if not self.num_own_faults:
            _LOG.error("hotset failed, going on with lru: %r", error, exc_info=error)
        self.num_own_faults += 1
        self.driver.fall_back()
