"""Everything that differs between the supported versions of vLLM, found by feature.

No other module of the adapter asks what this vLLM looks like. Nothing here loads numba:
vLLM's CPU build cannot start in a process that has loaded llvmlite.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby, islice
from typing import Any

from hotset.adapter.errors import AdapterError
from hotset.traces.metric_names import METRICS

SUPPORTED = "0.22 to 0.33"

try:
    from vllm.v1.kv_offload import base as base  # the manager is made of it, too
    from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
    from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
except ImportError as error:
    raise AdapterError(
        f"this vLLM is outside the supported range {SUPPORTED}: {error}"
    ) from None

# From 0.26 a spec makes one worker; before, it lists transfer handlers.
HAS_WORKER = hasattr(CPUOffloadingSpec, "get_worker")

# Up to 0.22 vLLM tells neither of a request's start nor of its end.
HAS_REQUEST_HOOKS = hasattr(base.OffloadingManager, "on_new_request")

# From 0.32 a request's context knows all its keys; before, `touch` names them.
HAS_POSITIONS = hasattr(base.ReqContext, "get_offload_key_position")

MEDIUM: Any = base.Medium.CPU if hasattr(base, "Medium") else "CPU"

# What `OffloadingManager.lookup` returns. A bool where an enum is wanted, or the
# reverse, is taken without an error and means something else.
HIT: Any
MISS: Any
PENDING: Any
if hasattr(base, "LookupResult"):
    HIT, MISS = base.LookupResult.HIT, base.LookupResult.MISS
    PENDING = base.LookupResult.HIT_PENDING
else:
    HIT, MISS, PENDING = True, False, None


def lookup_answer(status: Any) -> Any:
    """Return what `OffloadingManager.lookup` of this vLLM returns for a `Status`."""
    return {"hit": HIT, "miss": MISS, "pending": PENDING}[status.value]


# What a transfer worker or handler is made of, and what it reports.
TRANSFER_BASE: Any
TRANSFER_RESULT: Any
if HAS_WORKER:
    TRANSFER_BASE, TRANSFER_RESULT = base.OffloadingWorker, base.TransferResult
else:
    from vllm.v1.kv_offload.worker import worker as _handlers

    TRANSFER_BASE = _handlers.OffloadingHandler
    TRANSFER_RESULT = _handlers.TransferResult

SPEC_BASE: Any = CPUOffloadingSpec


# The spec


def extra_config_of(*arguments: Any) -> Mapping[str, Any]:
    """Return ``kv_connector_extra_config`` from what a spec is made of."""
    found = getattr(arguments[0], "extra_config", None)
    if found is None:
        found = arguments[0].kv_transfer_config.kv_connector_extra_config
    return dict(found)


def num_chunks(spec: CPUOffloadingSpec) -> int:
    """Return the chunks that fit into the CPU tier of a spec."""
    return int(spec.num_chunks if hasattr(spec, "num_chunks") else spec.num_blocks)


def blocks_per_chunk(spec: CPUOffloadingSpec) -> int:
    """Return the GPU blocks of a chunk."""
    found = getattr(spec, "blocks_per_chunk", None)
    return int(spec.block_size_factor if found is None else found)


def chunk_bytes(spec: CPUOffloadingSpec) -> int:
    """Return the bytes that a chunk takes of ``cpu_bytes_to_use``, on all workers."""
    for name in ("kv_bytes_per_chunk", "kv_bytes_per_offloaded_block"):
        if hasattr(spec, name):
            return int(getattr(spec, name))
    return int(
        spec.cpu_page_size_per_worker * spec.vllm_config.parallel_config.world_size
    )


def has_blocks_per_chunk() -> bool:
    """Return whether this vLLM reads ``blocks_per_chunk``, as it does from 0.26."""
    return "config" in inspect.signature(base.OffloadingSpec.__init__).parameters


def block_tokens(spec: CPUOffloadingSpec) -> int:
    """Return the tokens of what a request's block hashes stand for."""
    found = getattr(spec, "tokens_per_hash", None)
    return int(spec.hash_block_size if found is None else found)


def chunk_tokens(spec: CPUOffloadingSpec) -> int:
    """Return the tokens of a chunk."""
    found = getattr(spec, "tokens_per_block", None)
    sizes = spec.gpu_block_size if found is None else found
    return int(sizes[0]) * blocks_per_chunk(spec)


def events_enabled(spec: CPUOffloadingSpec) -> bool:
    """Return whether the engine drains store and removal events."""
    found = getattr(spec, "kv_events_config", None)
    if found is None and hasattr(spec, "vllm_config"):
        found = spec.vllm_config.kv_events_config
    return bool(getattr(found, "enable_kv_cache_events", False))


def is_cpu_platform() -> bool:
    """Return whether this is vLLM's CPU build, for which it has no transfer worker."""
    from vllm.platforms import current_platform

    return not (current_platform.is_cuda_alike() or current_platform.is_xpu())


