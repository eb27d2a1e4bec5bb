"""A small real engine on the CPU, and the trace of what it was asked.

Numba comes in only once an engine runs: vLLM's CPU build looks into every loaded module
when its first engine starts, and trips over llvmlite.
"""

import itertools
import os
import random
from pathlib import Path

import numpy as np

MODELS = Path(__file__).parent.parent / "data"
BLOCK_TOKENS = 32
# 2 layers, K and V, 2 heads of 32 float32 values, for each token.
BLOCK_BYTES = BLOCK_TOKENS * 2 * 2 * 2 * 32 * 4
GPU_BLOCKS = 24  # for each KV cache group of a model
OUTPUT_TOKENS = 4


def make_engine(**hotset):
    """An engine; with ``chunks``, its CPU tier runs under hotset's spec.

    With ``eviction_policy`` it runs under vLLM's own manager instead; ``by_name``
    leaves out where the spec is, which vLLM then knows from the plugin alone. A
    connector ``beside`` it is asked after the spec's. The ``model`` is one of `MODELS`;
    it has ``groups`` KV cache groups, each of which takes `BLOCK_BYTES` a block.
    ``engine`` holds more arguments of the engine.
    """
    os.environ.update(
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
        VLLM_LOGGING_LEVEL=hotset.pop("logging", "ERROR"),
        VLLM_NO_USAGE_STATS="1",
        HF_HUB_OFFLINE="1",
    )
    from vllm import LLM

    model = hotset.pop("model", "tiny_llama")
    groups = hotset.pop("groups", 1)
    chunks = hotset.pop("chunks", None)
    per_chunk = hotset.pop("blocks_per_chunk", 1)
    spec = {
        "spec_name": "HotsetOffloadingSpec",
        "spec_module_path": "hotset.adapter.spec",
    }
    if hotset.pop("by_name", False):
        del spec["spec_module_path"]
    if "eviction_policy" in hotset:
        spec = {
            "spec_name": "StockManagerSpec",
            "spec_module_path": "support.stock_spec",
            "eviction_policy": hotset.pop("eviction_policy"),
            "cache_policy_module_path": hotset.pop("module_path", None),
        }
    beside = hotset.pop("beside", None)
    settings = {"num_gpu_blocks_override": groups * GPU_BLOCKS}
    settings.update(hotset.pop("engine", {}))
    if chunks is not None:
        ours = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                **spec,
                "cpu_bytes_to_use": chunks * per_chunk * BLOCK_BYTES,
                "blocks_per_chunk": per_chunk,
                "hotset": hotset,
            },
        }
        settings["kv_transfer_config"] = ours if beside is None else both(ours, beside)
    return LLM(
        model=str(MODELS / model),
        load_format="dummy",
        dtype="float32",
        seed=0,
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=512,
        block_size=BLOCK_TOKENS,
        enable_prefix_caching=True,
        disable_log_stats=False,
        **settings,
    )


def both(first, second):
    """The configuration of two connectors, asked in this order."""
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": [first, second]},
    }


