"""Candidates run in processes of their own, which map one copy of the trace.

The parent writes the trace's columns once; workers map them, so that the system keeps
one copy in memory for all. A worker that dies takes down its pool: what was running
counts as crashed, and the pool is made anew.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from hotset.policies.errors import PolicyError
from hotset.sim.candidate import Candidate
from hotset.sim.evaluate import Evaluator, make_evaluator
from hotset.sim.tune_plan import TunePlan
from hotset.traces.cache import TraceCache
from hotset.traces.model import Trace

_KEY = "trace"
_ROOM = 1 << 62  # bytes: the one entry always fits


@dataclass(frozen=True)
class Score:
    """What became of a candidate.

    Parameters
    ----------
    values : tuple of float
        The objectives; empty where there are none.
    fault : str
        Why there are none.
    crashed : bool
        Whether its process died.
    """

    values: tuple[float, ...] = ()
    fault: str = ""
    crashed: bool = False


class Workers(Protocol):
    """Runs candidates, maybe several at a time."""

    def submit(self, candidate: Candidate) -> Future[Score]:
        """Begin to run a candidate."""


class InProcess:
    """Runs candidates in this process, one after the other.

    Parameters
    ----------
    evaluator : Evaluator
        What runs them.
    stop : int
        Requests to run, from the first on.
    """

    def __init__(self, evaluator: Evaluator, stop: int) -> None:
        self._evaluator = evaluator
        self._stop = stop

    def submit(self, candidate: Candidate) -> Future[Score]:
        """Run a candidate."""
        future: Future[Score] = Future()
        future.set_result(scored(self._evaluator, candidate, self._stop))
        return future


class Processes:
    """Runs candidates in processes; a context manager.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : TunePlan
        The plan.
    stop : int
        Requests to run, from the first on.
    jobs : int
        Processes.
    """

    def __init__(self, trace: Trace, plan: TunePlan, stop: int, jobs: int) -> None:
        self._trace, self._plan, self._stop, self._jobs = trace, plan, stop, jobs
        self._folder = tempfile.TemporaryDirectory(prefix="hotset-tune-")
        TraceCache(Path(self._folder.name), _ROOM).store(_KEY, trace)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
        self._folder.cleanup()

    def submit(self, candidate: Candidate) -> Future[Score]:
        """Begin to run a candidate."""
        future: Future[Score] = Future()
        try:
            under_way = self._running_pool().submit(_run, candidate)
        except BrokenExecutor:
            self._pool = None
            under_way = self._running_pool().submit(_run, candidate)
        under_way.add_done_callback(lambda done: _hand_over(done, future))
        return future

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self._jobs,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(
                    self._folder.name,
                    self._trace.provenance.path,
                    self._plan,
                    self._stop,
                ),
            )
        return self._pool


def scored(evaluator: Evaluator, candidate: Candidate, stop: int) -> Score:
    """Return what became of a candidate; an error of it is a fault, not ours."""
    try:
        return Score(evaluator.score(candidate, stop))
    except PolicyError as error:
        return Score(fault=str(error).splitlines()[0])
    except Exception as error:
        # One candidate that cannot run must not end a search of hours.
        return Score(fault=f"{type(error).__name__}: {error}")


def _hand_over(done: Future[Score], future: Future[Score]) -> None:
    if done.cancelled():
        future.cancel()
        return
    error = done.exception()
    if isinstance(error, BrokenExecutor):
        future.set_result(Score(fault="its process died", crashed=True))
    elif error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


# In a worker

_RUNS: list[tuple[Evaluator, int]] = []


def _begin(folder: str, path: str, plan: TunePlan, stop: int) -> None:
    """Map the trace; end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def watch() -> None:
            wait([sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
    trace = TraceCache(Path(folder), _ROOM).load(_KEY, path)
    if trace is None:
        raise RuntimeError(f"the trace's columns are gone from {folder}")
    _RUNS.append((make_evaluator(trace, plan), stop))


def _run(candidate: Candidate) -> Score:
    evaluator, stop = _RUNS[0]
    return scored(evaluator, candidate, stop)


@contextlib.contextmanager
def make_workers(
    evaluator: Evaluator, stop: int, jobs: int, cluster: str | None = None
) -> Iterator[Workers]:
    """Yield `Workers` for the first ``stop`` requests of an evaluator's trace.

    Parameters
    ----------
    evaluator : Evaluator
        Its trace and plan are what is run.
    stop : int
        Requests.
    jobs : int
        Processes on this machine.
    cluster : str, optional
        A Ray cluster that runs them instead, see `hotset.sim.ray_workers`.
    """
    if cluster is not None:
        from hotset.sim.ray_workers import RayTasks

        with RayTasks(evaluator.trace, evaluator.plan, stop, cluster, jobs) as tasks:
            yield tasks
        return
    if jobs == 1:
        yield InProcess(evaluator, stop)
        return
    with Processes(evaluator.trace, evaluator.plan, stop, jobs) as workers:
        yield workers
