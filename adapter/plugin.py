"""The plugin that vLLM runs in each of its processes, before an engine starts.

It gives vLLM names: ``"spec_name": "HotsetOffloadingSpec"`` works without a module
path, and from vLLM 0.28 on ``"eviction_policy": "hotset-<policy>"`` does. Up to 0.26
vLLM has no registry of cache policies but a private table of classes, which is left
alone.

Nothing is loaded here but the two registries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hotset.adapter import names

_LOG = logging.getLogger(__name__)
_REGISTERED: set[str] = set()
_SAID: set[str] = set()


def register() -> None:
    """Register our names in this vLLM; may be called again, and never raises."""
    for part in (_register_spec, _register_policies):
        try:
            part()
        except Exception as error:
            # vLLM would not start; without the names only a module path is longer.
            _say(f"hotset: names are not registered in this vLLM: {error!r}")


def _register_spec() -> None:
    from vllm.v1.kv_offload.factory import OffloadingSpecFactory

    _add(
        OffloadingSpecFactory.register_spec,
        names.SPEC_NAME,
        names.SPEC_MODULE,
        names.SPEC_NAME,
    )


def _register_policies() -> None:
    try:
        from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
    except ModuleNotFoundError:
        _LOG.debug("this vLLM has no registry of cache policies: they need the spec")
        return
    for policy in names.policy_names():
        _add(
            CachePolicyFactory.register_cache_policy,
            names.registered_name(policy),
            names.POLICY_MODULE,
            names.class_name(policy),
        )


def _add(
    register_name: Callable[[str, str, str], None], name: str, module: str, cls: str
) -> None:
    if name in _REGISTERED:
        return
    try:
        register_name(name, module, cls)
    except ValueError as error:
        _say(f"hotset: the name {name!r} is left to whoever took it in vLLM: {error}")
        return
    _REGISTERED.add(name)


def _say(message: str) -> None:
    if message not in _SAID:
        _SAID.add(message)
        _LOG.warning(message)
