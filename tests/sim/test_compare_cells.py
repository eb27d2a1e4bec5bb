"""The best of our policies against the best of the others, out of sample.

On the public traces, at 0.5 to 20 % of their distinct blocks: in every ranked cell ours
is at least level.
"""

import pytest

from hotset.sim.capacity import parse_capacity
from hotset.sim.compare import Plan, contestants, run_comparison
from hotset.sim.contest import BEHIND
from hotset.sim.parallel import usable_cpus
from hotset.traces.registry import read_trace

pytestmark = pytest.mark.slow

SIZES = ("0.5%", "1%", "2%", "5%", "10%", "20%")
# A search of every policy on the long agentic traces would take a quarter of an hour.
TUNED = {
    "mooncake_conversation.jsonl.gz": ("all", 16),
    "mooncake_synthetic.jsonl.gz": ("all", 16),
    "agentic": ("guard", 12),
}
CELLS = [(name, size) for name in TUNED for size in SIZES]


@pytest.fixture(scope="module")
def cells(public_traces):
    """Return a function that gives the cells of a trace by size, computed once."""
    known = {}

    def of(name):
        if name not in known:
            tuned, trials = TUNED[name]
            plan = Plan(
                contestants=contestants([], [tuned]),
                capacities=[parse_capacity(size) for size in SIZES],
                trials=trials,
            )
            trace = read_trace(public_traces / name)
            found = run_comparison([trace], plan, jobs=usable_cpus())
            known[name] = {cell.capacity.text: cell for cell in found}
        return known[name]

    return of


@pytest.mark.parametrize(("name", "size"), CELLS)
def test_ours_is_at_least_level_with_the_best_of_the_others(name, size, cells):
    cell = cells(name)[size]
    verdict = cell.verdict()
    if verdict is None:
        assert not cell.is_ranked
        return
    assert verdict.outcome != BEHIND, (
        f"{verdict.ours.contestant.label} {100 * verdict.difference:+.2f} points over "
        f"{verdict.others.contestant.label}"
    )


@pytest.mark.parametrize("name", TUNED)
def test_nobody_exceeds_the_ceiling(name, cells):
    for cell in cells(name).values():
        for standing in cell.standings:
            assert standing.hit_tokens <= cell.contest.ceiling.hit_tokens
