"""`adaptive` never costs much against LRU, on any traffic at hand, at any size.

Nor does `leader` on the traces.
"""

from pathlib import Path

import numpy as np
import pytest
from contract.replaying import run

from hotset.sim.workload import Workload
from hotset.traces.generate import generate
from hotset.traces.model import Provenance, Trace
from hotset.traces.registry import read_trace

pytestmark = pytest.mark.slow

SHARED = Path(__file__).parents[3] / "shared" / "traces"
PERCENT = (0.5, 1, 2, 5, 10, 20)
KINDS = ("uniform", "hot-scan", "chat", "agents")
SEEDS = range(20)
MOST_LOST = 0.005


def capacity_of(workload, percent):
    return max(1, int(workload.blocks.num_distinct * percent / 100))


def gain(workload, percent, text="adaptive"):
    """Token hit ratio of a policy over that of `lru`."""
    capacity = capacity_of(workload, percent)
    mine = run(workload, text, capacity)
    lru = run(workload, "lru", capacity)
    return (mine.hit_tokens - lru.hit_tokens) / lru.input_tokens


def joined(traces):
    """One trace after the other, no block shared between them."""
    ids, sizes, first = [], [], 0
    for trace in traces:
        ids.append(trace.block_ids.astype(np.int64) + first)
        sizes.append(np.diff(trace.request_offsets))
        first += trace.num_blocks
    count = sum(trace.num_requests for trace in traces)
    return Trace(
        block_tokens=traces[0].block_tokens,
        request_offsets=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]),
        block_ids=np.concatenate(ids),
        arrival_s=np.arange(count, dtype=np.float64),
        input_tokens=np.concatenate([trace.input_tokens for trace in traces]),
        output_tokens=np.concatenate([trace.output_tokens for trace in traces]),
        session=np.full(count, -1),
        provenance=Provenance("test", "joined", "0" * 64, count, 0),
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percent", PERCENT)
def test_on_twenty_seeds_of_a_generator(kind, percent):
    gains = [gain(Workload(generate(kind, 3000, seed)), percent) for seed in SEEDS]
    assert min(gains) >= -MOST_LOST, gains


@pytest.mark.parametrize("percent", PERCENT)
@pytest.mark.parametrize("first", range(len(KINDS)))
def test_on_traffic_that_changes_its_kind_three_times(first, percent):
    kinds = [*KINDS[first:], *KINDS[:first]]
    trace = joined([generate(kind, 3000, first) for kind in kinds])
    assert gain(Workload(trace), percent) >= -MOST_LOST


@pytest.mark.parametrize("percent", PERCENT)
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
@pytest.mark.parametrize("text", ["adaptive", "leader"])
def test_on_the_mooncake_traces(text, name, percent):
    path = SHARED / f"mooncake_{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not part of the project")
    assert gain(Workload(read_trace(path)), percent, text) >= -MOST_LOST


# Block hits of whole traces with counted tails, where a cache thrashes.
THRASHING = {
    "mooncake_conversation.jsonl.gz": {913: 0.07, 1827: 0.10, 3655: 0.14},
}


@pytest.mark.parametrize("name", THRASHING)
def test_where_a_cache_thrashes(name):
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path.name} is not part of the project")
    workload = Workload(read_trace(path), tail="count")
    for capacity, least in THRASHING[name].items():
        assert run(workload, "adaptive", capacity).block_hit_ratio >= least, capacity
