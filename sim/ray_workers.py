"""Candidates run as tasks of a Ray cluster, which holds the trace once a machine.

The trace's columns are put into Ray's object store; tasks map them from there without a
copy. A process of the cluster prepares the trace for its first task and keeps that.
"""

from __future__ import annotations

import logging
import socket
import uuid
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from hotset.policies.errors import PolicyError
from hotset.sim.candidate import Candidate
from hotset.sim.evaluate import Evaluator, make_evaluator
from hotset.sim.tune_plan import TunePlan
from hotset.sim.workers import Score, scored
from hotset.traces.model import Trace

_PATIENCE_S = 10.0


class RayTasks:
    """Runs candidates as Ray tasks; a context manager.

    Parameters
    ----------
    trace : Trace
        The trace.
    plan : TunePlan
        The plan.
    stop : int
        Requests to run, from the first on.
    address : str
        "auto" for the cluster that this machine belongs to, "local" for one that is
        started here and now, or a cluster's address.
    jobs : int
        Processes of a cluster that is started.

    Raises
    ------
    PolicyError
        If there is no Ray, or no cluster.
    """

    def __init__(
        self, trace: Trace, plan: TunePlan, stop: int, address: str, jobs: int
    ) -> None:
        try:
            import ray
        except ImportError:
            raise PolicyError(
                "--ray: Ray is not installed: pip install 'hotset[ray]'"
            ) from None
        _check_reachable(address)
        size: dict[str, Any] = {"num_cpus": jobs, "include_dashboard": False}
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **(size if address == "local" else {}),
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise PolicyError(f"--ray {address}: {reason}") from None
        self._ray: Any = ray
        self._task = ray.remote(max_retries=0)(run_task)
        self._given = uuid.uuid4().hex, ray.put(trace), ray.put(plan), stop

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ray.shutdown()

    def submit(self, candidate: Candidate) -> Future[Score]:
        """Begin to run a candidate."""
        future: Future[Score] = Future()
        under_way = self._task.remote(*self._given, candidate).future()
        under_way.add_done_callback(lambda done: self._hand_over(done, future))
        return future

    def _hand_over(self, done: Future[Any], future: Future[Score]) -> None:
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        elif isinstance(error, self._ray.exceptions.RayTaskError):
            future.set_exception(error)
        else:
            # The process or its machine is gone.
            future.set_result(Score(fault="its process died", crashed=True))


def _check_reachable(address: str) -> None:
    """Raise PolicyError where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # auto, local, or what Ray itself says no to
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise PolicyError(f"--ray {address}: {error}") from None


# In the cluster

_PREPARED: dict[str, Evaluator] = {}


def run_task(
    name: str, trace: Trace, plan: TunePlan, stop: int, candidate: Candidate
) -> Score:
    """Run a candidate; the evaluator of that name is made once a process."""
    if name not in _PREPARED:
        _PREPARED.clear()  # of an earlier search: its trace may go
        _PREPARED[name] = make_evaluator(trace, plan)
    return scored(_PREPARED[name], candidate, stop)
