"""What the cache reports of its jobs, and what a job is made of."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True)
class JobDone:
    """A job that is over; each of its keys stands in one of the two lists.

    Parameters
    ----------
    job : int
        The caller's number of it.
    done : list of bytes
        Keys that were stored durably, or loaded and found right.
    failed : list of bytes
        The others.
    """

    job: int
    done: list[bytes] = field(default_factory=list)
    failed: list[bytes] = field(default_factory=list)


class Task:
    """One key of a job: a slot to read, or to write and commit.

    Whoever copies to or from the caller's buffer holds ``lock`` and looks at
    ``is_dead`` first; a task that is dead never touches the buffer again.

    Parameters
    ----------
    job : Job
        Whose it is.
    key : bytes
        The full key.
    buffer : memoryview
        The caller's memory.
    generation : int
        Number of the write that filled, or fills, the slot.
    slot : int
        The slot; -1 for a write that has none yet.
    depth, used : int
        Place of the block in its request, and number of its last use.

    Attributes
    ----------
    failure : str
        Why it failed; empty while it did not.
    is_committing : bool
        Whether its row is being committed: it can no longer be given up.
    """

    __slots__ = (
        "buffer",
        "depth",
        "failure",
        "generation",
        "is_committing",
        "is_dead",
        "is_over",
        "job",
        "key",
        "lock",
        "slot",
        "used",
    )

    def __init__(
        self,
        job: Job,
        key: bytes,
        buffer: memoryview | None,
        generation: int,
        slot: int = -1,
        depth: int = 0,
        used: int = 0,
    ) -> None:
        self.job = job
        self.key = key
        self.buffer = buffer
        self.generation = generation
        self.slot = slot
        self.depth = depth
        self.used = used
        self.failure = ""
        self.is_dead = self.is_committing = self.is_over = False
        self.lock = threading.Lock()

    def give_up(self) -> bool:
        """Make sure that the buffer is not touched again; False if it is right now."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self.is_committing:
                return False
            self.is_dead = True
            self.buffer = None
            return True
        finally:
            self.lock.release()


class Job:
    """A load or a store of some keys.

    Parameters
    ----------
    number : int
        The caller's number.
    is_store : bool
        Whether it writes.
    deadline_s : float
        When it is given up, by the cache's clock.
    epoch : int
        The cache's resets before it.
    """

    __slots__ = (
        "deadline_s",
        "epoch",
        "is_reported",
        "is_store",
        "num_left",
        "number",
        "tasks",
    )

    def __init__(
        self, number: int, is_store: bool, deadline_s: float, epoch: int
    ) -> None:
        self.number = number
        self.is_store = is_store
        self.deadline_s = deadline_s
        self.epoch = epoch
        self.tasks: list[Task] = []
        self.num_left = 0
        self.is_reported = False
