"""The SSD cache: what is stored, what goes, and jobs that read and write it.

All calls come from one thread, the scheduler's; they touch memory only and never wait
for the disk. Other threads move bytes (`hotset.adapter.ssd.pool`) and make them durable
(`hotset.adapter.ssd.committer`); `SsdCache.finished` takes up what they have done.

A block can be found from when its row is durable until it is chosen to go. Whatever
fails is a miss or a refusal, with a count that says why. A load copies to the caller's
buffer only what was checked against the slot's header, key and checksum included.

Memory for each stored block under `lru`, measured in a process with 300,000 of them:
about 500 bytes, of which 80 are a key of 36 bytes, 270 the driver's, and 150 the map
from keys to places. Each thread has one slot as a buffer.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from hotset.adapter.ssd.blocks import Blocks
from hotset.adapter.ssd.budget import WriteBudget
from hotset.adapter.ssd.committer import Use
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.counts import Counts, StoreWarning
from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.jobs import Job, JobDone, Task
from hotset.adapter.ssd.machine import Machine
from hotset.adapter.ssd.namespace import Namespace
from hotset.adapter.ssd.offers import Bounds, offer
from hotset.adapter.ssd.restore import tell
from hotset.adapter.ssd.slot import MAX_GENERATION, slot_bytes
from hotset.adapter.ssd.start import Started, start
from hotset.policies.driver import PolicyDriver
from hotset.policies.request import Request

_LOG = logging.getLogger(__name__)

LEVEL, LEVEL_AT, GENERATION = "budget_level", "budget_s", "generation"
_FLUSH_USES, _FLUSH_S, _POLL_S = 1024, 5.0, 0.001


class SsdCache:
    """One namespace of a path, served by this process; `open` makes it.

    ``driver`` is the policy with what it knows of; ``counts`` are by (name, label), see
    `hotset.adapter.ssd.counts`.
    """

    def __init__(
        self,
        config: SsdConfig,
        started: Started,
        files: OsFiles,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self.config = config
        self.slot_bytes = started.form.slot_bytes
        self.counts: Counts = Counter()
        self._clock, self._wall = clock, wall
        self._num_hits = self._num_misses = 0
        self._epoch = 0
        self._is_closed = False
        self._over: deque[Task] = deque()
        self._num_sent = self._num_taken = 0
        self._queued_bytes = 0
        self._stores: deque[Job] = deque()
        self._loads: deque[Job] = deque()
        self._done: list[JobDone] = []
        self._uses: list[Use] = []
        self._flushed_s = clock()
        self._warning = StoreWarning()
        choice = config.choice
        self.driver: PolicyDriver[bytes] = PolicyDriver(
            choice.policy,
            choice.params,
            started.max_blocks,
            choice.admission,
            choice.admission_params,
        )
        self.driver.warm_up()
        self._blocks = Blocks(
            self.driver, self.counts, lambda gone: self._machine.committer.add(gone)
        )
        self._restore(started)
        self._machine = Machine(config, started, files, clock, wall, self._over.append)
        self._reads, self._writes = self._machine.reads, self._machine.writes
        self._place = self._blocks.place

    @classmethod
    def open(
        cls,
        config: SsdConfig,
        namespace: Namespace,
        payload_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        files: OsFiles | None = None,
        wall: Callable[[], float] = time.time,
    ) -> SsdCache:
        """Check a namespace, bring it under the cap and serve it.

        ``clock`` gives seconds that nobody sets, ``wall`` those since the epoch.
        Raises AdapterError, one line that says why it cannot be served.
        """
        files = files or OsFiles()
        config.check(slot_bytes(payload_bytes))
        started = start(config, namespace, payload_bytes, files)
        try:
            return cls(config, started, files, clock, wall)
        except BaseException:
            started.release(files, is_useless=False)
            raise

    # Look-ups and requests

    def __contains__(self, key: object) -> bool:
        """Return whether a block is stored, readable now or not; counts nothing."""
        return key in self._place

    def lookup(self, key: bytes) -> bool:
        """Return whether a block is stored and can be loaded; changes only counts."""
        if key in self._place and not self._reads.is_open:
            self._num_hits += 1
            return True
        self._num_misses += 1
        return False

    def on_request(self, request: Request, keys: Sequence[bytes], now_s: float) -> None:
        """Tell the policy of a request: its keys, head first, each once.

        Later calls for the same request bring the keys that are new.
        """
        if not keys:
            return
        driver = self.driver
        driver.now_s = now_s
        if not request.is_observed:
            driver.begin()
        driver.note_lookup(keys)
        driver.observe(request, keys)
        driver.hit(request, keys)
        self._used += 1
        wall_s = self._wall()
        for key in keys:
            at = self._blocks.at(key)
            if at is not None:
                self._uses.append((self._used, wall_s, *at))

    def finish_request(self, request: Request, keys: Sequence[bytes]) -> None:
        """Put a request's blocks in order, so that heads outlive tails."""
        self.driver.finish(request, keys)

    # Jobs

    def store(
        self,
        job: int,
        keys: list[bytes],
        buffers: list[memoryview],
        depths: list[int],
        request: Request,
        now_s: float,
    ) -> list[bool]:
        """Take blocks for storing, head first; return which were taken.

        Those that were come in one `JobDone`; a job of which nothing was taken does not
        come. Buffers of blocks that were not taken are not touched.
        """
        if self._is_closed or self._writes.is_open:
            self.counts["stores", "paused"] += len(keys)
            return [False] * len(keys)
        self.driver.now_s = now_s
        budget = self._budget.affords(self.slot_bytes, now_s)
        queue = (self.config.queue_bytes - self._queued_bytes) // self.slot_bytes
        taken = offer(
            self._blocks,
            Bounds(self._machine.care.limit, budget, queue),
            request,
            keys,
            depths,
        )
        made = Job(job, True, self._clock() + self.config.store_deadline_s, self._epoch)
        for key, buffer, depth in zip(keys, buffers, depths, strict=True):
            if key in taken:
                self._generation += 1
                task = Task(
                    made, key, buffer, self._generation, depth=depth, used=self._used
                )
                self._blocks.writing[key] = task
                made.tasks.append(task)
        if made.tasks:
            # A request's own blocks are put in order as a whole, by `finish_request`.
            if not request.is_observed:
                self.driver.finish(request, keys)
            self._budget.spend(len(made.tasks) * self.slot_bytes)
            self.counts["bytes", "written"] += len(made.tasks) * self.slot_bytes
            self._queued_bytes += len(made.tasks) * self.slot_bytes
            self._send(made, self._stores)
            self._machine.write(made.tasks)
        return [key in taken for key in keys]

    def load(self, job: int, keys: list[bytes], buffers: list[memoryview]) -> bool:
        """Read blocks into buffers; False where nothing is loaded now.

        Otherwise each key comes in one `JobDone`. A block being read stays.
        """
        if self._is_closed or self._reads.is_open:
            self.counts["loads", "paused"] += len(keys)
            return False
        made = Job(job, False, self._clock() + self.config.load_deadline_s, self._epoch)
        found = []
        for key, buffer in zip(keys, buffers, strict=True):
            at = self._blocks.at(key)
            if at is None:
                task = Task(made, key, None, 0)
                task.failure = "absent"
                self._over.append(task)
            else:
                task = Task(made, key, buffer, at[1], at[0])
                found.append(task)
            made.tasks.append(task)
        self._blocks.pin([task.key for task in found])
        self.counts["bytes", "read"] += len(found) * self.slot_bytes
        self._send(made, self._loads)
        self._machine.pool.add_reads(found)
        return True

    def finished(self) -> list[JobDone]:
        """Return the jobs that are over since the last call; to be called each step."""
        machine = self._machine
        self._blocks.drop_files(machine.care.lost, machine.slots.slots_per_file)
        for _ in range(len(self._over)):
            task = self._over.popleft()
            self._num_taken += 1
            if not task.is_over:
                self._end(task)
        now_s = self._clock()
        self._give_up_late(self._loads, now_s)
        self._give_up_late(self._stores, now_s)
        if self._blocks.complete():
            self._warning.look(self.counts)
        late = now_s - self._flushed_s >= _FLUSH_S
        if len(self._uses) >= _FLUSH_USES or (self._uses and late):
            self._flush(now_s)
        done, self._done = self._done, []
        return done

    # The tier

    def statistics(self) -> dict[tuple[str, str], int]:
        """Return what was counted since the start, by (name, label)."""
        counted = dict(self.counts)
        counted["lookups", "hit"] = self._num_hits
        counted["lookups", "miss"] = self._num_misses
        counted["faults", "policy"] = self.driver.num_faults
        for breaker in (self._reads, self._writes):
            counted["pauses", breaker.name] = breaker.num_openings
        return counted

    def gauges(self) -> dict[str, float]:
        """Return how things stand."""
        slots = self._machine.slots
        return {
            "capacity": self.driver.capacity,
            "resident": len(self._place),
            "pending": len(self._blocks.writing),
            "queued_bytes": self._queued_bytes,
            "slot_file_bytes": len(slots.numbers()) * slots.file_bytes,
            "reads_paused": int(self._reads.is_open),
            "writes_paused": int(self._writes.is_open),
            "fallen_back": int(self.driver.fallen_back),
        }

    def reset(self) -> None:
        """Forget every block, here and for every later process.

        Jobs under way are reported as failed. What is stored from now on is of use to
        this process alone.
        """
        self._epoch += 1
        self._blocks.reset()
        self._uses.clear()
        self._machine.committer.clear()

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; reports are left for `finished`."""
        until_s = time.monotonic() + timeout_s
        while self._num_sent > self._num_taken + len(self._over) or (
            not self._machine.committer.is_idle
        ):
            if time.monotonic() >= until_s:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self, timeout_s: float | None = None) -> bool:
        """Make durable what is under way, and let the path go.

        False where the disk did not answer in time; then its threads are left alone.
        """
        if self._is_closed:
            return True
        limit_s = self.config.close_deadline_s if timeout_s is None else timeout_s
        until_s = time.monotonic() + limit_s
        drained = self.drain(limit_s)
        self.finished()
        self._is_closed = True
        self._flush(self._clock())
        is_useless = self.config.ephemeral or self._epoch > 0
        left_s = until_s - time.monotonic()
        if not self._machine.close(drained, is_useless, left_s):
            _LOG.warning("hotset: the SSD tier's disk did not answer in %g s", limit_s)
            return False
        return drained

    def stop(self, timeout_s: float) -> bool:
        """Move no byte any more; True once no buffer of the caller's is touched."""
        is_still = self._machine.pool.close(timeout_s)
        self._machine.care.fail_waiting("stopped")
        return is_still

    # Inside: the end of tasks

    def _send(self, job: Job, waiting: deque[Job]) -> None:
        job.num_left = len(job.tasks)
        self._num_sent += len(job.tasks)
        waiting.append(job)

    def _end(self, task: Task) -> None:
        """Note that a task is over, and its job with the last one."""
        task.is_over = True
        job = task.job
        if job.epoch != self._epoch:
            task.failure = task.failure or "reset"
        if job.is_store:
            self._queued_bytes -= self.slot_bytes
            self._blocks.end_store(task)
        elif job.epoch == self._epoch and task.failure != "absent":
            self._blocks.end_load(task)
        name = "stores" if job.is_store else "loads"
        self.counts[name, task.failure or "done"] += 1
        job.num_left -= 1
        if not job.num_left:
            job.is_reported = True
            self._done.append(
                JobDone(
                    job.number,
                    [t.key for t in job.tasks if not t.failure],
                    [t.key for t in job.tasks if t.failure],
                )
            )
            job.tasks = []

    def _give_up_late(self, jobs: deque[Job], now_s: float) -> None:
        """Give up jobs whose deadline has passed."""
        while jobs and (jobs[0].is_reported or jobs[0].deadline_s <= now_s):
            job = jobs[0]
            if not job.is_reported:
                left = [task for task in job.tasks if not task.is_over]
                given_up = [task for task in left if task.give_up()]
                for task in given_up:
                    task.failure = "deadline"
                    self._end(task)
                breaker = self._writes if job.is_store else self._reads
                if given_up:
                    breaker.note(False, "a deadline passed")
                if len(given_up) < len(left):
                    return  # the others are being copied or committed
            jobs.popleft()

    # Inside: the rest

    def _restore(self, started: Started) -> None:
        now_s, wall_s = self._clock(), self._wall()
        rows = started.rows
        tell(self.driver, rows, now_s, wall_s)
        self._blocks.restore(rows)
        self._used = max((row.used for row in rows), default=0)
        self._generation = max((row.generation for row in rows), default=0)
        last = started.index.meta(GENERATION) or 0.0
        if 0 <= last < MAX_GENERATION:
            self._generation = max(self._generation, int(last))
        self._budget = WriteBudget(self.config.writes_per_day_bytes, now_s)
        level, at_s = started.index.meta(LEVEL), started.index.meta(LEVEL_AT)
        if level is not None and at_s is not None:
            self._budget.restore(level, wall_s - at_s)

    def _flush(self, now_s: float) -> None:
        uses, self._uses = self._uses, []
        self._flushed_s = now_s
        meta = {
            LEVEL: self._budget.level,
            LEVEL_AT: self._wall(),
            GENERATION: float(self._generation),
        }
        self._machine.committer.add(uses=uses, meta=meta)
