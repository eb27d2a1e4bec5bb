"""The engine in simulated time: one process steps, others bring and move things.

A step is decided at its start and booked at its end. A store that is offered in one
step is handed to the link in the next, and known to be done at the end of that step or
of a later one; a load begins in the step that takes its request up. Steps in which
nothing can be decided (decoding goes on, nothing comes, nothing is due) pass as one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from hotset.policies.errors import PolicyError
from hotset.sim.batching import Batcher
from hotset.sim.clockwork import Bell, EndOfInstant
from hotset.sim.cost import CostModel
from hotset.sim.gpu_pool import GpuPool
from hotset.sim.job import Job, Phase
from hotset.sim.meter import Meter
from hotset.sim.ssd_traffic import SsdLinks, SsdTraffic
from hotset.sim.steps import BatchLimits, Step
from hotset.sim.tier import OffloadTier
from hotset.sim.tiers import TwoTiers
from hotset.sim.transfers import LOAD, STORE, Link, LinkSpec

Log = list[tuple[Any, ...]]
Transfer = tuple[Job, list[int], int]  # whose, which chunks, `LOAD` or `STORE`

_UNPIN = -1  # in a transfer's place: its chunks are let go


@dataclass(frozen=True)
class EngineSpec:
    """A machine that runs a model.

    Parameters
    ----------
    cost : CostModel
        Seconds of its work.
    gpu_blocks : int
        Blocks of its pool, the unused one included.
    limits : BatchLimits
        What a step can hold.
    kv_bytes_per_token : int
        KV cache bytes of a token over all ranks.
    load_link, store_link : LinkSpec
        From CPU to GPU, and back.
    is_duplex : bool
        Whether loads and stores keep out of each other's way; otherwise both use
        ``load_link``.
    loads_if_faster : bool
        Whether a hit is taken only where its load beats computing it.
    offers_at_end : bool
        Whether chunks that were refused are offered once more behind a request's
        last step.
    is_async : bool
        Whether the next step is decided before this one is booked: transfers are then
        known to be done a step later, unless the engine is idle, and what was loaded is
        let go a step behind the request's return.
    ssd : SsdLinks, optional
        How the SSD is reached, where there is one.
    """

    cost: CostModel
    gpu_blocks: int
    limits: BatchLimits
    kv_bytes_per_token: int
    load_link: LinkSpec
    store_link: LinkSpec
    is_duplex: bool = True
    loads_if_faster: bool = False
    offers_at_end: bool = False
    is_async: bool = False
    ssd: SsdLinks | None = None

    def loads_before(self, tokens: int, cached_tokens: int, ssd_tokens: int) -> bool:
        """Return whether loading tokens, on idle links, beats computing them.

        ``ssd_tokens`` of them are read from the SSD first.
        """
        size = self.kv_bytes_per_token
        load_s = self.load_link.seconds(tokens * size)
        if ssd_tokens and self.ssd is not None:
            load_s += self.ssd.read.seconds(ssd_tokens * size)
        return load_s < self.cost.chunk_s(tokens, cached_tokens)


class Engine:
    """An engine in a simulation.

    Parameters
    ----------
    env : simpy.Environment
        The simulation.
    spec : EngineSpec
        The machine.
    tier : OffloadTier
        The CPU tier; with an SSD behind it where the machine has one.
    on_done : callable, optional
        Told of each job at its end.
    log : list, optional
        Receives ``(time, what, request)`` of everything that happens.
    max_steps : int
        Steps behind which a simulation is given up.
    """

    def __init__(
        self,
        env: simpy.Environment,
        spec: EngineSpec,
        tier: OffloadTier,
        on_done: Callable[[Job], None] | None = None,
        log: Log | None = None,
        max_steps: int = 1 << 40,
    ) -> None:
        self.env = env
        self.spec = spec
        self.tier = tier
        self.load_link = Link(env, spec.load_link)
        self.store_link = (
            Link(env, spec.store_link) if spec.is_duplex else self.load_link
        )
        self.pool = GpuPool(spec.gpu_blocks)
        pays = spec.loads_before if spec.loads_if_faster else None
        self.batcher = Batcher(spec.limits, self.pool, tier, pays)
        self.num_loaded_tokens = 0
        self.busy = Meter(env)  # 1 while a step computes
        self.present = Meter(env)  # requests between their arrival and their end
        self.held_blocks = Meter(env)
        self.holders = Meter(env)  # requests that hold them
        self.pool_use = Meter(env)  # share of the blocks that no request can take
        self.num_crowded_steps = 0  # that decode while others wait for a turn
        self.num_crowded_sequences = 0  # decoding in them
        self._max_steps = max_steps
        self._on_done = on_done
        self._log = log
        self._bell = Bell(env)
        self.ssd: SsdTraffic | None = None
        if spec.ssd is not None and isinstance(tier, TwoTiers):
            self.ssd = SsdTraffic(env, spec.ssd, tier, self._bell.ring)
        self._leaving: list[Job] = []  # at their end, with chunks still to offer
        self._created: list[tuple[Job, list[int]]] = []  # stores not handed over yet
        self._reported: list[Transfer] = []  # transfers that are over
        self._late: list[Transfer] = []  # the same, known a step later
        self._num_moving = 0
        self._done: dict[Job, simpy.Event] = {}
        self._is_closed = False
        self.process = env.process(self._run())

    # What comes from outside

    def submit(self, job: Job) -> simpy.Event:
        """Bring a request; return the event of its end.

        Raises
        ------
        PolicyError
            If it can never fit the GPU's blocks.
        """
        longest = job.input_tokens + job.output_tokens - 1
        need = -(-longest // self.spec.limits.block_tokens)
        if need > self.pool.num_usable:
            raise PolicyError(
                f"request {job.index} is longer than the GPU pool: it needs {need} "
                f"blocks, {self.pool.num_usable} can be used"
            )
        self.present.add(1)
        self.batcher.add(job)
        self._note("arrives", job)
        self._done[job] = self.env.event()
        self._bell.ring()
        return self._done[job]

    def close(self) -> None:
        """Say that no more requests come; the engine stops when all are through."""
        self._is_closed = True
        self._bell.ring()

    # Steps

    def _run(self) -> Generator[simpy.Event, Any, None]:
        batcher, env = self.batcher, self.env
        while True:
            step = batcher.schedule(env.now)
            self._measure(step)
            self._hand_over(step)
            self._offer(step)
            if self.ssd is not None:
                self.ssd.begin()
            if self._created or self._late:  # the next step has something to do
                step.most_steps = 1
            if step.computes:
                self.busy.set(1)
                num_steps = yield from self._pass(step)
                self.busy.set(0)
                self._report()
                self._book(step, num_steps)
                if batcher.step > self._max_steps:
                    raise PolicyError(
                        f"no end after {self._max_steps} steps of the engine"
                    )
            elif step.gave_way or self._is_busy() or (yield from self._sleep()):
                yield EndOfInstant(env)
                self._report()
                self._report()
            else:
                return

    def _measure(self, step: Step) -> None:
        held = self.pool.num_usable - self.pool.num_free
        self.held_blocks.set(held)
        self.holders.set(len(self.batcher.running) + len(self.batcher.loading))
        # Where the next request finds no room, what is left is of no use.
        is_full = step.lacks_room or step.gave_way
        self.pool_use.set(1.0 if is_full else held / self.pool.num_usable)

    def _is_busy(self) -> bool:
        """Return whether a step without work has something to hand over or report."""
        return bool(self._created or self._reported or self._late)

    def _sleep(self) -> Generator[simpy.Event, Any, bool]:
        """Wait until something happens; return False where nothing ever will."""
        if not self._num_moving and not (self.ssd and self.ssd.num_moving):
            if self._is_closed and not self.batcher.num_unfinished:
                return False
            assert not self.batcher.num_unfinished, "requests wait for nothing"
        yield self._bell.wait()
        return True

    def _pass(self, step: Step) -> Generator[simpy.Event, Any, int]:
        """Let a step's time pass, or that of several like it; return how many."""
        env, began_s = self.env, self.env.now
        if step.most_steps == 1:
            seconds = self._seconds(step)
            yield EndOfInstant(env, seconds)
            return 1
        seconds = self._seconds(step, step.most_steps)
        end = EndOfInstant(env, seconds)
        yield end | self._bell.wait()
        num_steps = step.most_steps
        if not end.processed:
            num_steps = self._steps_until(step, env.now - began_s)
            seconds = self._seconds(step, num_steps)
            yield EndOfInstant(env, max(began_s + seconds - env.now, 0.0))
        return num_steps

    def _steps_until(self, step: Step, seconds: float) -> int:
        """Return how many steps there are until one ends at or behind a time."""
        low, high = 0, step.most_steps
        while high - low > 1:
            middle = (low + high) // 2
            if self._seconds(step, middle) < seconds:
                low = middle
            else:
                high = middle
        return high

    def _seconds(self, step: Step, num_steps: int = 1) -> float:
        cost = self.spec.cost
        seconds = cost.decoding_s(step.num_decoding, step.context_tokens, num_steps)
        for job, tokens in step.prefill.items():
            seconds += cost.chunk_s(tokens, job.computed)
            if not job.is_begun:
                seconds += cost.start_s
        return seconds

    def _book(self, step: Step, num_steps: int) -> None:
        if step.lacks_turn and step.num_decoding:
            self.num_crowded_steps += num_steps
            self.num_crowded_sequences += num_steps * step.num_decoding
        for job in step.prefill:
            job.is_begun = True
        for job, is_done in self.batcher.finish_steps(step, num_steps):
            if job.first_token_s < 0:
                job.first_token_s = self.env.now
                self._note("first token", job)
            if is_done:
                self._end(job)
            elif self._has_more_to_offer(job):
                self.batcher.refused[job] = None

    def _end(self, job: Job) -> None:
        self._note("ends", job)
        self.present.add(-1)
        if self.spec.offers_at_end and self._has_more_to_offer(job):
            self._leaving.append(job)
        elif job.num_writing == 0:
            self.tier.finish(job)
        if self._on_done is not None:
            self._on_done(job)
        self._done.pop(job).succeed()

    # Stores and loads

    def _offer(self, step: Step) -> None:
        """Offer what a step fills, and once more what was refused before."""
        for job in list(self.batcher.refused):
            self._offer_up_to(job, job.input_tokens)
            if not self._has_more_to_offer(job):
                self.batcher.refused.pop(job)
        for job, tokens in step.prefill.items():
            self._offer_up_to(job, min(job.computed + tokens, job.input_tokens))
        for job in self._leaving:
            self._offer_up_to(job, job.input_tokens)
            if job.num_writing == 0:
                self.tier.finish(job)
        self._leaving.clear()

    def _offer_up_to(self, job: Job, tokens: int) -> None:
        """Offer the chunks that are full with so many tokens."""
        filled = min(tokens // self.spec.limits.chunk_tokens, len(job.chunks))
        if filled <= job.upcoming:
            return
        stored = self.tier.offer(job, filled, self.env.now)
        if stored:
            job.num_writing += 1
            self._created.append((job, stored))
            self._note("offers", job)

    def _has_more_to_offer(self, job: Job) -> bool:
        full = min(job.input_tokens // self.spec.limits.chunk_tokens, len(job.chunks))
        return job.upcoming < full

    def _hand_over(self, step: Step) -> None:
        """Start the stores of the step before and the loads of this one."""
        for job, chunks in self._created:
            self._start(job, chunks, self.store_link, STORE)
        self._created.clear()
        for job in step.loads:
            chunks = list(job.chunks[job.first_load : job.last_load])
            self._note("loads", job)
            self._start(job, chunks, self.load_link, LOAD)

    def _start(self, job: Job, chunks: list[int], link: Link, kind: int) -> None:
        self._num_moving += 1
        self.env.process(self._move(job, chunks, link, kind))

    def _move(
        self, job: Job, chunks: list[int], link: Link, kind: int
    ) -> Generator[simpy.Event, Any, None]:
        began_s = self.env.now
        tokens = self._tokens_moved(job, chunks, kind)
        yield from link.transfer(tokens * self.spec.kv_bytes_per_token, kind)
        if kind == LOAD:
            self.num_loaded_tokens += tokens
            job.load_s += self.env.now - began_s
        self._num_moving -= 1
        self._reported.append((job, chunks, kind))
        self._bell.ring()

    def _tokens_moved(self, job: Job, chunks: list[int], kind: int) -> int:
        """Return what moves: whole chunks, without the head that the GPU has."""
        tokens = len(chunks) * self.spec.limits.chunk_tokens
        if kind == LOAD:
            had = job.num_named * self.spec.limits.block_tokens
            tokens -= max(had - job.first_load * self.spec.limits.chunk_tokens, 0)
        return tokens

    def _report(self) -> None:
        """Take note of the transfers that are over."""
        if self.ssd is not None:
            self.ssd.report()
        if not self.spec.is_async:
            self._late += self._reported
            self._reported = []
        known, self._late = self._late, self._reported
        self._reported = []
        for job, chunks, kind in known:
            if kind == LOAD:
                job.phase = Phase.LOADED
                self._note("loaded", job)
                if self.spec.is_async:
                    self._late.append((job, chunks, _UNPIN))
                else:
                    self.tier.end_load(chunks)
            elif kind == _UNPIN:
                self.tier.end_load(chunks)
            else:
                self._end_store(job, chunks)

    def _end_store(self, job: Job, chunks: list[int]) -> None:
        self.tier.end_store(job, chunks, self.env.now)
        job.num_writing -= 1
        self._note("stored", job)
        if job.num_writing == 0 and job.phase is Phase.DONE:
            self.tier.finish(job)

    def _note(self, what: str, job: Job) -> None:
        if self._log is not None:
            self._log.append((self.env.now, what, job.index))
