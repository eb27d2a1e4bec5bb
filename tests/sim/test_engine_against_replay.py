"""One request at a time and nothing takes time: the engine does what replay does."""

import numpy as np
import pytest
from contract.replaying import make_replay
from contract.serving import online_names
from hypothesis import HealthCheck, given, settings
from support.one_at_a_time import setups
from support.simulated import Simulation, machine, run_config

from hotset.sim.engines import ENGINES

TEXTS = [
    *online_names(),
    "unbounded",
    "marconi:reuse=log,admission_threshold=2",
    "relevance:half_life=2,order=given,floor_rule=clamp",
    "guard:distance=3",
    "adaptive:evidence=0,min_gain=0,half_life=50",
]


def compare(text, setup):
    workload, rules = setup["workload"], setup["engine"]
    step_tokens = setup["step_tokens"]
    replay = make_replay(
        workload,
        text,
        setup["capacity"],
        setup["admission"],
        engine=rules,
        gpu_blocks=setup["gpu_blocks"],
        step_tokens=step_tokens,
    )
    simulation = Simulation(
        workload,
        run_config(text, setup["capacity"], setup["admission"], rules),
        machine(
            workload,
            gpu_blocks=setup["gpu_blocks"],
            # Without an engine a prompt is computed at once.
            step_tokens=1 << 40 if rules == "none" else step_tokens,
            max_sequences=1,
            offers_at_end=ENGINES[rules].offers_at_end,
        ),
    )
    arrivals = workload.trace.arrival_s - workload.trace.arrival_s[0]
    ends = [*arrivals[1:], arrivals[-1] + 1.0]
    for r, end_s in enumerate(ends):
        replay.advance(1)
        simulation.run_until(end_s - 0.1)
        where = f"request {r}, {setup}"
        assert len(simulation.jobs) == r + 1, where
        job, result = simulation.jobs[-1], replay.result()
        assert job.hit_tokens == int(replay.hit_tokens[r]), where
        assert simulation.resident == replay.resident().tolist(), where
        counts = simulation.tier.counts
        assert counts.stores == result.stores, where
        assert counts.evictions == result.evictions, where
        assert counts.refused_offers == result.refused_stores, where
        gpu_tokens = sum(job.gpu_tokens for job in simulation.jobs)
        assert gpu_tokens == result.gpu_hit_tokens, where
        cached = np.flatnonzero(replay._gpu.place_of >= 0).tolist()
        assert sorted(simulation.engine.pool.cached()) == cached, where
    assert not simulation.tier.driver.fallen_back


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(setups())
def test_engine_equals_replay(text, setup):
    compare(text, setup)