def transfer_ends() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return from what to what data goes in a store and in a load."""
    return (base.GPULoadStoreSpec, CPULoadStoreSpec), (
        CPULoadStoreSpec,
        base.GPULoadStoreSpec,
    )


# Metrics

# Up to 0.22 a manager has no way to expose any.
HAS_METRICS = hasattr(base, "OffloadingCounterMetadata")

# Below vLLM's own logger, whose lines a server shows.
LOG = logging.getLogger("vllm.hotset")


def metric_definitions() -> dict[str, Any]:
    """Return our metrics as this vLLM declares them; none up to 0.22."""
    if not HAS_METRICS:
        return {}
    kinds = {
        "counter": base.OffloadingCounterMetadata,
        "gauge": base.OffloadingGaugeMetadata,
        "histogram": base.OffloadingHistogramMetadata,
    }
    return {
        metric.exposed: kinds[metric.kind](
            documentation=f"hotset: {metric.about}.",
            labelnames=metric.labels,
            **({"buckets": metric.buckets} if metric.buckets else {}),
        )
        for metric in METRICS
    }


def new_stats() -> Any:
    """Return empty statistics of a step."""
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import metrics

    return metrics.OffloadingConnectorStats()


# The manager


def load_store_spec(chunk_ids: list[int]) -> Any:
    """Return this vLLM's description of chunks of the CPU tier."""
    return CPULoadStoreSpec(chunk_ids)


def removal_events(keys: Iterable[Any], removed: bool) -> Any:
    """Return one event for keys that were stored or removed."""
    return base.OffloadingEvent(keys=list(keys), medium=MEDIUM, removed=removed)


def load_source(name: str = "HOST") -> Any:
    """Return where vLLM from 0.32 on counts loads from the CPU tier, or from disk."""
    from vllm.v1.metrics.cache_hit_source import CacheHitSource

    return CacheHitSource[name]


# Requests and keys


def engine_requests() -> Callable[[str], Any] | None:
    """Return what finds vLLM's state of a request by its id, None where there is none.

    A manager is told a request's id and no more. Its lengths are known to the scheduler
    half of the connector, which makes the manager: so it is among the callers of
    whoever calls this meanwhile. It is read and never written.
    """
    try:
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import (
            OffloadingConnectorScheduler,
        )
    except ImportError:
        return None
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, OffloadingConnectorScheduler):
            return partial(_state_of, weakref.ref(owner))
        frame = frame.f_back
    return None


def _state_of(owner: Callable[[], Any], req_id: str) -> Any:
    return getattr(owner(), "_req_status", {}).get(req_id)


def request_of(state: Any) -> Any:
    """Return the request of what `engine_requests` found."""
    return state.req


def local_tokens(state: Any) -> int:
    """Return the tokens of a request that the GPU cache had, when it was taken up."""
    return int(getattr(state, "num_locally_computed_tokens", None) or 0)


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


def call_when_gone(req_context: Any, call: Callable[[str], None]) -> None:
    """Call with a request's id once vLLM has dropped its context.

    That may happen anywhere, so the call must do no more than take a note.
    """
    weakref.finalize(req_context, call, req_context.req_id).atexit = False


# Hybrid models


def aligns_mamba(kv_cache_config: Any) -> bool:
    """Return whether a model has Mamba layers whose states are cached by the block."""
    if kv_cache_config is None:
        return False
    from vllm.v1.kv_cache_interface import MambaSpec

    for group in kv_cache_config.kv_cache_groups:
        spec = group.kv_cache_spec
        for one in getattr(spec, "kv_cache_specs", {"": spec}).values():
            if isinstance(one, MambaSpec) and one.mamba_cache_mode == "align":
                return True
    return False


def guarded_scheduler() -> Any:
    """Return the scheduler class that refuses loads for Mamba layers, or None.

    That is 0.22's; one whose guard was lifted refuses nothing.
    """
    from vllm.v1.core.sched.scheduler import Scheduler

    split = getattr(Scheduler, "_mamba_block_aligned_split", None)
    if split is None or hasattr(split, "is_lifted"):
        return None
    is_guarded = "assert num_external_computed_tokens == 0" in inspect.getsource(split)
    return Scheduler if is_guarded else None


# What is supported

_CALLS = {
    "lookup": ("key", "req_context"),
    "prepare_load": ("keys", "req_context"),
    "complete_load": ("keys", "req_context"),
    "touch": ("keys", "req_context"),
    "prepare_store": ("keys", "req_context"),
    "complete_store": ("keys", "req_context", "success"),
    "reset_cache": (),
    "take_events": (),
}
_REQUEST_CALLS = {
    "on_new_request": ("req_context",),
    "on_request_finished": ("req_context",),
}


def missing_features(manager: type) -> list[str]:
    """Return what the adapter needs of vLLM and does not find; empty if supported.

    Parameters
    ----------
    manager : type
        The adapter's manager, which must implement all that this vLLM wants of one.
    """
    wanted = _CALLS | (_REQUEST_CALLS if HAS_REQUEST_HOOKS else {})
    missing = []
    for name, arguments in wanted.items():
        method = getattr(base.OffloadingManager, name, None)
        found = () if method is None else tuple(inspect.signature(method).parameters)
        if method is None or found[1:] != arguments:
            missing.append(f"OffloadingManager.{name}({', '.join(arguments)})")
    unmet = sorted(getattr(manager, "__abstractmethods__", ()))
    missing += [f"way to do without OffloadingManager.{name}" for name in unmet]
    if not hasattr(base, "get_offload_group_idx"):
        missing.append("get_offload_group_idx(key)")
    return missing


def refuse_unsupported(manager: type) -> None:
    """Check that this vLLM has what the adapter needs.

    Raises
    ------
    AdapterError
        One line that names what is missing.
    """
    missing = missing_features(manager)
    if missing:
        raise AdapterError(
            f"this vLLM is outside the supported range {SUPPORTED}: it has no "
            + ", ".join(missing)
        )
