"""How long a search of 200 trials takes on the conversation trace, with two workers.

Prints figures; absolute times are bars and aims and are reported only. Exits with code
1 where the answer is worth less than 1.8 times LRU, since a fast search that finds
nothing is no search.
"""

import os
import sys
import time
from pathlib import Path

from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import engine
from hotset.sim.objectives import parse_objectives
from hotset.sim.tune import run_tune
from hotset.sim.tune_plan import TunePlan, make_space
from hotset.traces.registry import read_trace

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("HOTSET_TRACES", ROOT.parent / "shared" / "traces"))
POLICIES = ("weighted", "guard", "adaptive", "relevance", "marconi")
LEAST_TIMES_LRU = 1.8


def plan(trials: int) -> TunePlan:
    """What to search."""
    return TunePlan(
        space=make_space(POLICIES, ("always", "threshold")),
        cpu=parse_capacity("1827", "--cpu"),
        objectives=parse_objectives(["token_hit_ratio"]),
        engine=engine("none"),
        tail="count",
        trials=trials,
    )


def main() -> int:
    """Search with two workers, then with one; return the exit code."""
    trace = read_trace(str(TRACES / "mooncake_conversation.jsonl.gz"))
    run_tune(trace, plan(16))  # compiles, where it is the first one
    times_s = {}
    for jobs in (2, 1):
        start = time.perf_counter()
        result = run_tune(trace, plan(200), jobs=jobs)
        times_s[jobs] = time.perf_counter() - start
    rows = {row.role: row.objectives for row in result.verdict.rows}
    ratio = rows["best"]["token_hit_ratio"] / rows["lru"]["token_hit_ratio"]
    print(
        f"200 trials and the verdict: {times_s[2]:.1f} s with two workers, "
        f"{times_s[1]:.1f} s with one (bar 40 s, aim 15 s); "
        f"{result.verdict.decision}, {ratio:.2f} times lru on the holdout"
    )
    return 0 if ratio >= LEAST_TIMES_LRU else 1


if __name__ == "__main__":
    sys.exit(main())
