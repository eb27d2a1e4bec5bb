"""Continuous batching: which requests compute how many tokens in the next step.

Rules of vLLM's scheduler, first come first served: every decoding request computes one
token, a prompt that is not through goes on, then waiting requests are taken up while
the token budget, the number of sequences and the GPU's blocks allow. A request is taken
up only where its whole prompt finds room. Where a running request needs a block and
none is free, the request taken up last gives its blocks back and waits again.

Nothing is done for a decoding request in a step in which nothing happens to it: the
steps at which it needs a block and at which it ends are known when it starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from hotset.sim.gpu_pool import GpuPool
from hotset.sim.job import Job, Phase
from hotset.sim.steps import BatchLimits, Calendar, Step
from hotset.sim.tier import Found, OffloadTier, Pays


class Batcher:
    """Requests waiting and running.

    Parameters
    ----------
    limits : BatchLimits
        What a step can hold.
    pool : GpuPool
        The GPU's blocks.
    tier : OffloadTier
        The CPU tier.
    pays : Pays, optional
        Whether a load beats computing; without it every hit is loaded.
    """

    def __init__(
        self,
        limits: BatchLimits,
        pool: GpuPool,
        tier: OffloadTier,
        pays: Pays | None = None,
    ) -> None:
        self.limits = limits
        self.pool = pool
        self.tier = tier
        self._pays = pays
        self.step = 0  # number of the step that comes next
        self.num_decoding = 0
        self.waiting: deque[Job] = deque()
        self.loading: dict[Job, None] = {}
        self.running: dict[Job, None] = {}
        self.refused: dict[Job, None] = {}  # decoding, with chunks still to offer
        self._partial: dict[Job, None] = {}  # running, prompt not through
        self._context_tokens = 0  # of decoding requests, before the next step
        self._turns = 0
        self._growth = Calendar()
        self._ends = Calendar()
        self._blocked_at = -1  # the pool's version when the first one found no room

    @property
    def num_unfinished(self) -> int:
        """Requests that came and did not end."""
        return len(self.waiting) + len(self.loading) + len(self.running)

    def add(self, job: Job) -> None:
        """Queue a request that has come."""
        self.waiting.append(job)

    def schedule(self, now_s: float) -> Step:
        """Decide on the next step, and hold the blocks that it needs."""
        step = Step()
        step.gave_way = self._continue_running(step)
        if not step.gave_way:
            self._resume_loaded(step)
            self._take_up_waiting(step, now_s)
        step.num_decoding = self.num_decoding
        step.context_tokens = self._context_tokens
        if not step.prefill and not self.refused:
            step.most_steps = self._quiet_steps()
        return step

    # Running requests

    def _continue_running(self, step: Step) -> bool:
        """Give running requests their blocks; return whether one had to give way."""
        growing = self._growth.due(self.step)
        if not growing and not self._partial:
            return False
        in_turn = sorted([*growing, *self._partial], key=lambda job: job.turn)
        gave_way = False
        for job in in_turn:
            if job not in self.running:  # gave way to one before it
                continue
            if job.phase is Phase.DECODING:
                size = self.limits.block_tokens
                gave_way |= self._make_room(1, job, step)
                if job in self.running:
                    job.held += self.pool.take(1)
                    self._growth.add(self.step + size, job)
                continue
            budget = self._budget(step)
            if budget > 0:
                gave_way |= self._extend(
                    job, min(job.target - job.computed, budget), step
                )
        return gave_way

    def _extend(self, job: Job, tokens: int, step: Step) -> bool:
        """Prefill more tokens; return whether a request had to give way."""
        need = -(-(job.computed + tokens) // self.limits.block_tokens) - len(job.held)
        gave_way = self._make_room(need, job, step)
        if job in self.running:
            self._prefill(job, tokens, step)
        return gave_way

    def _make_room(self, need: int, job: Job, step: Step) -> bool:
        """Preempt until blocks are free or the one in need is gone itself."""
        gave_way = False
        while self.pool.num_free < need and job in self.running:
            self._preempt(next(reversed(self.running)), step)
            gave_way = True
        return gave_way

    def _preempt(self, job: Job, step: Step) -> None:
        if job.phase is Phase.DECODING:
            done = self._leave_decoding(job, self.step)
            job.generated += done
            job.computed += done
        step.prefill.pop(job, None)
        self._give_back(job)
        self.running.pop(job)
        self._partial.pop(job, None)
        self.refused.pop(job, None)
        job.target = job.input_tokens + job.generated
        job.computed = 0
        job.is_begun = False
        job.phase = Phase.WAITING
        job.seen_version = -1
        job.promoted = None
        job.num_preemptions += 1
        self.waiting.appendleft(job)

    def _leave_decoding(self, job: Job, next_step: int) -> int:
        """Take a request out of the decoding ones; return the steps that it did."""
        done = next_step - job.joined_step
        self.num_decoding -= 1
        self._context_tokens -= job.computed + done
        job.epoch += 1
        return done

    def _give_back(self, job: Job) -> None:
        self.pool.release(job.held, job.computed // self.limits.block_tokens)
        job.held = []
        job.num_named = 0

    def _budget(self, step: Step) -> int:
        used = sum(step.prefill.values()) if step.prefill else 0
        return self.limits.step_tokens - self.num_decoding - used

    # Requests that are taken up

    def _resume_loaded(self, step: Step) -> None:
        """Let requests whose load is done compute what is left."""
        if not self.loading:
            return
        for job in [job for job in self.loading if job.phase is Phase.LOADED]:
            budget = self._budget(step)
            if budget <= 0 or len(self.running) >= self.limits.max_sequences:
                step.lacks_turn = True
                return
            if self._blocks_to_come(job) > self.pool.num_free:
                step.lacks_room = True
                continue
            del self.loading[job]
            cached = job.last_load * self.limits.chunk_tokens
            job.computed = min(cached, job.target - 1)
            self._name_full(job, cached)
            self._run(job, min(job.target - job.computed, budget), step)

    def _take_up_waiting(self, step: Step, now_s: float) -> None:
        if not self.waiting:
            return
        if self._blocked_at == self.pool.version:
            step.lacks_room = True
            return
        passed_over = []
        reserved = sum(map(self._blocks_to_come, [*self.loading, *self._partial]))
        while (
            self.waiting
            and len(self.running) < self.limits.max_sequences
            and self._budget(step) > 0
        ):
            job = self.waiting.popleft()
            if job.seen_version == self.tier.version:
                passed_over.append(job)
                continue
            outcome = self._take_up(job, reserved, step, now_s)
            if outcome is None:
                self.waiting.appendleft(job)
                step.lacks_room = True
                break
            if not outcome:
                passed_over.append(job)
            else:
                reserved += self._blocks_to_come(job)
        step.lacks_turn |= bool(self.waiting) and not step.lacks_room
        self.waiting.extendleft(reversed(passed_over))

    def _take_up(
        self, job: Job, reserved: int, step: Step, now_s: float
    ) -> bool | None:
        """Take up a request; False where it must wait for a transfer, None for room."""
        size, pool = self.limits.block_tokens, self.pool
        limit = min((job.target - 1) // size, len(job.blocks))
        num_hits = pool.lookup(job.blocks, limit)
        local = num_hits * size
        found = self._find(job, local, now_s)
        if found.must_wait:
            job.seen_version = self.tier.version
            return False
        hits = job.blocks[:num_hits]
        need = -(-job.target // size) - num_hits + pool.num_queued(hits)
        if need > pool.num_free - reserved:
            if not self.loading:
                self._blocked_at = pool.version
            return None
        self.tier.start(job, found, now_s)
        job.held = pool.share(hits)
        job.num_named = num_hits
        job.computed = local
        job.first_load, job.last_load = found.first, found.last
        if job.admitted_s < 0:
            job.admitted_s = now_s
            job.gpu_tokens = local
            job.hit_tokens = self._cached_tokens(found, local)
            job.ssd_tokens = self._ssd_tokens(job, found, local)
        if found.last > found.first:
            self._begin_load(job, found, step)
        else:
            self._run(job, min(job.target - local, self._budget(step)), step)
        return True

    def _find(self, job: Job, local: int, now_s: float) -> Found:
        if job.num_writing > 0:  # back from a preemption: no look-up until written
            first = local // self.limits.chunk_tokens
            return Found(first, first, first, False)
        return self.tier.find(job, local, job.target, now_s, self._pays)

    def _cached_tokens(self, found: Found, local: int) -> int:
        if found.last == found.first:
            return local
        return found.last * self.limits.chunk_tokens

    def _ssd_tokens(self, job: Job, found: Found, local: int) -> int:
        """Return the tokens to load that the request had read from the SSD."""
        if not job.promoted:
            return 0
        size = self.limits.chunk_tokens
        loads = job.chunks[found.first : found.last]
        tokens = size * sum(key in job.promoted for key in loads)
        if loads and loads[0] in job.promoted:  # its head, the GPU has
            tokens -= local - found.first * size
        return tokens

    def _begin_load(self, job: Job, found: Found, step: Step) -> None:
        cached = found.last * self.limits.chunk_tokens
        job.upcoming = max(job.upcoming, found.last)
        job.held += self.pool.take(cached // self.limits.block_tokens - len(job.held))
        job.phase = Phase.LOADING
        self.tier.begin_load(job.chunks[found.first : found.last])
        self.loading[job] = None
        step.loads.append(job)

    def _run(self, job: Job, tokens: int, step: Step) -> None:
        self._turns += 1
        job.turn = self._turns
        job.phase = Phase.PREFILL
        self.running[job] = None
        self._partial[job] = None
        self._prefill(job, tokens, step)

    def _prefill(self, job: Job, tokens: int, step: Step) -> None:
        upto = job.computed + tokens
        need = -(-upto // self.limits.block_tokens) - len(job.held)
        job.held += self.pool.take(need)
        self._name_full(job, upto)
        step.prefill[job] = tokens

    def _name_full(self, job: Job, tokens: int) -> None:
        """Cache the blocks that are full with so many tokens."""
        full = min(tokens // self.limits.block_tokens, len(job.blocks))
        if full > job.num_named:
            self.pool.name(
                job.held[job.num_named : full], job.blocks[job.num_named : full]
            )
            job.num_named = full

    def _blocks_to_come(self, job: Job) -> int:
        """Return the blocks that a prompt needs beside those it holds."""
        return -(-job.target // self.limits.block_tokens) - len(job.held)

    # The end of steps

    def finish_steps(self, step: Step, num_steps: int) -> Iterator[tuple[Job, bool]]:
        """Book steps that are over; yield requests with a first token, or at their end.

        Yields
        ------
        Job, bool
            The request, and whether it is done; in order of admission.
        """
        last = self.step + num_steps - 1
        self.step += num_steps
        self._context_tokens += step.num_decoding * num_steps
        changed: list[Job] = self._ends.due(last)
        for job in changed:
            done = self._leave_decoding(job, self.step)
            job.generated += done
            job.computed += done
        for job, tokens in step.prefill.items():
            job.num_computed += min(tokens, max(job.input_tokens - job.computed, 0))
            job.computed += tokens
            if job.computed == job.target:
                self._partial.pop(job)
                job.generated += 1
                changed.append(job)
        if len(changed) > 1:
            changed.sort(key=lambda job: job.turn)
        for job in changed:
            is_done = job.generated >= job.output_tokens
            if is_done:
                self._end(job)
            else:
                self._decode(job)
            yield job, is_done

    def _end(self, job: Job) -> None:
        job.phase = Phase.DONE
        self.running.pop(job)
        self.refused.pop(job, None)
        self._give_back(job)

    def _decode(self, job: Job) -> None:
        job.phase = Phase.DECODING
        job.joined_step = self.step
        self.num_decoding += 1
        self._context_tokens += job.computed
        last = self.step + job.output_tokens - job.generated - 1
        self._ends.add(last, job)
        room = len(job.held) * self.limits.block_tokens - job.computed
        self._growth.add(self.step + room, job)

    def _quiet_steps(self) -> int:
        """Return how many steps nothing is planned in, the next one included."""
        end, growth = self._ends.next_step(), self._growth.next_step()
        most = 1 if end is None else end - self.step + 1
        return max(min(most, growth - self.step) if growth is not None else most, 1)
