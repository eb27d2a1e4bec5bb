"""Chunks on their way between the CPU tier and the SSD cache; knows no vLLM.

The CPU tier's memory has a row for each chunk, and which row a slot of the driver lies
in can change (`hotset.adapter.ssd.tier_rows`): so a row stays as it is for as long as
the SSD reads or writes it, whatever becomes of its slot, and nothing is ever copied or
awaited on the scheduler's thread.

- Write-through: what the engine has stored is written to SSD, pinned meanwhile.
- Demotion: a victim's row is exchanged for a spare one and written. Victims beyond the
  spares are not written.
- Promotion: look-ups of a step collect what is on SSD alone; at the step's end slots
  are taken for it, longest prefix first, and it is read. A request promotes in one step
  only, and again behind a load: two requests that evict each other's chunks would
  otherwise wait for ever.

An operation that fails, or is not reported in time, is a miss. A row that the SSD has
not given back is never used, for as long as that takes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hotset.adapter.live import Live
from hotset.adapter.ssd.cache import SsdCache
from hotset.adapter.ssd.config import DEMOTE, WRITE_THROUGH
from hotset.adapter.ssd.short_steps import ShortSteps
from hotset.adapter.ssd.tier_jobs import LOAD, PINNED, SPARE, InSsd, Promotion, TierJob
from hotset.adapter.ssd.tier_rows import TierRows
from hotset.policies.driver import PolicyDriver
from hotset.policies.outcomes import Status, Stored
from hotset.policies.request import Request


class SsdTier:
    """The way between a CPU tier and an SSD cache.

    Parameters
    ----------
    cache : SsdCache
        The cache.
    driver : PolicyDriver
        The CPU tier.
    rows : sequence of memoryview
        Memory of each chunk: one for each slot, and the spare ones.
    mode : {"write-through", "demote"}
        What is written.
    deadlines_s : (float, float)
        For loads and for stores, after which their keys are missed.
    clock : callable, optional
        Seconds by a clock that nobody sets.
    """

    def __init__(
        self,
        cache: SsdCache,
        driver: PolicyDriver[Any],
        rows: Sequence[memoryview],
        mode: str = WRITE_THROUGH,
        deadlines_s: tuple[float, float] = (10.0, 60.0),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cache = cache
        self.driver = driver
        self.mode = mode
        self.counts: Counter[str] = Counter()
        self.num_written = 0
        self._rows = TierRows(driver, rows)
        self._depths = [0] * driver.capacity  # of the slots' chunks
        self._num_pinned, self._most_pinned = 0, max(1, driver.capacity // 2)
        self._load_s, self._store_s = deadlines_s
        self._on_taken: Callable[[Live, Stored[Any]], None] | None = None
        self._on_arrived: Callable[[list[bytes], bool], None] | None = None
        self._is_stopped = False
        self._clock = clock
        self._jobs: dict[int, TierJob] = {}
        self._num_jobs = 0
        self._wanted: dict[int, Promotion] = {}  # by the identity of the request
        self._coming: dict[bytes, bool] = {}  # key to whether it is given up
        self._step = 0
        self._short_steps = ShortSteps()
        self._steps_of_flush = 0

    @property
    def num_jobs(self) -> int:
        """Operations of the cache that are not reported."""
        return len(self._jobs)

    def watch(
        self,
        on_taken: Callable[[Live, Stored[Any]], None],
        on_arrived: Callable[[list[bytes], bool], None],
    ) -> None:
        """Tell of promotions: whose took which slots, and which keys arrived or not."""
        self._on_taken, self._on_arrived = on_taken, on_arrived

    def rows_of(self, slots: Iterable[int]) -> list[int]:
        """Return the rows of slots."""
        return self._rows.of(slots)

    def statistics(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """Return what was counted here and by the cache, since the start."""
        counts: dict[tuple[str, tuple[str, ...]], int] = {}
        for name, count in self.counts.items():
            counts[name, ()] = count
        counts["ssd_writes", (self.mode,)] = self.num_written
        for (name, label), count in self.cache.statistics().items():
            counts[f"ssd_{name}", (label,)] = count
        return counts

    def gauges(self) -> dict[str, float]:
        """Return how things stand on SSD."""
        return {f"ssd_{name}": value for name, value in self.cache.gauges().items()}

    # Requests

    def hear(self, live: Live) -> None:
        """Tell the cache of a request's keys that it has not heard of."""
        known = self._known(live)
        keys = live.batch.keys[known.told :]
        if keys:
            known.told += len(keys)
            self.cache.on_request(known.request, keys, self._clock())

    def _known(self, live: Live) -> InSsd:
        if live.in_ssd is None:
            tags = live.tags
            request = Request.of(source_type=tags.source_type, priority=tags.priority)
            live.in_ssd = InSsd(request)
        known: InSsd = live.in_ssd
        return known

    # Promotions

    def find(self, key: bytes, live: Live, status: Status) -> Status:
        """Return what a look-up finds, both tiers taken together.

        ``status`` is what the CPU tier says. What is on SSD alone is pending: it is
        promoted at the end of the step, or missed in the next one.
        """
        if status is Status.PENDING:
            given_up = self._coming.get(key)
            if given_up is None:
                return status
            if given_up:
                return Status.MISS
            live.from_ssd.add(key)
            return status
        if status is Status.HIT or self._steps_of_flush or self._is_stopped:
            return status
        if key in self._coming:  # wanted in this step
            live.from_ssd.add(key)
            return Status.PENDING
        known = self._known(live)
        if known.promoted_in not in (None, self._step) or not self.cache.lookup(key):
            return status
        known.promoted_in = self._step
        self._wanted.setdefault(id(live), Promotion(live)).keys.append(key)
        self._coming[key] = False
        live.from_ssd.add(key)
        return Status.PENDING

    def note_load(self, live: Live) -> None:
        """Let a request that loads promote again, should it be preempted."""
        live.from_ssd.clear()
        if live.in_ssd is not None:
            live.in_ssd.promoted_in = None

    def promote(self, found: Callable[[], Sequence[bytes]]) -> None:
        """Begin the promotions of this step; ``found`` gives what must not go."""
        if not self._wanted:
            return
        wanted, self._wanted = self._wanted, {}
        kept = list(found())
        for promotion in wanted.values():
            live, keys = promotion.live, promotion.keys
            taken = self._take(live, keys, kept)
            if taken and self._read(taken):
                kept += taken
            elif taken:
                self._arrive(taken, success=False)
                taken = []
            for key in set(keys).difference(taken):
                self._coming.pop(key, None)
                live.from_ssd.discard(key)
                self.counts["refused_promotions"] += 1

    def _read(self, keys: list[bytes]) -> bool:
        rows = self.rows_of(map(self.driver.slot, keys))
        job = self._next_job()
        if not self.cache.load(job, keys, self._rows.views(rows)):
            return False
        row_of = dict(zip(keys, rows, strict=True))
        self._jobs[job] = TierJob(LOAD, row_of, self._clock() + self._load_s)
        return True

    def _take(self, live: Live, keys: list[bytes], kept: list[bytes]) -> list[bytes]:
        """Take slots for as long a prefix as fits; return it, being written."""
        driver = self.driver
        # Another request may have stored some of them meanwhile.
        keys = [key for key in keys if key not in driver]
        if not keys:
            return []
        depths = self._depths_of(live, keys)
        driver.announce(live.request, keys, depths)
        evicted, freed = self._make_room(len(keys), {*kept, *live.batch.keys})
        fitting = driver.num_free
        keys, depths = keys[:fitting], depths[:fitting]
        self.demote(evicted, freed)
        driver.insert(live.request, keys, depths)
        slots = [driver.slot(key) for key in keys]
        self._note_depths(slots, depths)
        if self._on_taken is not None:
            self._on_taken(live, Stored(keys, evicted, slots, freed))
        return keys

    def _make_room(
        self, n: int, protected: set[bytes]
    ) -> tuple[list[bytes], list[int]]:
        """Evict until n slots are free, or as many as can be."""
        driver = self.driver
        gone = driver.displace(max(0, n - driver.num_free), protected)
        if gone is not None:
            return gone
        evicted: list[bytes] = []
        freed: list[int] = []
        while driver.num_free < n:
            gone = driver.displace(1, protected)
            if gone is None:
                break
            evicted += gone[0]
            freed += gone[1]
        return evicted, freed

    def _arrive(self, keys: list[bytes], success: bool) -> None:
        for key in keys:
            self._coming.pop(key, None)
        self.driver.complete(keys, success)
        if keys and self._on_arrived is not None:
            self._on_arrived(keys, success)

    # Stores

    def note_store(self, live: Live, stored: Stored[Any]) -> None:
        """Note which chunks the engine is about to store in which slots."""
        self._note_depths(stored.slots, self._depths_of(live, stored.keys))

    def _note_depths(self, slots: Sequence[int], depths: Sequence[int]) -> None:
        for slot, depth in zip(slots, depths, strict=True):
            self._depths[slot] = depth

    def write(self, live: Live, keys: list[bytes]) -> None:
        """Write chunks that the engine has stored, if that is the mode."""
        if self.mode != WRITE_THROUGH or self._is_stopped:
            return
        new = [key for key in keys if key not in self.cache]
        slot_of = {key: self.driver.slot(key) for key in new}
        new.sort(key=lambda key: self._depths[slot_of[key]])
        room = max(0, self._most_pinned - self._num_pinned)
        self.counts["ssd_unstaged"] += max(0, len(new) - room)
        slots = [slot_of[key] for key in new[:room]]
        request = self._known(live).request
        taken = self._store(PINNED, new[:room], slots, request)
        self._num_pinned += len(taken)
        self.driver.pin(taken)
        if taken:  # all of the request's blocks, so that heads outlive tails
            self.cache.finish_request(request, live.batch.keys)

    def demote(self, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """Write chunks that left these slots, which are exchanged for spare ones."""
        if self.mode != DEMOTE or self._is_stopped or not keys:
            return
        slot_of = dict(zip(keys, slots, strict=True))
        new = [key for key in keys if key not in self.cache]
        new.sort(key=lambda key: self._depths[slot_of[key]])
        room = self._rows.num_spare
        self.counts["ssd_unstaged"] += max(0, len(new) - room)
        slots = [slot_of[key] for key in new[:room]]
        for key in self._store(SPARE, new[:room], slots, Request.of()):
            self._rows.exchange(slot_of[key])

    def _store(
        self, kind: str, keys: list[bytes], slots: list[int], request: Request
    ) -> list[bytes]:
        """Offer chunks to the cache; return the keys that it took."""
        if not keys:
            return []
        job, now_s, rows = self._next_job(), self._clock(), self.rows_of(slots)
        depths = [self._depths[slot] for slot in slots]
        answers = self.cache.store(
            job, keys, self._rows.views(rows), depths, request, now_s
        )
        pairs = zip(keys, rows, answers, strict=True)
        row_of = {key: row for key, row, is_taken in pairs if is_taken}
        if row_of:
            self._jobs[job] = TierJob(kind, row_of, now_s + self._store_s)
            self.num_written += len(row_of)
        return list(row_of)

    def _next_job(self) -> int:
        self._num_jobs += 1
        return self._num_jobs

    def _depths_of(self, live: Live, keys: list[bytes]) -> list[int]:
        depths = live.part(keys)[1] if keys else None
        return [0] * len(keys) if depths is None else depths

    # Steps

    def poll(self) -> None:
        """Take in what the cache has finished; give up what is overdue."""
        for report in self.cache.finished():
            job = self._jobs.get(report.job)
            if job is not None:
                self._settle(report.job, job, list(report.done), list(report.failed))
        now_s = self._clock()
        for job in self._jobs.values():
            if not job.is_overdue and job.due_s < now_s:
                job.is_overdue = True
                self.counts["ssd_overdue"] += len(job.row_of)
                for key in job.row_of:
                    if key in self._coming:
                        self._coming[key] = True

    def end_step(self) -> None:
        """Note that a step has ended."""
        self._step += 1
        self._short_steps.end_step(is_waiting=bool(self._coming))
        self._steps_of_flush = max(0, self._steps_of_flush - 1)

    def _settle(
        self, number: int, job: TierJob, done: list[bytes], failed: list[bytes]
    ) -> None:
        """Take back the rows of keys that a job is done with, each key once."""
        done = [key for key in done if key in job.row_of]
        failed = [key for key in failed if key in job.row_of]
        rows = {key: job.row_of.pop(key) for key in (*done, *failed)}
        if not job.row_of:
            del self._jobs[number]
        if job.kind == SPARE:
            self._rows.give_back(rows.values())
        elif job.is_orphan:
            self._rows.let_go(rows.values())
        elif job.kind == PINNED:
            self._num_pinned -= len(rows)
            self.driver.unpin(list(rows))
        else:
            given_up = [key for key in done if self._coming.get(key)]
            self._arrive([key for key in done if not self._coming.get(key)], True)
            self._arrive(failed + given_up, False)

    # Resets and the end

    def reset(self, flush_steps: int) -> None:
        """Forget both tiers' chunks; the driver must be empty already.

        Rows that the cache still uses are kept from the driver by placeholders. Until
        so many steps have ended, the engine's own transfers may still be at work in
        rows that are free by now, and nothing is promoted.
        """
        self._wanted.clear()
        self._coming.clear()
        self._num_pinned = 0
        self._steps_of_flush = flush_steps
        self.cache.reset()
        held = [job for job in self._jobs.values() if job.kind != SPARE]
        for job in held:
            job.is_orphan = True
        self._rows.hold(row for job in held for row in job.row_of.values())

    def note_flushed(self) -> None:
        """Note that the engine's transfers of before the last reset have ended."""
        self._steps_of_flush = 0

    def stop(self) -> None:
        """Read and write no more, after a failure; what is not being read is missed."""
        self._is_stopped = True
        self._wanted.clear()
        reading = {key for job in self._jobs.values() for key in job.row_of}
        for key in list(self._coming):
            if key in reading:
                self._coming[key] = True
            else:
                del self._coming[key]
                self.driver.complete([key], success=False)

    def close(self, timeout_s: float) -> None:
        """End the cache; after this no row is used, or the process is about to end."""
        self.cache.close(timeout_s)
        self.poll()
