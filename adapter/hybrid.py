"""Models with Mamba layers under vLLM 0.22, which stops at the first load for one.

Its scheduler asserts that nothing was loaded before it aligns a Mamba prefill to whole
blocks, though the alignment needs only how many tokens there are, as in later versions.
Such a model is refused at start, unless ``"allow_hybrid": true`` asks for that
assertion to be lifted. Nothing else of vLLM is ever patched.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

from hotset.adapter import compat

_LOG = logging.getLogger(__name__)


def hybrid_faults(kv_cache_config: Any, is_allowed: bool) -> list[str]:
    """Return why this vLLM cannot offload a model; lift the guard if that is allowed.

    Parameters
    ----------
    kv_cache_config : KVCacheConfig or None
        The model's KV cache groups; None where vLLM does not tell a spec of them.
    is_allowed : bool
        Whether the guard may be lifted.
    """
    if not compat.aligns_mamba(kv_cache_config):
        return []
    scheduler = compat.guarded_scheduler()
    if scheduler is None:
        return []
    if is_allowed:
        lift_guard(scheduler)
        return []
    return [
        "this model has Mamba layers, and this vLLM stops at the first load for one: "
        'use vLLM 0.24 or later, or set "hotset": {"allow_hybrid": true} to lift its '
        "guard"
    ]


def lift_guard(scheduler: Any) -> None:
    """Let a scheduler class count loaded tokens as it counts those of the GPU cache."""
    guarded = scheduler._mamba_block_aligned_split

    @functools.wraps(guarded)
    def split(
        self: Any,
        request: Any,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        there = num_new_local_computed_tokens + num_external_computed_tokens
        return int(guarded(self, request, num_new_tokens, there))

    split.is_lifted = True  # type: ignore[attr-defined]
    scheduler._mamba_block_aligned_split = split
    _LOG.warning(
        'hotset: "allow_hybrid" lifts vLLM\'s guard against loads for Mamba layers'
    )
