"""Configurations of vLLM's core without a model, the same for every version."""

import inspect
import os
from pathlib import Path

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheTensor,
)
from vllm.v1.kv_offload import base

MODEL = str(Path(__file__).parents[1] / "data" / "tiny_llama")
BLOCK = 32  # tokens
PAGE = BLOCK * 2 * 32 * 2  # bytes: K and V of one head of 32 float16 values


def supported(function, **wanted):
    """Call with those of the arguments that this version has."""
    known = inspect.signature(function).parameters
    return function(**{k: v for k, v in wanted.items() if k in known})


def kv_cache_config(num_blocks, num_groups=1):
    """One layer of full attention in each group."""
    spec = supported(
        FullAttentionSpec,
        block_size=BLOCK,
        num_kv_heads=1,
        head_size=32,
        dtype=torch.float16,
    )
    assert spec.page_size_bytes == PAGE
    tensors = [
        supported(
            KVCacheTensor,
            size=PAGE * num_blocks,
            shared_by=[f"layer{i}"],
            layers=[f"layer{i}"],
            layer_stride=PAGE * num_blocks,
            block_stride=PAGE
            if "layers" in inspect.signature(KVCacheTensor).parameters
            else 0,
        )
        for i in range(num_groups)
    ]
    groups = [KVCacheGroupSpec([f"layer{i}"], spec) for i in range(num_groups)]
    config = supported(
        KVCacheConfig,
        num_blocks=num_blocks,
        kv_cache_tensors=tensors,
        kv_cache_groups=groups,
        hash_block_size=BLOCK,
    )
    return config


def vllm_config(
    extra_config,
    *,
    gpu_blocks=64,
    step_tokens=8192,
    max_requests=16,
    tensor_parallel=1,
    data_parallel=1,
    data_rank=0,
):
    """A configuration with hotset's spec."""
    cache = supported(
        CacheConfig,
        block_size=BLOCK,
        gpu_memory_utilization=0.9,
        cache_dtype="auto",
        enable_prefix_caching=True,
    )
    cache.num_gpu_blocks = gpu_blocks
    parallel = supported(
        ParallelConfig,
        tensor_parallel_size=tensor_parallel,
        data_parallel_size=data_parallel,
        data_parallel_rank=data_rank,
        distributed_executor_backend="mp" if tensor_parallel > 1 else None,
    )
    return VllmConfig(
        model_config=supported(
            ModelConfig,
            model=MODEL,
            tokenizer=MODEL,
            skip_tokenizer_init=True,
            dtype="float16",
            seed=0,
            max_model_len=4096,
        ),
        cache_config=cache,
        parallel_config=parallel,
        scheduler_config=supported(
            SchedulerConfig,
            max_num_seqs=max_requests,
            max_num_batched_tokens=step_tokens,
            max_model_len=4096,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=False,
        ),
        device_config=DeviceConfig("cpu"),
        kv_transfer_config=KVTransferConfig(
            kv_connector="OffloadingConnector",
            kv_role="kv_both",
            kv_connector_extra_config={
                "spec_name": "HotsetOffloadingSpec",
                "spec_module_path": "hotset.adapter.spec",
                **extra_config,
            },
        ),
    )


def gpu_cache(num_blocks, num_groups=1):
    """The engine's cache as workers see it: one tensor for each group."""
    return base.CanonicalKVCaches(
        tensors=[
            base.CanonicalKVCacheTensor(
                torch.zeros((num_blocks, PAGE), dtype=torch.int8), PAGE
            )
            for _ in range(num_groups)
        ],
        group_data_refs=[
            [base.CanonicalKVCacheRef(i, PAGE)] for i in range(num_groups)
        ],
    )
