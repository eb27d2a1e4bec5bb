"""Steps of the engine: what fits into one, what one does, what is planned for later."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from hotset.sim.job import Job


@dataclass(frozen=True)
class BatchLimits:
    """What one step can hold.

    Parameters
    ----------
    step_tokens : int
        Tokens computed in one step, at least ``max_sequences``.
    max_sequences : int
        Requests that run at once.
    block_tokens : int
        Tokens of a GPU block.
    chunk_tokens : int
        Tokens of an offloaded chunk, a multiple of the block.
    """

    step_tokens: int
    max_sequences: int
    block_tokens: int
    chunk_tokens: int


@dataclass
class Step:
    """What a step does.

    Parameters
    ----------
    prefill : dict of Job to int
        Tokens to compute, by request, in the order in which vLLM lists them.
    loads : list of Job
        Requests whose load begins.
    num_decoding, context_tokens : int
        Requests that decode, and the tokens that they attend to.
    most_steps : int
        Steps like this one that can follow without anything to decide.
    gave_way : bool
        Whether a request gave its blocks back, so that the next step has room.
    lacks_room : bool
        Whether the next request waits since the GPU has too few free blocks.
    lacks_turn : bool
        Whether it waits since the step has no token or no place left for it.
    """

    prefill: dict[Job, int] = field(default_factory=dict)
    loads: list[Job] = field(default_factory=list)
    num_decoding: int = 0
    context_tokens: int = 0
    most_steps: int = 1
    gave_way: bool = False
    lacks_room: bool = False
    lacks_turn: bool = False

    @property
    def computes(self) -> bool:
        """Whether the GPU has anything to do."""
        return bool(self.prefill) or self.num_decoding > 0


class Calendar:
    """Steps at which something is planned for a decoding request."""

    def __init__(self) -> None:
        self._planned: list[tuple[int, int, int, Job]] = []

    def add(self, step: int, job: Job) -> None:
        """Plan something for a request at a step."""
        heapq.heappush(self._planned, (step, job.turn, job.epoch, job))

    def due(self, step: int) -> list[Job]:
        """Take out what is planned for a step, in order of admission."""
        jobs = []
        while self._planned and self._planned[0][0] <= step:
            _step, _turn, epoch, job = heapq.heappop(self._planned)
            if epoch == job.epoch:
                jobs.append(job)
        return jobs

    def next_step(self) -> int | None:
        """Return the first step for which something may be planned."""
        while self._planned and self._planned[0][2] != self._planned[0][3].epoch:
            heapq.heappop(self._planned)
        return self._planned[0][0] if self._planned else None
