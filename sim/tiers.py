"""CPU tier and SSD tier as one: what is promoted, written through or demoted.

A look-up goes through the CPU tier; where that lacks a chunk and the SSD has it, the
chunk gets a place in the CPU tier at once, as one that is being written, and the
request waits until it was read. No place means a miss. A request has chunks read in one
look-up only, so two requests cannot go on evicting what the other one had read. The
SSD's copy stays, so a chunk that came from there costs no second write.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hotset.policies.driver import Status
from hotset.policies.request import Request
from hotset.sim.job import Job
from hotset.sim.replay import RunConfig
from hotset.sim.ssd import SsdTier
from hotset.sim.tier import Found, OffloadTier, Pays
from hotset.sim.workload import Workload


class TwoTiers(OffloadTier):
    """A CPU tier with an SSD tier behind it.

    What has to be moved is left in `reads` and `writes`, in order, for whoever does it.

    Parameters
    ----------
    workload : Workload
        The requests.
    config : RunConfig
        Policy, admission, capacity and engine of the CPU tier.
    ssd : SsdTier
        The tier behind it.
    """

    def __init__(self, workload: Workload, config: RunConfig, ssd: SsdTier) -> None:
        super().__init__(workload, config)
        self.ssd = ssd
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        if not ssd.demotes:  # what is copied cannot be evicted meanwhile
            ssd.most_staged = max(self.driver.capacity // 2, 1)
        self._depths = _depths(workload)
        self._copied: dict[int, int] = {}  # writes under way, by chunk

    def find(
        self,
        job: Job,
        local_tokens: int,
        input_tokens: int,
        now_s: float,
        pays: Pays | None = None,
    ) -> Found:
        """Look up the chunks behind the GPU's hit; begin to read what the SSD has."""
        found = super().find(job, local_tokens, input_tokens, now_s, pays)
        size, chunks = self._chunk_tokens, job.chunks
        if job.promoted is not None or input_tokens - local_tokens < size:
            return found
        first = local_tokens // size
        last, absent = self._run(job, first)
        if not absent or last * size - local_tokens < size:
            return found
        behind = last * size - local_tokens
        if pays is not None and not pays(behind, local_tokens, len(absent) * size):
            return found
        count = self._promote(job, absent, now_s)
        if count == 0:
            return found
        last = absent[count] if count < len(absent) else last
        return Found(first, last, min(last + 1, len(chunks)), True)

    def _run(self, job: Job, first: int) -> tuple[int, list[int]]:
        """Return the place behind the last hit in either tier, and those of reads."""
        chunks, lookup, ssd = job.chunks, self.driver.lookup, self.ssd
        last, absent = first, []
        while last < len(chunks):
            status = lookup(chunks[last])
            if status is Status.MISS:
                if not ssd.holds(chunks[last]):
                    break
                absent.append(last)
            elif status is Status.PENDING and not self._waits:
                break
            last += 1
        return last, absent

    def _promote(self, job: Job, places: list[int], now_s: float) -> int:
        """Give chunks a place in the CPU tier and have them read; return how many.

        Neither the admission rule nor the policy is asked whether they are worth it: a
        request wants them now. Chunks of its own are not evicted for them.
        """
        driver, ssd = self.driver, self.ssd
        driver.now_s = now_s
        keys = [job.chunks[i] for i in places]
        request = self._hear(job, keys)
        ssd.begin_read(keys)  # before anything is demoted in their place
        num_free = driver.num_free
        count = min(len(keys), num_free + self._num_evictable_but(job.chunks))
        # What the policy refuses in its thoughts must not count as refused.
        aside = Request(request.fields.copy(), is_observed=True)
        driver.announce(aside, keys[:count], places[:count])
        evicted = driver.evict(count - num_free, job.chunks)
        if evicted is None:
            count, evicted = min(count, num_free), []
        if count < len(keys):
            ssd.end_read(keys[count:], 0)
        if count == 0:
            return 0
        driver.insert(request, keys[:count], places[:count])
        job.promoted = frozenset(keys[:count])
        self.counts.promoted += count
        self._count(keys[:count], evicted)
        self.reads.append(keys[:count])
        return count

    def _num_evictable_but(self, kept: Sequence[int]) -> int:
        """Return how many chunks can be evicted beside those to be kept."""
        lookup, readers, copied = self.driver.lookup, self._readers, self._copied
        own = sum(
            lookup(key) is Status.HIT and key not in readers and key not in copied
            for key in kept
        )
        return self.driver.num_evictable - own

    def end_read(self, keys: Sequence[int]) -> None:
        """Make chunks that were read from the SSD readable in the CPU tier."""
        self.version += 1
        self.driver.complete(keys)
        self.ssd.end_read(keys, len(keys))

    def end_write(self, keys: Sequence[int]) -> None:
        """Make chunks that were written to the SSD readable there."""
        self.ssd.end_store(keys)
        if not self.ssd.demotes:
            self.driver.unpin(keys)
            for key in keys:
                self._copied[key] -= 1
                if self._copied[key] == 0:
                    del self._copied[key]

    def end_store(self, job: Job, keys: Sequence[int], now_s: float) -> None:
        """Make written chunks readable; write them through."""
        super().end_store(job, keys, now_s)
        if self.ssd.demotes or job.ssd_request is None:
            return
        depths = [self._depths[key] for key in keys]
        taken = self.ssd.store(job.ssd_request, keys, depths, now_s)
        if taken:
            self.driver.pin(taken)
            for key in taken:
                self._copied[key] = self._copied.get(key, 0) + 1
            self.writes.append(taken)

    def finish(self, job: Job) -> None:
        """Put a request's chunks in order at its end, in both tiers."""
        super().finish(job)
        self.ssd.finish(job)

    def _hear(self, job: Job, looked_up: Sequence[int]) -> Request:
        is_new = job.policy_request is None
        request = super()._hear(job, looked_up)
        if is_new:
            self.ssd.hear(job, self.driver.now_s)
        return request

    def _note_evicted(self, keys: list[int]) -> None:
        """Demote chunks that the CPU tier evicts, heads first."""
        if not self.ssd.demotes or not keys:
            return
        depths = self._depths
        ordered = sorted(keys, key=lambda key: depths[key])
        at = [depths[key] for key in ordered]
        taken = self.ssd.store(Request.of(), ordered, at, self.driver.now_s)
        if taken:
            self.writes.append(taken)


def _depths(workload: Workload) -> list[int]:
    """Return each chunk's depth, by its first use."""
    chunks = workload.chunks
    counts = np.diff(chunks.offsets)
    within = np.arange(len(chunks.ids)) - np.repeat(chunks.offsets[:-1], counts)
    depths = np.zeros(chunks.num_distinct, np.int64)
    # Backwards, so that the first use is what stays.
    depths[chunks.ids[::-1]] = within[::-1]
    return depths.tolist()
