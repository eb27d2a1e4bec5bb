"""What an SSD tier writes on the public conversation trace."""

import pytest
from support.simulated import Simulation, machine, run_config, ssd_config

from hotset.sim.workload import Workload
from hotset.traces.registry import read_trace

_MOST_LOST = 0.01  # of all input tokens


@pytest.mark.slow
def test_demoting_writes_less_and_admission_half(public_traces):
    """With a CPU tier for a third of the distinct blocks, LRU, one request at a time.

    Writing what is evicted is at most 0.70 of writing all through; writing only what
    two requests named is at most 0.5, for less than a hundredth of the input tokens.
    """
    trace = read_trace(public_traces / "mooncake_conversation.jsonl.gz")
    workload = Workload(trace)
    distinct = workload.chunks.num_distinct
    spec = machine(
        workload,
        gpu_blocks=2822,
        max_sequences=1,
        step_tokens=1 << 20,
        offers_at_end=True,
    )

    def run(mode, admission="always"):
        simulation = Simulation(
            workload,
            run_config("lru", distinct // 3, engine="vllm-0.33"),
            spec,
            users=1,
            ssd=ssd_config("lru", distinct, admission, mode=mode),
        )
        simulation.log = simulation.engine._log = None
        simulation.run()
        hits = sum(job.hit_tokens for job in simulation.jobs)
        return simulation.tier.ssd.counts.stores, hits / trace.input_tokens.sum()

    through, all_hits = run("write-through")
    demoted, same_hits = run("demote")
    admitted, fewer_hits = run("demote", "threshold:min_count=2")
    assert demoted <= 0.70 * through
    assert same_hits == pytest.approx(all_hits, abs=1e-3)
    assert admitted <= 0.5 * through
    assert all_hits - fewer_hits < _MOST_LOST
    # What README says.
    assert round(demoted / through, 2) == 0.68
    assert round(admitted / through, 2) == 0.15
    assert round(100 * (all_hits - fewer_hits), 1) == 0.6