def make_prompts(count, seed=0):
    """Prompts behind prefixes of uneven popularity, whole blocks and not."""
    draw = random.Random(seed)

    def tokens(n):
        return [draw.randrange(3, 1000) for _ in range(n)]

    prefixes = [tokens(draw.randrange(2, 10) * BLOCK_TOKENS) for _ in range(16)]
    prompts = []
    for _ in range(count):
        prefix = prefixes[min(int(draw.expovariate(0.25)), 15)]
        kept = draw.randrange(BLOCK_TOKENS, len(prefix) + 1)
        prompts.append(prefix[:kept] + tokens(draw.randrange(1, 70)))
    # Whole blocks come often enough: their last block is a case of its own.
    return [
        prompt[: len(prompt) // BLOCK_TOKENS * BLOCK_TOKENS] if i % 5 == 0 else prompt
        for i, prompt in enumerate(prompts)
    ]


def serve(llm, prompts, tags=(None,), before=None):
    """Output tokens and cached tokens of each prompt, one at a time.

    ``tags`` are what clients send as ``kv_transfer_params``, one prompt after another.
    ``before`` is called before each prompt, with its number.
    """
    from vllm import SamplingParams

    outputs, cached = [], []
    given = zip(prompts, itertools.cycle(tags), strict=False)
    for number, (prompt, sent) in enumerate(given):
        if before is not None:
            before(number)
        sampling = SamplingParams(
            max_tokens=OUTPUT_TOKENS,
            temperature=0,
            ignore_eos=True,
            detokenize=False,
            extra_args=None if sent is None else {"kv_transfer_params": sent},
        )
        (served,) = llm.generate(
            [{"prompt_token_ids": prompt}], sampling, use_tqdm=False
        )
        outputs.append(list(served.outputs[0].token_ids))
        cached.append(served.num_cached_tokens)
    return outputs, cached


def serve_users(llm, prompts, users):
    """As `serve`, for users who ask in turn and each wait for their answers."""
    from vllm import SamplingParams

    sampling = SamplingParams(
        max_tokens=OUTPUT_TOKENS, temperature=0, ignore_eos=True, detokenize=False
    )
    engine, waiting, done = llm.llm_engine, iter(enumerate(prompts)), {}

    def ask(number):
        for i, prompt in itertools.islice(waiting, number):
            engine.add_request(str(i), {"prompt_token_ids": prompt}, sampling)

    ask(users)
    while engine.has_unfinished_requests():
        ended = [output for output in engine.step() if output.finished]
        done.update((int(output.request_id), output) for output in ended)
        ask(len(ended))
    served = [done[i] for i in range(len(prompts))]
    outputs = [list(output.outputs[0].token_ids) for output in served]
    return outputs, [output.num_cached_tokens for output in served]


def counters(llm):
    """vLLM's own offloading counters."""
    return {
        metric.name: metric.value
        for metric in llm.get_metrics()
        if "kv_offload" in metric.name and hasattr(metric, "value")
    }


def manager_of(llm):
    """The offloading manager of an engine in this process."""
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    return scheduler.connector.connector_scheduler.manager


def num_groups(llm):
    """KV cache groups of the model."""
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    return len(scheduler.kv_cache_config.kv_cache_groups)


def as_trace(prompts):
    """The prompts as a trace: a block is known by all tokens up to its end."""
    from hotset.traces.model import Provenance, Trace

    ids = {}
    rows = [
        [
            ids.setdefault(tuple(prompt[: (i + 1) * BLOCK_TOKENS]), len(ids))
            for i in range(len(prompt) // BLOCK_TOKENS)
        ]
        for prompt in prompts
    ]
    count = len(prompts)
    return Trace(
        block_tokens=BLOCK_TOKENS,
        request_offsets=np.cumsum([0, *(len(row) for row in rows)]),
        block_ids=np.array([i for row in rows for i in row]),
        arrival_s=np.arange(count, dtype=np.float64),
        input_tokens=np.array([len(prompt) for prompt in prompts]),
        output_tokens=np.full(count, OUTPUT_TOKENS),
        session=np.full(count, -1),
        provenance=Provenance("test", "prompts", "0" * 64, count, 0),
    )


def predict(prompts, policy, chunks, admission="always", blocks_per_chunk=1):
    """Hit tokens of each prompt by replay, and the run's counts."""
    from hotset.policies import ADMISSIONS, POLICIES
    from hotset.sim.engines import engine
    from hotset.sim.replay import Replay, RunConfig
    from hotset.sim.workload import Workload

    spec, params = POLICIES.parse(policy)
    rule, rule_params = ADMISSIONS.parse(admission)
    workload = Workload(as_trace(prompts), "drop", blocks_per_chunk * BLOCK_TOKENS)
    config = RunConfig(
        policy=spec,
        params=params,
        admission=rule,
        admission_params=rule_params,
        capacity_blocks=chunks * blocks_per_chunk,
        engine=engine("vllm-0.32"),
        gpu_blocks=GPU_BLOCKS,
    )
    replay = Replay(workload, config)
    result = replay.run()
    return replay.hit_tokens.tolist(), result
