"""The CPU tier behind the GPU: an engine's rules over a `PolicyDriver`.

A mirror of what the GPU computed: chunks are offered for storing as prefill fills them,
and looked up behind the GPU's own hit. A chunk that is being written is no hit, one
that is being read is pinned, and an offer that does not fit is made again. What a
policy hears of a request, and when, is what `hotset.sim.engine_loop` tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hotset.policies.arrays import Float64Array
from hotset.policies.driver import PolicyDriver, Status
from hotset.policies.lru import SPEC as LRU
from hotset.policies.lru import LruParams
from hotset.policies.request import Request
from hotset.sim.job import Job
from hotset.sim.replay import RunConfig, is_vllms_own, resolve
from hotset.sim.workload import Workload

# Whether loading so many tokens, behind so many others, of which so many come from the
# SSD, beats computing them.
Pays = Callable[[int, int, int], bool]


class Found(NamedTuple):
    """What a look-up came to."""

    first: int  # first chunk to load
    last: int  # the one behind the last; equal to ``first`` where nothing is loaded
    looked_up: int  # the chunk behind the last one that was looked up
    must_wait: bool  # a hit is still being written, or read by another request


@dataclass
class TierCounts:
    """What a tier did, in chunks."""

    stores: int = 0
    evictions: int = 0
    refused_offers: int = 0
    refused_chunks: int = 0  # by the admission rule or the policy
    loaded: int = 0
    dropped_unused: int = 0  # evicted without ever having been loaded
    promoted: int = 0  # taken in from the SSD


class OffloadTier:
    """A CPU tier.

    Parameters
    ----------
    workload : Workload
        The requests.
    config : RunConfig
        Policy, admission, capacity and engine.
    hears_all : bool
        Whether the policy hears what the engine tells as it tells it: of look-ups by
        the chunks looked up, of uses as often as they are told. vLLM's own do; others
        hear of each chunk once a request.

    Raises
    ------
    PolicyError
        If the policy cannot run on line.
    """

    def __init__(
        self, workload: Workload, config: RunConfig, hears_all: bool = False
    ) -> None:
        config = resolve(config)
        rules = config.engine
        distinct = max(workload.chunks.num_distinct, 1)
        slots = min(config.capacity_blocks // workload.blocks_per_chunk, distinct)
        spec, params = config.policy, config.params
        if spec.unbounded:  # any order will do where nothing is evicted
            spec, params, slots = LRU, LruParams(order="tail-first"), distinct
        self.driver: PolicyDriver[int] = PolicyDriver(
            spec, params, slots, config.admission, config.admission_params
        )
        self.counts = TierCounts()
        self._distinct = distinct
        self.version = 0  # changes with whatever can change a look-up that must wait
        self._features = workload.stream.features
        self._chunk_tokens = workload.chunk_tokens
        self._whole = rules.whole_offers
        self._waits = not rules.is_none
        stock = is_vllms_own(params)
        self._hears_lookups = hears_all and not stock
        stock = stock or hears_all
        self._is_touched_each_time = stock and rules.reports_all
        self._is_reported_only = stock and not rules.reports_all
        self._readers: dict[int, int] = {}  # loads under way, by chunk
        self._unused: set[int] = set()  # stored and not loaded since
        self.reuse_ages_s: list[float] = []  # of each load, by its oldest chunk
        self._used_s: dict[int, float] = {}  # when resident chunks were used last

    @property
    def num_resident(self) -> int:
        """Chunks that are here, those being written included."""
        return len(self.driver)

    @property
    def num_faults(self) -> int:
        """How often the policy failed."""
        return self.driver.num_faults

    def gauges(self) -> dict[str, int]:
        """Return how things stand, by the names of a server's gauges, in chunks."""
        held = len(self.driver) - self.driver.num_evictable
        return {
            "capacity": self.driver.capacity,
            "resident": len(self.driver),
            "pinned": len(self._readers),
            "pending": held - len(self._readers),
        }

    def resident(self) -> list[int]:
        """Return the chunks that are here, ascending."""
        return [key for key in range(self._distinct) if key in self.driver]

    def find(
        self,
        job: Job,
        local_tokens: int,
        input_tokens: int,
        now_s: float,
        pays: Pays | None = None,
    ) -> Found:
        """Look up the chunks behind the GPU's hit; changes nothing.

        Less than a chunk is not looked up, and not worth a load; nor is a load that
        does not pay, where that is asked.
        """
        size = self._chunk_tokens
        first = last = local_tokens // size
        if input_tokens - local_tokens < size:
            return Found(first, first, first, False)
        chunks, lookup = job.chunks, self.driver.lookup
        is_pending = False
        while last < len(chunks):
            status = lookup(chunks[last])
            if status is Status.MISS or (status is Status.PENDING and not self._waits):
                break
            is_pending = is_pending or status is Status.PENDING
            last += 1
        looked_up = min(last + 1, len(chunks))
        behind = last * size - local_tokens
        if behind < size or (pays is not None and not pays(behind, local_tokens, 0)):
            return Found(first, first, looked_up, False)
        readers = self._readers
        must_wait = is_pending or any(key in readers for key in chunks[first:last])
        return Found(first, last, looked_up, must_wait)

    def start(self, job: Job, found: Found, now_s: float) -> None:
        """Tell admission and policy of a request that is taken up, and of its loads.

        A request that comes back after a preemption is no new one.
        """
        driver, chunks = self.driver, job.chunks
        driver.now_s = now_s
        looked_up = chunks[found.first : found.looked_up]
        if looked_up:
            driver.note_lookup(looked_up)
        loads = chunks[found.first : found.last]
        request = self._hear(job, looked_up)
        if self._is_reported_only:
            driver.hit(request, loads)
        elif job.admitted_s < 0 or self._is_touched_each_time:
            driver.hit(request, chunks)
        job.unreported = found.first if self._is_reported_only and loads else 0

    def _hear(self, job: Job, looked_up: Sequence[int]) -> Request:
        """Tell the policy of a request that it has not heard of."""
        if job.policy_request is None:
            job.policy_request = self.driver.begin()
            fields: Float64Array = job.policy_request.fields
            fields[:] = self._features[job.index]
            keys = looked_up if self._hears_lookups else job.chunks
            self.driver.observe(job.policy_request, keys)
        return job.policy_request

    def begin_load(self, keys: Sequence[int]) -> None:
        """Pin chunks that are read from now on."""
        self.driver.pin(keys)
        self.counts.loaded += len(keys)
        self._unused.difference_update(keys)
        if keys:
            now_s, used_s = self.driver.now_s, self._used_s
            self.reuse_ages_s.append(now_s - min(used_s[key] for key in keys))
            used_s.update(dict.fromkeys(keys, now_s))
        for key in keys:
            self._readers[key] = self._readers.get(key, 0) + 1

    def end_load(self, keys: Sequence[int]) -> None:
        """Unpin chunks that were read."""
        self.version += 1
        self.driver.unpin(keys)
        for key in keys:
            self._readers[key] -= 1
            if self._readers[key] == 0:
                del self._readers[key]

    def offer(self, job: Job, filled: int, now_s: float) -> list[int]:
        """Offer a request's chunks up to ``filled``; return those to be written.

        Where the offer is refused, the same chunks are offered again the next time.
        """
        driver, request = self.driver, job.policy_request
        assert request is not None, "a request that computes was started"
        driver.now_s = now_s
        first = job.upcoming
        offered = job.chunks[first:filled]
        if self._is_reported_only:
            driver.hit(request, offered)
        stored = driver.offer(request, offered, range(first, filled), whole=self._whole)
        if stored is None:
            self.counts.refused_offers += 1
            return []
        job.upcoming = filled
        self.counts.refused_chunks += (
            stored.refused_by_admission + stored.refused_by_policy
        )
        if stored.keys:
            self.counts.stores += len(stored.keys)
            self._count(stored.keys, stored.evicted)
            if self._is_touched_each_time:
                if not self._hears_lookups:
                    driver.observe(request, job.chunks)
                driver.hit(request, job.chunks)
            elif not self._is_reported_only:
                driver.finish(request, job.chunks)
        return stored.keys

    def end_store(self, job: Job, keys: Sequence[int], now_s: float) -> None:
        """Make a request's written chunks readable."""
        self.version += 1
        self.driver.complete(keys)

    def finish(self, job: Job) -> None:
        """Put a request's chunks in order at its end."""
        if job.policy_request is not None:
            self.driver.finish(job.policy_request, job.chunks[job.unreported :])

    def _count(self, stored: list[int], evicted: list[int]) -> None:
        """Count what came and went."""
        counts, unused = self.counts, self._unused
        counts.evictions += len(evicted)
        before = len(unused)
        unused.difference_update(evicted)
        counts.dropped_unused += before - len(unused)
        unused.update(stored)
        for key in evicted:
            del self._used_s[key]
        self._used_s.update(dict.fromkeys(stored, self.driver.now_s))
        self._note_evicted(evicted)

    def _note_evicted(self, keys: list[int]) -> None:
        """Take note of chunks that were evicted."""


class NoTier(OffloadTier):
    """No CPU tier: nothing is found and nothing is stored."""

    def __init__(self) -> None:
        self.counts = TierCounts()
        self.version = 0

    @property
    def num_resident(self) -> int:
        """Chunks that are here."""
        return 0

    @property
    def num_faults(self) -> int:
        """How often the policy failed."""
        return 0

    def find(
        self,
        job: Job,
        local_tokens: int,
        input_tokens: int,
        now_s: float,
        pays: Pays | None = None,
    ) -> Found:
        """Find nothing."""
        return Found(0, 0, 0, False)

    def start(self, job: Job, found: Found, now_s: float) -> None:
        """Have no one to tell."""

    def offer(self, job: Job, filled: int, now_s: float) -> list[int]:
        """Store nothing."""
        job.upcoming = filled
        return []

    def finish(self, job: Job) -> None:
        """Have nothing to put in order."""
