"""Independent pieces of work at once, on threads.

Native kernels run without Python's lock, so threads are as fast here as processes
would be, share the trace, and start at once. Results come in the order of the tasks:
the number of threads changes nothing in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from hotset.policies.errors import PolicyError

T = TypeVar("T")

_MOST_JOBS = 1024


def usable_cpus() -> int:
    """Return how many CPUs this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


def check_jobs(jobs: int | None) -> int:
    """Return the number of threads; None stands for all usable CPUs.

    Raises
    ------
    PolicyError
        If it is out of range.
    """
    if jobs is None:
        return usable_cpus()
    if not 1 <= jobs <= _MOST_JOBS:
        raise PolicyError(f"--jobs {jobs}: allowed is 1 to {_MOST_JOBS}")
    return jobs


def run_all(tasks: Sequence[Callable[[], T]], jobs: int) -> list[T]:
    """Run tasks, ``jobs`` at a time; return their results in the tasks' order.

    The first error, in the tasks' order, is raised; tasks not begun by then are
    dropped.
    """
    if jobs == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    pool = ThreadPoolExecutor(min(jobs, len(tasks)))
    try:
        return [future.result() for future in [pool.submit(task) for task in tasks]]
    finally:
        pool.shutdown(cancel_futures=True)


def reporter(
    total: int, progress: Callable[[int, int], None] | None
) -> Callable[[int], None]:
    """Return what tasks tell of their work; ``progress`` hears sum and total."""
    done = 0
    told = Lock()

    def report(accesses: int) -> None:
        nonlocal done
        with told:
            done += accesses
            if progress is not None:
                progress(done, total)

    return report
