"""How requests come: at their times, or from users who wait for their answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from typing import Any

import simpy

from hotset.policies.errors import PolicyError
from hotset.sim.engine import Engine
from hotset.sim.job import Job
from hotset.sim.workload import Workload


class JobSource:
    """Makes the requests of a workload into jobs, one by one.

    Parameters
    ----------
    workload : Workload
        The requests.
    speed : float
        How much faster than in the trace they come.
    on_arrival : callable, optional
        Told of each request before it comes.
    """

    def __init__(
        self,
        workload: Workload,
        speed: float = 1.0,
        on_arrival: Callable[[int], None] | None = None,
    ) -> None:
        self._speed = speed
        self._on_arrival = on_arrival
        self._trace = workload.trace
        self._blocks = workload.blocks
        self._chunks = workload.chunks
        self.num_jobs = self._trace.num_requests

    def job(self, index: int, arrival_s: float) -> Job:
        """Return request ``index`` as it arrives."""
        if self._on_arrival is not None:
            self._on_arrival(index)
        trace, blocks, chunks = self._trace, self._blocks, self._chunks
        return Job(
            index=index,
            arrival_s=arrival_s,
            input_tokens=int(trace.input_tokens[index]),
            output_tokens=max(int(trace.output_tokens[index]), 1),
            blocks=blocks.ids[
                blocks.offsets[index] : blocks.offsets[index + 1]
            ].tolist(),
            chunks=chunks.ids[
                chunks.offsets[index] : chunks.offsets[index + 1]
            ].tolist(),
        )

    def arrival_s(self, index: int) -> float:
        """Return when a request comes, counted from the first one."""
        since_s = self._trace.arrival_s[index] - self._trace.arrival_s[0]
        return float(since_s) / self._speed


def open_loop(
    env: simpy.Environment, engine: Engine, source: JobSource
) -> Generator[simpy.Event, Any, None]:
    """Bring each request at its time, whatever the engine does."""
    for index in range(source.num_jobs):
        at_s = source.arrival_s(index)
        if at_s > env.now:
            yield env.timeout(at_s - env.now)
        engine.submit(source.job(index, env.now))
    engine.close()


def closed_loop(
    env: simpy.Environment,
    engine: Engine,
    source: JobSource,
    num_users: int,
    think_s: float = 0.0,
    seed: int | None = None,
) -> Generator[simpy.Event, Any, None]:
    """Let users bring the requests in turn, each waiting for the answer to its last.

    Parameters
    ----------
    env, engine, source
        The simulation.
    num_users : int
        Users, at least 1.
    think_s : float
        Seconds between an answer and the user's next request.
    seed : int, optional
        Where given, think times are exponential with that mean.

    Raises
    ------
    PolicyError
        If a number is out of range.
    """
    if num_users < 1:
        raise PolicyError(f"{num_users} users: at least 1 is needed")
    if not 0 <= think_s < float("inf"):
        raise PolicyError(f"a think time of {think_s} s: 0 or more is needed")
    draw = random.Random(seed)
    indices = iter(range(source.num_jobs))

    def think_time_s() -> float:
        if seed is None or think_s == 0:
            return think_s
        return draw.expovariate(1 / think_s)

    def user(own: Iterator[int]) -> Generator[simpy.Event, Any, None]:
        for index in own:
            answer = engine.submit(source.job(index, env.now))
            if index == source.num_jobs - 1:  # who still thinks asks nothing more
                engine.close()
            yield answer
            yield env.timeout(think_time_s())

    # More users than requests would find nothing to ask for.
    count = min(num_users, source.num_jobs)
    yield env.all_of([env.process(user(indices)) for _ in range(count)])
    engine.close()
