"""How long the simulation of an hour of traffic takes, all tiers on, and what memory.

Prints figures; absolute times are aims and are reported only. Exits with code 1 where
the offered load is not what the aim is stated for.
"""

import os
import resource
import sys
import time
from pathlib import Path

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import engine
from hotset.sim.profile import load_profile
from hotset.sim.simulate import Plan, run_plan
from hotset.sim.ssd_plan import SsdPlan
from hotset.traces.registry import read_trace

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("HOTSET_TRACES", ROOT.parent / "shared" / "traces"))
MOST_LOAD = 0.8


def main() -> int:
    """Simulate the conversation trace at half its rate; return the exit code."""
    trace = read_trace(str(TRACES / "mooncake_conversation.jsonl.gz"))
    plan = Plan(
        policies=[POLICIES.parse("lru")],
        admission=ADMISSIONS.parse("always"),
        engine=engine("vllm-0.33"),
        profile=load_profile("h100x8-70b-fp8"),
        cpu=parse_capacity("2TiB"),
        ssd=SsdPlan(
            parse_capacity("16TiB"), None, ADMISSIONS.parse("always"), "demote"
        ),
        speed=0.5,
    )
    run_plan(trace, plan)  # compiles, where it is the first one
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, start_cpu = time.perf_counter(), time.process_time()
    summary = run_plan(trace, plan).runs[0].summary
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
    more_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    print(
        f"{summary['requests']:,} requests, {summary['steps']:,} steps, offered load "
        f"{summary['offered_load']:.2f}: {wall_s:.1f} s ({cpu_s:.1f} s of CPU; bar 20 "
        f"s, aim 5 s), {more_kib / 1024:.0f} MiB more than the run before"
    )
    return 0 if summary["offered_load"] <= MOST_LOAD else 1


if __name__ == "__main__":
    sys.exit(main())
