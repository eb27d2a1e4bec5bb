"""What is written to real files, mode by mode, beside what the simulator says.

The public conversation trace, a CPU tier for a third of its distinct blocks, LRU, one
request at a time: the bytes are counted at the calls that write slots. The bars hold
for the whole trace; a tenth of it shows that both agree.
"""

import pytest
from support.simulated import Simulation, machine, run_config, ssd_config
from support.ssd_twin import SLOT_BYTES, TwinTier

from hotset.sim.workload import Workload
from hotset.traces.registry import read_trace
from hotset.traces.transform import limit

pytestmark = pytest.mark.slow

MOST_DEMOTED, MOST_ADMITTED = 0.70, 0.5
MOST_LOST = 0.01  # of all input tokens


def run(workload, path, mode, admission="always"):
    """Return slots written, as simulated and as measured, and the hit tokens."""
    distinct = workload.chunks.num_distinct
    config = ssd_config("lru", distinct, admission, mode=mode)
    simulation = Simulation(
        workload,
        run_config("lru", distinct // 3, engine="vllm-0.33"),
        machine(
            workload,
            gpu_blocks=2822,
            max_sequences=1,
            step_tokens=1 << 20,
            offers_at_end=True,
        ),
        users=1,
        ssd=config,
    )
    tier = simulation.tier
    twin = TwinTier(workload, config, path)
    twin.most_staged = tier.ssd.most_staged
    tier.ssd = twin
    simulation.log = simulation.engine._log = None
    simulation.run()
    twin.close()
    assert twin.files.num_written % SLOT_BYTES == 0
    measured = twin.files.num_written // SLOT_BYTES
    hits = sum(job.hit_tokens for job in simulation.jobs)
    print(f"{mode}, {admission}: {measured} slots, {twin.num_right} loads right")
    return twin.counts.stores, measured, hits


def test_measured_and_simulated_writes_agree(campaign, public_traces, tmp_path):
    trace = read_trace(public_traces / "mooncake_conversation.jsonl.gz")
    if not campaign.is_full:
        trace = limit(trace, trace.num_requests // 10)
    workload = Workload(trace)
    runs = [
        run(workload, tmp_path / "through", "write-through"),
        run(workload, tmp_path / "demote", "demote"),
        run(workload, tmp_path / "admit", "demote", "threshold:min_count=2"),
    ]
    for simulated, measured, _ in runs:
        assert measured == simulated
    through, demoted, admitted = (measured for _, measured, _ in runs)
    if campaign.is_full:
        assert demoted <= MOST_DEMOTED * through
        assert admitted <= MOST_ADMITTED * through
        lost = (runs[0][2] - runs[2][2]) / trace.input_tokens.sum()
        print(f"hits lost to admission: {lost:.2%} of all input tokens")
        assert lost < MOST_LOST
