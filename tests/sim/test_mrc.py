"""What is made of the curves: the knee, the grid, files."""

import csv
import itertools

import pytest
from strategies import Forest

from hotset.policies.errors import PolicyError
from hotset.sim.engines import engine
from hotset.sim.mrc import check_points, grid, lru_curve, run_curves, write_curves
from hotset.sim.study import make_study
from hotset.sim.workload import Workload
from hotset.traces.generate import generate
from hotset.traces.registry import read_trace


def curves(trace, *policies, jobs=1, points=8, **settings):
    study = make_study(
        policies, "always", capacities=[], engine=engine("none"), **settings
    )
    return run_curves(trace, study, points, jobs=jobs)


def read_rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_worked_case():
    """Two chains, used in turns: 0 1 / 2 3 4 5 6 7 / 0 1 / 2 3 4 / 0 1.

    The third request finds 0 at place 7 and 1 at 8. The fourth finds 2, 3 and 4 behind
    the two of the third, the last finds 0 and 1 behind the three of the fourth.
    """
    first, second = [0, 1], [2, 3, 4, 5, 6, 7]
    forest = Forest(paths=[first, second, first, second[:3], first])
    curve = lru_curve(Workload(forest.trace()))
    assert curve.hit_blocks.tolist() == [0, 0, 0, 1, 3, 5, 5, 6, 7]
    assert curve.hit_tokens.tolist() == [0, 0, 0, 4, 12, 20, 20, 24, 28]
    assert curve.hit_requests.tolist() == [0, 0, 0, 1, 2, 2, 2, 3, 3]
    assert curve.steps().tolist() == [1, 3, 4, 5, 7, 8]
    # Over the line from (0, 0) to (8, 28): at 5 blocks 20 - 17.5, at 4 12 - 14.
    assert curve.knee() == 5
    assert [curve.enough_for(p, 28) for p in (14, 15, 50, 90, 100)] == [3, 4, 5, 8, 8]


def test_nothing_to_hit():
    curve = lru_curve(Workload(Forest(paths=[[0, 1], [], [2]]).trace()))
    assert curve.knee() is None
    assert curve.steps().tolist() == [1]
    assert curve.counts(99)["token_miss_ratio"] == 1.0
    empty = lru_curve(Workload(Forest(paths=[[], []]).trace()))
    assert empty.counts(1)["block_miss_ratio"] == 0.0
    assert empty.steps().tolist() == [1]


def test_grid():
    for distinct, points in itertools.product([0, 1, 2, 50, 3020, 10**6], [2, 16, 99]):
        sizes = [int(capacity.amount) for capacity in grid(distinct, points)]
        assert sizes == sorted(set(sizes))
        assert sizes[0] >= 1
        assert sizes[-1] == max(distinct, 1)
        assert len(sizes) <= points
    for points in (1, 1001):
        with pytest.raises(PolicyError, match="allowed is 2 to 1000"):
            check_points(points)


def test_jobs_change_nothing():
    trace = generate("chat", 300, 1)
    policies = ("marconi", "belady", "relevance", "fifo", "adaptive")
    alone = curves(trace, *policies, warmup=0.25)
    assert curves(trace, *policies, jobs=5, warmup=0.25).as_json() == alone.as_json()


def test_csv_holds_the_whole_curve(tmp_path):
    trace = read_trace("sample")
    result = curves(trace, "lru", "lru:order=vllm-0.24", "fifo")
    write_curves(result, tmp_path / "curve.csv")
    rows = read_rows(tmp_path / "curve.csv")
    lru = [row for row in rows if row["policy"] == "lru"]
    assert [int(row["capacity_blocks"]) for row in lru] == result.curve.steps().tolist()
    tokens = [int(row["hit_tokens"]) for row in lru]
    assert tokens == sorted(tokens)
    others = [row for row in rows if row["policy"] != "lru"]
    assert len(others) == 2 * len(result.capacities)
    for row in lru[::100]:
        missed = result.curve.input_tokens - int(row["hit_tokens"])
        assert float(row["token_miss_ratio"]) == missed / result.curve.input_tokens


def test_lru_is_replayed_where_the_curve_does_not_hold(tmp_path):
    """0 stands behind nothing and behind 2, so the curve begins at 3 blocks."""
    trace = Forest(paths=[[0, 1], [2, 0, 1], [2, 0], [0, 1]]).trace()
    result = curves(trace, points=5)
    assert result.curve.first_capacity == 3
    assert {run.label for run in result.replays.runs} == {"lru"}
    points = result.as_json()["lru_curve"]["points"]
    assert [point["capacity_blocks"] for point in points] == [3]
    write_curves(result, tmp_path / "curve.csv")
    rows = read_rows(tmp_path / "curve.csv")
    sizes = [int(row["capacity_blocks"]) for row in rows]
    assert sorted(sizes) == [1, 2, 3]


def test_a_policy_that_never_evicts_has_no_curve():
    with pytest.raises(PolicyError, match="unbounded: it has no curve"):
        curves(read_trace("sample"), "unbounded")
