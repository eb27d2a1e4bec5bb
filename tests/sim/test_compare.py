"""Comparisons: who takes part, what is seen when tuning, what counts, who wins."""

import dataclasses

import numpy as np
import pytest
from contract.replaying import make_replay

from hotset.policies.errors import PolicyError
from hotset.sim.capacity import parse_capacity
from hotset.sim.compare import (
    Plan,
    check_plan,
    contestants,
    run_comparison,
)
from hotset.sim.compare_report import as_json
from hotset.sim.contest import AHEAD, BEHIND, LEVEL
from hotset.sim.workload import beginning
from hotset.traces.generate import generate
from hotset.traces.model import Trace

ENTRIES = ("guard", "marconi", "fifo")


def plan(*policies, tune=("all",), capacities=("5%", "20%"), **settings):
    return Plan(
        contestants=contestants(policies, tune),
        capacities=[parse_capacity(text) for text in capacities],
        **{"trials": 4, **settings},
    )


def test_who_takes_part():
    names = [who.name for who in contestants(ENTRIES, ["all"])]
    assert names == [
        "lru", "guard", "guard, tuned", "marconi", "marconi, tuned", "fifo", "belady",
    ]  # fmt: skip
    assert [who.name for who in contestants(ENTRIES, ["none"])] == [
        "lru", "guard", "marconi", "fifo", "belady",
    ]  # fmt: skip
    some = contestants(["belady", "guard:distance=7", "lru"], ["guard"])
    assert [who.name for who in some] == [
        "lru", "guard:distance=7", "guard, tuned", "belady",
    ]  # fmt: skip
    everyone = [who.name for who in contestants([], ["all"])]
    assert everyone[0] == "lru"
    assert everyone[-1] == "belady"
    assert {"adaptive", "guard, tuned", "arc", "fifo"} <= set(everyone)
    assert "unbounded" not in everyone


@pytest.mark.parametrize(
    ("policies", "tune", "said"),
    [
        (["unbounded"], [], "it never evicts"),
        ([], ["lru"], "no parameters to search"),
        ([], ["belady"], "no parameters to search"),
        ([], ["gard"], "did you mean 'guard'"),
        (["guard:distance=x"], [], "a whole number is needed"),
    ],
)
def test_who_cannot(policies, tune, said):
    with pytest.raises(PolicyError, match=said):
        contestants(policies, tune)


@pytest.mark.parametrize("setting", ["fit", "trials", "seed"])
def test_settings_in_range(setting):
    wrong = {"fit": [0.0, 1.0, float("nan")], "trials": [0, 10_001], "seed": [-1]}
    for value in wrong[setting]:
        with pytest.raises(PolicyError, match=f"--{setting}"):
            check_plan(dataclasses.replace(plan("fifo"), **{setting: value}))


def test_what_counts_is_what_the_second_part_hits():
    trace = generate("chat", 400, 3)
    for cell in run_comparison([trace], plan(*ENTRIES)):
        for standing in cell.standings:
            who = standing.contestant
            result = make_replay(
                cell.contest.workload, who.label, cell.capacity_blocks, warmup=0.5
            ).run()
            assert standing.hit_tokens == result.hit_tokens
            assert standing.by_group.sum() == result.hit_tokens
            assert cell.ratio(standing) == result.token_hit_ratio


def shuffled_end(trace, first):
    """The same first part, another second one: requests in reverse order."""
    ids = [
        trace.block_ids[trace.request_offsets[r] : trace.request_offsets[r + 1]]
        for r in range(trace.num_requests)
    ]
    order = [*range(first), *range(trace.num_requests - 1, first - 1, -1)]
    _, at, inverse = np.unique(
        np.concatenate([ids[r] for r in order]), return_index=True, return_inverse=True
    )
    rank = np.empty(len(at), np.int64)
    rank[np.argsort(at)] = np.arange(len(at))
    sizes = np.diff(trace.request_offsets)[order]
    return Trace(
        block_tokens=trace.block_tokens,
        request_offsets=np.concatenate([[0], np.cumsum(sizes)]),
        block_ids=rank[inverse],
        arrival_s=trace.arrival_s,
        input_tokens=trace.input_tokens[order],
        output_tokens=trace.output_tokens[order],
        session=trace.session[order],
        provenance=trace.provenance,
    )


