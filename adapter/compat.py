"""Everything that differs between the supported versions of vLLM, found by feature.

No other module of the adapter asks what this vLLM looks like.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from itertools import groupby, islice
from typing import Any

from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.cpu import manager as stock_manager
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from hotset.policies.driver import Status

_HAS_LOOKUP_RESULT = hasattr(base, "LookupResult")

# From 0.26 a spec makes one worker; before, it lists transfer handlers.
HAS_WORKER = hasattr(CPUOffloadingSpec, "get_worker")

MEDIUM: Any = base.Medium.CPU if hasattr(base, "Medium") else "CPU"


def lookup_answer(status: Status) -> Any:
    """Return what `OffloadingManager.lookup` of this vLLM returns for a status.

    A bool where an enum is wanted, or the reverse, is taken without an error and
    means something else, so this is the one place that decides.
    """
    if not _HAS_LOOKUP_RESULT:
        return {Status.HIT: True, Status.MISS: False, Status.PENDING: None}[status]
    result = base.LookupResult
    return {
        Status.HIT: result.HIT,
        Status.MISS: result.MISS,
        Status.PENDING: result.HIT_PENDING,
    }[status]


def load_store_spec(chunk_ids: list[int]) -> Any:
    """Return this vLLM's description of chunks of the CPU tier."""
    return stock_manager.CPULoadStoreSpec(chunk_ids)


def num_chunks(spec: CPUOffloadingSpec) -> int:
    """Return the chunks that fit into the CPU tier of a spec."""
    return int(spec.num_chunks if hasattr(spec, "num_chunks") else spec.num_blocks)


def blocks_per_chunk(spec: CPUOffloadingSpec) -> int:
    """Return the GPU blocks of a chunk."""
    found = getattr(spec, "blocks_per_chunk", None)
    return int(spec.block_size_factor if found is None else found)


def events_enabled(spec: CPUOffloadingSpec) -> bool:
    """Return whether the engine drains store and removal events."""
    return bool(getattr(spec.kv_events_config, "enable_kv_cache_events", False))


def keys_since(req_context: Any, num_known: int) -> list[Any]:
    """Return a request's keys with known positions but the first few, head first.

    They include keys that the GPU cache served, which no call of the manager names.
    vLLM keeps positions from 0.32 on; before, there are none.
    """
    positions = getattr(req_context, "_offload_key_positions", None)
    if positions is None or len(positions) == num_known:
        return []
    new = list(islice(positions, num_known, None))
    if len(_suffixes(new)) == 1:
        new.sort(key=positions.__getitem__)
    else:
        new.sort(key=lambda key: (group_of(key), positions[key]))
    return new


def runs_of_groups(keys: list[Any]) -> list[tuple[int, int]]:
    """Return the KV cache groups of keys in order, each with the length of its run."""
    if len(_suffixes(keys)) == 1:
        return [(group_of(keys[0]), len(keys))]
    return [(group, len(list(run))) for group, run in groupby(map(group_of, keys))]


def request_state(req_context: Any, kind: type) -> Any:
    """Return what `keep_request_state` kept of a type; None before 0.28."""
    get = getattr(req_context, "get_state", None)
    return None if get is None else get(kind)


def keep_request_state(req_context: Any, value: Any) -> None:
    """Keep a value with a request, one of each type, for as long as the request."""
    keep = getattr(req_context, "set_state", None)
    if keep is not None:
        keep(value)


def group_of(key: Any) -> int:
    """Return the KV cache group of a key."""
    return int(base.get_offload_group_idx(key))


def _suffixes(keys: list[Any]) -> set[Any]:
    """Return the ends of keys, which tell their groups; cheaper than the groups."""
    return {key[-4:] for key in keys}


def is_cpu_platform() -> bool:
    """Return whether this is vLLM's CPU build, for which it has no transfer worker."""
    from vllm.platforms import current_platform

    return not (current_platform.is_cuda_alike() or current_platform.is_xpu())


def missing_features() -> list[str]:
    """Return what the adapter needs of vLLM and does not find; empty if supported."""
    wanted = {
        "OffloadingManager.prepare_store": ("keys", "req_context"),
        "OffloadingManager.complete_store": ("keys", "req_context", "success"),
        "OffloadingManager.lookup": ("key", "req_context"),
        "OffloadingManager.on_new_request": ("req_context",),
        "OffloadingManager.on_request_finished": ("req_context",),
    }
    missing = []
    for name, arguments in wanted.items():
        method = getattr(base.OffloadingManager, name.partition(".")[2], None)
        found = () if method is None else tuple(inspect.signature(method).parameters)
        if method is None or found[1:] != arguments:
            missing.append(f"{name}({', '.join(arguments)})")
    return missing


def removal_events(keys: Iterable[Any], removed: bool) -> Any:
    """Return one event for keys that were stored or removed."""
    return base.OffloadingEvent(keys=list(keys), medium=MEDIUM, removed=removed)
