"""Requests that come one at a time to an engine in which nothing takes time."""

import dataclasses

import numpy as np
from hypothesis import strategies as st
from oracles.naive import NaiveRequest
from strategies import BLOCK_TOKENS, forests

from hotset.sim.engines import ENGINES
from hotset.sim.workload import Workload

# What each engine does: orders of its LRU and its ARC, when a sight counts, whole
# offers, how its own policies hear of uses, and whether it repeats a refused offer
# behind the last step.
ENGINE_FACTS = {
    "none": ("tail-first", "paper", "offer", False, "once", False),
    "vllm-0.24": ("vllm-0.24", "vllm-0.24", "lookup", True, "each time", False),
    "vllm-0.28": ("vllm-0.24", "vllm-0.24", "lookup", True, "each time", True),
    "vllm-0.30": ("vllm-0.24", "vllm-0.30", "offer", True, "each time", True),
    "vllm-0.32": ("vllm-0.32", "vllm-0.32", "offer", True, "reported", True),
    "vllm-0.33": ("vllm-0.33", "vllm-0.33", "offer", True, "reported", True),
}
ADMISSION_TEXTS = [
    "always",
    "threshold:min_count=2",
    "threshold:min_count=2,max_tracker_size=6",
]


def chunk_requests(workload):
    """The twin's own chunks: each is named by its last block, numbered as it appears.

    Only full blocks count; a chunk is a whole number of them.
    """
    trace = workload.trace
    per_chunk = workload.chunk_tokens // BLOCK_TOKENS
    blocks = trace.accesses("drop")
    ids, offsets = blocks.ids.tolist(), blocks.offsets.tolist()
    number = {}
    made = []
    for r in range(trace.num_requests):
        row = ids[offsets[r] : offsets[r + 1]]
        names = row[per_chunk - 1 :: per_chunk]
        keys = [number.setdefault(name, len(number)) for name in names]
        made.append(NaiveRequest.of(trace, r, keys, tuple(row)))
    return made, len(number)


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