def test_tuning_sees_the_first_part_alone():
    trace = generate("hot-scan", 600, 4)
    other = shuffled_end(trace, 300)
    found = [
        [[s.contestant.params for s in cell.standings] for cell in cells]
        for cells in (
            run_comparison([each], plan(*ENTRIES, capacities=("40",), trials=12))
            for each in (trace, other)
        )
    ]
    assert found[0] == found[1]
    defaults = [who.params for who in plan(*ENTRIES).contestants]
    assert found[0][0] != defaults, "nothing was tuned, so nothing is shown"


def test_beginning_of_a_trace():
    trace = generate("agents", 50, 1)
    part = beginning(trace, 20)
    assert part.num_requests == 20
    assert part.num_accesses == trace.request_offsets[20]
    assert part.block_ids.tolist() == trace.block_ids[: part.num_accesses].tolist()


def test_neither_jobs_nor_company_change_a_row():
    traces = [generate("chat", 300, 1), generate("hot-scan", 300, 2)]
    chosen = plan(*ENTRIES)
    alone = as_json(run_comparison(traces, chosen), chosen)
    assert as_json(run_comparison(traces, chosen, jobs=4), chosen) == alone
    fewer = plan("marconi")
    rows = as_json(run_comparison(traces[1:], fewer), fewer)["cells"]
    for cell, mine in zip(alone["cells"][2:], rows, strict=True):
        assert all(row in cell["rows"] for row in mine["rows"])


def test_progress_ends_at_the_total():
    told = []
    run_comparison(
        [generate("chat", 200, 1)],
        plan("fifo", "marconi", tune=["none"]),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1][0] == told[-1][1]


def test_a_cache_for_the_working_set_is_not_ranked():
    trace = generate("chat", 300, 1)
    small, large = run_comparison(
        [trace], plan("guard", "fifo", tune=["none"], capacities=("5%", "100%"))
    )
    assert small.is_ranked
    assert small.verdict() is not None
    assert not large.is_ranked
    assert large.verdict() is None
    assert large.gap_closed(large.standings[1]) is None
    assert large.baseline.hit_tokens == large.contest.ceiling.hit_tokens
    least = large.contest.working_set_blocks
    at, below = run_comparison(
        [trace], plan("fifo", tune=["none"], capacities=(str(least), str(least - 1)))
    )
    assert (at.is_ranked, below.is_ranked) == (False, True)
    assert at.baseline.hit_tokens > below.baseline.hit_tokens


def test_verdicts():
    """Everyone hits alike but for one group each, so the outcome is plain."""
    (cell,) = run_comparison(
        [generate("chat", 300, 1)],
        plan("guard", "fifo", tune=["none"], capacities=("5%",)),
    )
    tokens = cell.contest.groups.input_tokens

    def with_guard(share_of_tokens):
        hits = cell.standings[0].by_group + (tokens * share_of_tokens).astype(np.int64)
        changed = [
            dataclasses.replace(s, by_group=hits, hit_tokens=int(hits.sum()))
            if s.contestant.is_ours
            else dataclasses.replace(
                s,
                by_group=cell.standings[0].by_group,
                hit_tokens=cell.standings[0].hit_tokens,
            )
            for s in cell.standings
        ]
        return dataclasses.replace(cell, standings=changed).verdict()

    assert with_guard(0.02).outcome == AHEAD
    assert with_guard(0.0).outcome == LEVEL
    assert with_guard(-0.02).outcome == BEHIND
    assert with_guard(0.02).ours.contestant.name == "guard"


def test_a_part_without_requests():
    with pytest.raises(PolicyError, match="leaves no request to fit on"):
        run_comparison([generate("chat", 3, 1)], plan("fifo", fit=0.2))
