"""What tuning finds on the public traces."""

import pytest
from support.tuning import plan

from hotset.sim.parallel import usable_cpus
from hotset.sim.tune import run_tune
from hotset.sim.verdict import DEPLOY
from hotset.traces.registry import read_trace

pytestmark = pytest.mark.slow

OURS = ("weighted", "guard", "adaptive", "relevance", "marconi")


def test_conversations_at_1827_blocks(public_traces):
    """At least 1.8 times the token hit ratio of LRU, on requests not searched on."""
    trace = read_trace(public_traces / "mooncake_conversation.jsonl.gz")
    asked = plan(OURS, ("always", "threshold"), cpu="1827", tail="count", trials=200)
    verdict = run_tune(trace, asked, jobs=usable_cpus()).verdict
    hits = {row.role: row.objectives["token_hit_ratio"] for row in verdict.rows}
    assert verdict.decision == DEPLOY
    assert hits["best"] >= 1.8 * hits["lru"]
    assert hits["best"] <= hits["optimum"]


def test_a_distance_that_fits_the_past_alone_is_not_deployed(public_traces):
    """The second half of the synthetic trace is another traffic than the first."""
    trace = read_trace(public_traces / "mooncake_synthetic.jsonl.gz")
    asked = plan(
        ("guard",), ("always",), cpu="20%", tail="count", trials=40, walk_forward=3
    )
    result = run_tune(trace, asked, jobs=usable_cpus())
    best = result.verdict.row("best")
    assert best.candidate.policy.name == "guard"
    assert best.by_part[0] > 0 or best.by_part[1] > 0
    assert best.gain.value < -0.1
    assert result.verdict.decision != DEPLOY
    assert min(split.gain for split in result.splits) < -0.05
    assert any("walk-forward" in each for each in result.warnings)
