"""What vLLM's tiering brings, found by feature: shared memory, identities, tiers.

The CPU tier of a plain offloading spec is each worker's own memory. Under tiering it is
a file in shared memory, with a row for each chunk that holds the parts of all workers,
which the scheduler's process maps as well: that is where an SSD tier reads and writes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError

try:
    import vllm
    from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
    from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec
except ImportError as error:
    raise AdapterError(
        f'"ssd" needs vLLM\'s tiering, which this vLLM does not have: {error}'
    ) from None

SPEC_BASE: Any = TieringOffloadingSpec


# Memory


def open_region(spec: Any, rank: int | None) -> Any:
    """Return the CPU tier's shared memory, for a worker or (None) for the scheduler."""
    parallel = engine_config_of(spec).parallel_config
    row_bytes = compat.chunk_bytes(spec)
    number = compat.num_chunks(spec)
    known = {
        "engine_id": getattr(spec, "_engine_id", None),
        "instance_id": getattr(engine_config_of(spec), "instance_id", None),
        "total_size_bytes": row_bytes * number,
        "num_blocks": number,
        "num_chunks": number,
        "rank": rank,
        "num_workers": parallel.world_size,
        "kv_bytes_per_block": row_bytes,
        "kv_bytes_per_chunk": row_bytes,
        "cpu_page_size": spec.cpu_page_size_per_worker,
    }
    wanted = inspect.signature(SharedOffloadRegion.__init__).parameters
    return SharedOffloadRegion(**{k: v for k, v in known.items() if k in wanted})


def worker_views(spec: Any, kv_caches: Any) -> tuple[list[Any], Any]:
    """Return a worker's part of the shared memory, and the memory.

    There is a view for each of its tensors, of (chunks, blocks a chunk, page bytes).
    """
    rank = 0
    if not getattr(spec, "replicated_layout", False):
        rank = engine_config_of(spec).parallel_config.rank
    region = open_region(spec, rank)
    make = getattr(region, "create_next_worker_view", None) or region.create_next_view
    per_chunk = compat.blocks_per_chunk(spec)
    views = []
    for cache in kv_caches.tensors:
        page = cache.tensor.shape[1]
        view = make(page * per_chunk)
        views.append(view.view(view.shape[0], per_chunk, page))
    return views, region


def rows_of(region: Any, count: int) -> tuple[list[memoryview], memoryview]:
    """Return the rows of shared memory, and the view that they are parts of."""
    whole = region.create_kv_memoryview().cast("B")
    size = len(whole) // count
    return [whole[i * size : (i + 1) * size] for i in range(count)], whole


# Who the chunks belong to


def engine_config_of(spec: Any) -> Any:
    """Return the engine's configuration: a spec has it, or whoever makes the spec.

    Raises
    ------
    AdapterError
        If it is not to be found.
    """
    found = getattr(spec, "vllm_config", None) or getattr(spec, "_hotset_engine", None)
    if found is None:
        found = spec._hotset_engine = _calling_config()
    return found


def _calling_config() -> Any:
    """Return the configuration of the connector among the callers."""
    frame = inspect.currentframe()
    while frame is not None:
        found = getattr(frame.f_locals.get("self"), "_vllm_config", None)
        if found is not None and hasattr(found, "parallel_config"):
            return found
        frame = frame.f_back
    raise AdapterError(
        '"ssd": this vLLM does not say which model it serves, so nothing can be kept'
    )


def identity(spec: Any, row_bytes: int) -> dict[str, str]:
    """Return all that the bytes of a chunk depend on but its key.

    The hash seed is apart, see `hash_seed`. An adapter (LoRA) is part of keys by its
    name, which is taken to stand for its weights.
    """
    config = engine_config_of(spec)
    model, cache, parallel = (
        config.model_config,
        config.cache_config,
        config.parallel_config,
    )
    normalized = getattr(spec, "config", None)
    groups = getattr(normalized, "groups", None)
    if groups is None:
        groups = spec.kv_cache_config.kv_cache_groups
    found = {
        "vllm": vllm.__version__,
        "python": sys.version_info[:2],  # keys are hashes of pickles
        "model": model.model,
        "revision": getattr(model, "revision", None),
        "commit": getattr(getattr(model, "hf_config", None), "_commit_hash", None),
        "weights": _weights(model.model),
        "dtype": model.dtype,
        "kv_dtype": cache.cache_dtype,
        "quantization": getattr(model, "quantization", None),
        "hf_config": _digest(_hf_json(model)),
        "load_format": getattr(config.load_config, "load_format", None),
        "seed": getattr(model, "seed", None),
        "hash": getattr(cache, "prefix_caching_hash_algo", None),
        "block_tokens": compat.block_tokens(spec),
        "chunk_tokens": compat.chunk_tokens(spec),
        "row_bytes": row_bytes,
        "groups": [(tuple(g.layer_names), _span(g)) for g in groups],
        "layout": getattr(normalized, "kv_cache_layout", None),
        "canonical": getattr(normalized, "canonical_layout", None),
        "replicated": getattr(spec, "replicated_layout", None),
    }
    for name in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "decode_context_parallel_size",
        "prefill_context_parallel_size",
        "world_size",
        "data_parallel_size",
        "data_parallel_rank",
    ):
        found[name] = getattr(parallel, name, None)
    return {name: str(value) for name, value in found.items()}


def hash_seed(spec: Any) -> str | None:
    """Return the seed of block hashes; None where each process draws its own."""
    seed = os.environ.get("PYTHONHASHSEED")
    if seed is not None:
        return seed
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    resolve = getattr(kv_cache_utils, "resolve_none_hash_seed", None)
    if resolve is None:
        return None
    algorithm = engine_config_of(spec).cache_config.prefix_caching_hash_algo
    function = get_hash_fn_by_name(algorithm)
    first, second = resolve(function), resolve(function)
    return str(first) if first == second else None


def is_one_machine(spec: Any) -> bool:
    """Return whether all workers of an engine share the scheduler's memory."""
    parallel = engine_config_of(spec).parallel_config
    return int(getattr(parallel, "nnodes_within_dp", 1) or 1) == 1


def steps_in_flight(spec: Any) -> int:
    """Return how many steps may be scheduled before one is done, and two more."""
    parallel = engine_config_of(spec).parallel_config
    return int(parallel.pipeline_parallel_size) + 3


def _span(group: Any) -> Any:
    found = getattr(group, "tokens_per_block", None)
    return group.kv_cache_spec if found is None else found


def _hf_json(model: Any) -> str:
    config = getattr(model, "hf_config", None)
    return "" if config is None else str(config.to_json_string(use_diff=False))


def _weights(path: str) -> str | None:
    """Return what tells a local model's files from others of the same place."""
    if not os.path.isdir(path):
        return None
    files = []
    for file in sorted(Path(path).iterdir()):
        if file.is_file():
            found = file.stat()
            files.append((file.name, found.st_size, found.st_mtime_ns))
    return _digest(json.dumps(files))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
