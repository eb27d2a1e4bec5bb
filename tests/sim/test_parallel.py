"""Tasks on threads: results in order, the first error, nothing lost."""

import threading
import time

import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.parallel import check_jobs, run_all, usable_cpus


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_come_in_the_order_of_the_tasks(jobs):
    def task(i):
        time.sleep(0.001 * (5 - i % 5))
        return i

    assert run_all([lambda i=i: task(i) for i in range(20)], jobs) == list(range(20))
    assert run_all([], jobs) == []


def test_tasks_run_at_once():
    """Each waits for the other: one after the other they would never end."""
    both = threading.Barrier(2, timeout=30)
    assert sorted(run_all([both.wait, both.wait], 2)) == [0, 1]


def test_the_first_error_is_raised():
    def fail(text):
        raise PolicyError(text)

    tasks = [lambda: 1, lambda: fail("first"), lambda: fail("second")]
    for jobs in (1, 3):
        with pytest.raises(PolicyError, match="first"):
            run_all(tasks, jobs)


def test_jobs_in_range():
    assert check_jobs(None) == usable_cpus() >= 1
    assert check_jobs(3) == 3
    for jobs in (0, -1, 1025):
        with pytest.raises(PolicyError, match="allowed is 1 to 1024"):
            check_jobs(jobs)
