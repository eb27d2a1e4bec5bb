"""One request at a time and nothing takes time: the engine does what replay does."""

import dataclasses

import numpy as np
import pytest
from contract.replaying import make_replay
from contract.serving import online_names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import BLOCK_TOKENS, forests
from support.simulated import Simulation, machine, run_config

from hotset.sim.engines import ENGINES
from hotset.sim.workload import Workload

TEXTS = [
    *online_names(),
    "unbounded",
    "marconi:reuse=log,admission_threshold=2",
    "relevance:half_life=2,order=given,floor_rule=clamp",
    "guard:distance=3",
    "adaptive:evidence=0,min_gain=0,half_life=50",
]
ADMISSION_TEXTS = ["always", "threshold:2", "threshold:min_count=2,max_tracker_size=6"]


@st.composite
def setups(draw):
    """A workload, an engine and capacities, small enough to be tight."""
    forest = draw(forests(max_requests=30, tags=True))
    n = len(forest.paths)
    # One at a time: nobody comes at the moment when another one does. Outputs are
    # short, since replay stops to repeat a refused offer when nothing can change.
    waits = draw(st.lists(st.sampled_from([0.5, 1.0, 600.0]), min_size=n, max_size=n))
    outputs = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    forest = dataclasses.replace(forest, waits_s=waits, outputs=outputs)
    per_chunk = draw(st.integers(1, 3))
    workload = Workload(forest.trace(), chunk_tokens=per_chunk * BLOCK_TOKENS)
    trace = workload.trace
    need = -(-(trace.input_tokens + np.maximum(trace.output_tokens, 1) - 1) // 4)
    distinct = workload.chunks.num_distinct
    return {
        "workload": workload,
        "engine": draw(st.sampled_from(sorted(ENGINES))),
        "capacity": per_chunk
        * draw(st.one_of(st.integers(1, 14), st.integers(1, distinct + 2))),
        # The longest request fits, beside the block that is never used.
        "gpu_blocks": int(need.max()) + 1 + draw(st.sampled_from([0, 1, 2, 7, 40])),
        "step_tokens": draw(st.sampled_from([1, 5, 8, 12, 8192])),
        "admission": draw(st.sampled_from(ADMISSION_TEXTS)),
    }


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
