"""Checks of vLLM's own keys in ``kv_connector_extra_config``, without loading policies.

vLLM stops at the first wrong one, and passes over some that have no effect with this
spec; here everything that is wrong is said at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

# Keys that do something under vLLM's other specs and nothing under ours.
_INERT = {
    "eviction_policy": 'name the policy in "hotset": {"policy": ...}',
    "cache_policy_module_path": 'name the policy in "hotset": {"policy": ...}',
    "secondary_tiers": 'name the second tier in "hotset": {"ssd": {...}}',
}

# Keys of vLLM's that mean under this spec what they mean under its own.
STOCK_KEYS = (
    "cpu_bytes_to_use",
    "block_size",
    "blocks_per_chunk",
    "store_threshold",
    "max_tracker_size",
    "offload_prompt_only",
    "self_describing_kv_events",
)
# A key that is near one of these is a misspelt one, which would do nothing.
_KNOWN = (*STOCK_KEYS, *_INERT, "spec_name", "spec_module_path")


def stock_faults(
    extra_config: Mapping[str, Any], has_blocks_per_chunk: bool
) -> list[str]:
    """Return what is wrong with vLLM's own keys, one line a fault.

    Parameters
    ----------
    extra_config : mapping
        ``kv_connector_extra_config``.
    has_blocks_per_chunk : bool
        Whether this vLLM knows ``blocks_per_chunk``.
    """
    faults = [
        f'"{key}" has no effect with this spec: {instead}'
        for key, instead in _INERT.items()
        if extra_config.get(key) and extra_config.get(key) != "lru"
    ]
    if "cpu_bytes_to_use" not in extra_config:
        faults.append('"cpu_bytes_to_use" is missing: the bytes of the CPU tier')
    for key, at_least in (
        ("cpu_bytes_to_use", 1),
        ("block_size", 1),
        ("blocks_per_chunk", 1),
        ("store_threshold", 0),
        ("max_tracker_size", 1),
    ):
        value = extra_config.get(key, at_least)
        if not _is_whole(value) or int(value) < at_least:
            faults.append(
                f'"{key}" is {value!r}: a whole number from {at_least} is needed'
            )
    # vLLM takes any value for yes or no.
    prompt_only = extra_config.get("offload_prompt_only", True)
    if not isinstance(prompt_only, bool):
        faults.append(
            f'"offload_prompt_only" is {prompt_only!r}: true or false is needed'
        )
    faults += [
        f'"{key}" is no key: did you mean "{near}"?'
        for key in map(str, extra_config)
        for near in difflib.get_close_matches(key, _KNOWN, 1, 0.85)
        if key not in _KNOWN
    ]
    if "blocks_per_chunk" in extra_config:
        if not has_blocks_per_chunk:
            faults.append(
                '"blocks_per_chunk" is not read by this vLLM: give "block_size", in '
                "tokens"
            )
        elif "block_size" in extra_config:
            faults.append('"block_size" and "blocks_per_chunk" exclude each other')
    return faults


def _is_whole(value: Any) -> bool:
    """Return whether vLLM's ``int(value)`` keeps a value as it is."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, bool) and (isinstance(value, str) or number == value)
