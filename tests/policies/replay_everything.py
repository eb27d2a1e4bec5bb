"""Run as a program: replays a small trace under policies and prints JSON.

Arguments: policies as the user writes them, default every registered one. The JSON
holds results, what is resident, and what the compile cache did.
"""

import dataclasses
import json
import sys

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim import loop
from hotset.sim.engines import engine
from hotset.sim.replay import Replay, RunConfig
from hotset.sim.workload import Workload
from hotset.traces.generate import generate

RULES = [("none", 0, "always"), ("vllm-0.33", 40, "threshold:max_tracker_size=200")]


def replay(workload, text, rules):
    name, gpu_blocks, admission_text = rules
    spec, params = POLICIES.parse(text)
    admission, admission_params = ADMISSIONS.parse(admission_text)
    config = RunConfig(
        spec,
        params,
        admission,
        admission_params,
        capacity_blocks=60,
        engine=engine(name),
        gpu_blocks=gpu_blocks,
    )
    run = Replay(workload, config)
    result = dataclasses.asdict(run.run())
    hits = run.hit_tokens.tolist()
    return {**result, "by_request": hits, "resident": run.resident().tolist()}


def main(texts):
    trace = generate("chat", requests=80, seed=3, sessions_per_s=0.02)
    workload = Workload(trace)
    every = RULES if not texts else RULES[:1]
    results = [
        replay(workload, text, rules)
        for text in texts or POLICIES.names()
        for rules in every
    ]
    stats = getattr(loop.replay_plain, "stats", None)
    cache = (
        {"hits": 0, "misses": 0}
        if stats is None
        else {
            "hits": sum(stats.cache_hits.values()),
            "misses": sum(stats.cache_misses.values()),
        }
    )
    print(json.dumps({"results": results, "cache": cache}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
