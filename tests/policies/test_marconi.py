"""What only `marconi` has: ages that start anew, thresholds, its tracker."""

import numpy as np
import pytest
from contract.replaying import make_replay
from contract.serving import make_driver, serve
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Forest, capacities, forests

from hotset.sim.workload import Workload

_BASE, _REBASE_AT = 2, 3


@pytest.mark.parametrize("rebase_at", [0.5, 3.0])
@settings(max_examples=40)
@given(data=st.data())
def test_starting_ages_anew_changes_no_victim(rebase_at, data):
    """The shared part of the ages moves; without it keys would lose precision."""
    workload = Workload(data.draw(forests()).trace(), tail="count")
    distinct = workload.blocks.num_distinct
    capacity = data.draw(capacities(workload.longest_blocks, distinct))
    # No two of these keys are equal by chance, so rounding decides nothing.
    text = "marconi:decay=0.5,depth_weight=0.83"
    plain = make_replay(workload, text, capacity)
    moved = make_replay(workload, text, capacity)
    moved._policy.weights[_REBASE_AT] = rebase_at
    for r in range(workload.trace.num_requests):
        plain.advance(1)
        moved.advance(1)
        assert plain.resident().tolist() == moved.resident().tolist(), r
    assert plain.result() == moved.result()
    assert plain._policy.weights[_BASE] == 0.0
    if workload.trace.num_requests > 2 * rebase_at + 1:
        assert moved._policy.weights[_BASE] > 0.0


def test_old_ages_keep_their_order():
    """After 2 ** 40 requests a difference of one request still decides."""
    driver = make_driver("marconi:decay=1e-6,depth_weight=0", 3)
    driver._num_requests = 1 << 40
    for key in (1, 2, 3):
        serve(driver, [key])
    serve(driver, [1])
    driver.remove([1])
    scores = driver.scores([2, 3]).tolist()
    assert scores[0] < scores[1] < 1.0
    assert driver.evict(2) == [2, 3]


def test_a_threshold_that_is_never_reached_stores_nothing():
    driver = make_driver("marconi:admission_threshold=1000", 4)
    for _ in range(20):
        assert serve(driver, [1, 2]) == (0, [])
    assert len(driver) == 0


def test_counts_survive_a_reset_and_blocks_do_not():
    driver = make_driver("marconi:depth_weight=0", 3)
    for _ in range(5):
        serve(driver, [1])
    driver.reset()
    serve(driver, [2])
    serve(driver, [1])
    assert driver.scores([1, 2]).tolist() == pytest.approx([6.0, 1.0], rel=1e-12)


def test_no_decay_never_starts_anew():
    workload = Workload(Forest([[i] for i in range(50)]).trace())
    replay = make_replay(workload, "marconi", 4)
    replay.run()
    assert replay._policy.weights[_BASE] == 0.0
    assert np.isfinite(replay._policy.order.key).all()
