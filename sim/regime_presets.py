"""The map of three published regimes: parameters of its workloads, and its seeds.

evoke-vllm measured on a GPU that scored eviction wins where re-access is skewed and the
budget is above the hot set, that it ties LRU where re-access is uniform, and that below
the hot set both collapse and the store threshold is what helps. Contexts, rounds, hot
contexts, lengths, GPU cache, chunks, bytes of a token and budgets are those of its
workloads W1, W1S and W2 and of its budgets B0 to B3. Sights count when a block is
offered, as in vLLM from 0.30 on: before, a look-up ended at the first miss, and a
threshold kept almost everything out.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotset.policies.registry import POLICIES
from hotset.sim import gpu_matrix
from hotset.sim.engines import engine
from hotset.sim.questions import QuestionOptions
from hotset.sim.regime_axes import BUDGET, QUESTIONS, Axis, Supply
from hotset.sim.regimes import Plan, everyone

PUBLISHED = "published"
SEEDS = (101, 102, 103, 104, 105, 106)
SKEWS = ("1", "1.5", "2", "3")
BUDGETS = {"B0": "8GiB", "B1": "3GiB", "B2": "1.5GiB", "B3": "0.75GiB"}
SCORED = "relevance:order=given"


def published_plan(policies: Sequence[str] = ()) -> Plan:
    """Return the plan of the published regimes' map.

    Parameters
    ----------
    policies : sequence of str
        Who runs at every place; all if empty.
    """
    scored = POLICIES.parse(SCORED)
    who = everyone(policies)
    if not policies:
        # As measured: ties in the order in which blocks were given.
        plain = POLICIES.parse("relevance")
        who = [scored if pair == plain else pair for pair in who]
    return Plan(
        supply=Supply(kind=QUESTIONS, options={"rounds": QuestionOptions().rounds}),
        x=Axis("skew", SKEWS),
        y=Axis(BUDGET, tuple(BUDGETS.values())),
        policies=who,
        seeds=SEEDS,
        engine=engine("vllm-0.30"),
        gpu_blocks=gpu_matrix.GPU_BLOCKS,
        chunk_tokens=gpu_matrix.CHUNK_TOKENS,
        step_tokens=gpu_matrix.STEP_TOKENS,
        kv_bytes_per_token=gpu_matrix.KV_BYTES_PER_TOKEN,
        scoring=scored,
    )
