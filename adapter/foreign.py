"""Configurations of evoke-vllm and of vllm-marconi-offload in hotset's terms.

Every key of the old configuration is named: what it became, or why it was dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotset.adapter.evoke import evoke_policy
from hotset.adapter.export_ssd import demoted_ssd
from hotset.adapter.stock_keys import STOCK_KEYS
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.policies.request import SOURCE_TYPES

_EVOKE, _MARCONI = "evoke-vllm", "vllm-marconi-offload"
_INERT_OF_EVOKE = ("w_attention", "w_coherence")
_DROPPED_OF_MARCONI = {
    "cpu_pool_path": "vLLM keeps its CPU tier in memory of its own, not in files",
    "cpu_bytes_to_use_per_rank": "vLLM's cpu_bytes_to_use covers all ranks; give --cpu",
    "l2_manifest_save_interval_s": "each chunk on SSD is durable before it is found",
    "l2_mirror_batch_size": 'ssd.mode="write-through" keeps what RAM holds over a '
    'restart, "demote" what it evicted',
    "lazy_offload": "vLLM stores blocks as prefill fills them",
}


@dataclass
class Translation:
    """An old configuration in hotset's terms.

    Parameters
    ----------
    source : str
        Whose it was.
    policy, admission : JSON objects or None
        What runs; None leaves it to vLLM's own keys.
    ssd : JSON object or None
        The SSD tier.
    extra : dict
        Keys of ``kv_connector_extra_config`` that stay.
    notes : list of str
        One line for each key of the old configuration.
    """

    source: str
    policy: Any = None
    admission: Any = None
    ssd: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def became(self, key: str, what: str) -> None:
        """Note what a key became."""
        self.notes.append(f"{key}: {what}")

    def dropped(self, key: str, why: str) -> None:
        """Note why a key is dropped."""
        self.notes.append(f"{key}: dropped: {why}")


def translate(old: Any, name: str) -> Translation:
    """Translate a configuration.

    Parameters
    ----------
    old : JSON value
        ``--kv-transfer-config`` or its ``kv_connector_extra_config``.
    name : str
        Of the file, for messages.

    Raises
    ------
    PolicyError
        If it is of neither package, or a value of it is wrong; names all that is.
    """
    if not isinstance(old, Mapping):
        raise PolicyError(f"{name}: an object is needed")
    extra = old.get("kv_connector_extra_config", old)
    if not isinstance(extra, Mapping):
        raise PolicyError(f'{name}: "kv_connector_extra_config" is no object')
    outer = {} if extra is old else old
    try:
        if "evoke" in extra or "evoke" in str(extra.get("spec_name", "")).lower():
            return _from_evoke(outer, extra)
        if "SimpleCPU" in str(outer.get("kv_connector", "")) or any(
            key in extra for key in ("eviction_reuse_mode", "eviction_decay")
        ):
            return _from_marconi(outer, extra)
    except PolicyError as error:
        raise PolicyError(
            "\n".join(f"{name}: {line}" for line in str(error).splitlines())
        ) from None
    raise PolicyError(
        f"{name}: neither a configuration of {_EVOKE} nor one of {_MARCONI}"
    )


def _outer_keys(found: Translation, outer: Mapping[str, Any]) -> None:
    """Name the keys beside ``kv_connector_extra_config``."""
    for key, value in outer.items():
        if key == "kv_connector_extra_config":
            continue
        if key == "kv_role" and value == "kv_both":
            found.became(key, "stays")
        elif key == "kv_connector":
            found.became(key, "OffloadingConnector")
        elif key == "kv_role":
            found.dropped(key, "vLLM's OffloadingConnector takes kv_both alone")
        elif key == "kv_connector_module_path":
            found.dropped(key, "vLLM's OffloadingConnector is its own")
        else:
            found.dropped(key, "no part of what chooses a policy: add it yourself")


def _from_evoke(outer: Mapping[str, Any], extra: Mapping[str, Any]) -> Translation:
    found = Translation(_EVOKE)
    faults: list[str] = []
    policy = evoke_policy(extra, {}, faults)
    if policy is None:
        raise PolicyError("\n".join(faults))
    spec, params = policy
    found.policy = {"name": spec.name, **dataclasses.asdict(params)}
    _outer_keys(found, outer)
    for key, value in extra.items():
        if key == "evoke":
            _evoke_keys(found, value or {})
        elif key in ("spec_name", "spec_module_path"):
            found.became(key, "hotset's own")
        elif key == "max_tracker_size":
            found.extra[key] = value
            found.became(key, "stays, and policy.tracker_size")
        elif key in STOCK_KEYS:
            found.extra[key] = value
            found.became(key, "stays, vLLM's own")
        else:
            found.dropped(key, f"{_EVOKE} does not read it")
    if not (extra.get("evoke") or {}).get("source_floors"):
        found.notes.append(
            f"evoke.source_floors: not given, so {_EVOKE}'s defaults: "
            + ", ".join(f"{name} {_floor(params, name):g}" for name in SOURCE_TYPES)
        )
    found.notes.append(
        "order: tail-first, where the original uses a batch head first and lets tails "
        "outlive heads; policy.order=given is the original's"
    )
    return found


def _floor(params: Any, name: str) -> float:
    return float(getattr(params, f"floor_{name}"))


def _evoke_keys(found: Translation, given: Mapping[str, Any]) -> None:
    for key, value in given.items():
        if key in _INERT_OF_EVOKE:
            found.dropped(
                f"evoke.{key}",
                f"vLLM's CPU tier has no signal for it; {_EVOKE} wants 0",
            )
        elif key == "recency_half_life":
            raised = ", raised to 1 as the original does" if float(value) < 1 else ""
            found.became(f"evoke.{key}", f"policy.half_life{raised}")
        elif key == "source_floors":
            for name in value:
                found.became(f"evoke.{key}.{name}", f"policy.floor_{name}")
        else:
            found.became(f"evoke.{key}", f"policy.{key}")


def _from_marconi(outer: Mapping[str, Any], extra: Mapping[str, Any]) -> Translation:
    found = Translation(_MARCONI)
    texts = {
        "decay": str(extra.get("eviction_decay", 0.0)),
        "reuse": str(extra.get("eviction_reuse_mode", "linear")).lower(),
        "admission_threshold": str(extra.get("admission_threshold", 1)),
    }
    wanted = str(extra.get("eviction_policy", "lru")).lower()
    is_scored = wanted == "marconi"
    if is_scored:
        spec = POLICIES.get("marconi")
        found.policy = {"name": spec.name, **dataclasses.asdict(spec.parse(texts))}
    else:
        found.policy = {"name": "lru"}
        text = f"threshold:{texts['admission_threshold']}"
        _, rule = ADMISSIONS.parse(text)
        found.admission = text if getattr(rule, "min_count", 0) > 1 else "always"
    path, size = _second_tier(extra)
    if path and size > 0:
        found.ssd = demoted_ssd(str(Path(path, "hotset")), size, found.policy)
    _outer_keys(found, outer)
    for key, value in extra.items():
        _marconi_key(found, key, value, is_scored)
    if found.ssd is not None:
        found.notes.append(
            "ssd.mode: demote: what the CPU tier evicts is written, in the order of "
            "the same policy"
        )
    if "eviction_policy" not in extra:
        found.notes.append(f"eviction_policy: not given, which is lru in {_MARCONI}")
    return found


def _second_tier(extra: Mapping[str, Any]) -> tuple[str, int]:
    """Return folder and bytes of the second tier; it needs both."""
    path, size = extra.get("l2_pool_path") or "", extra.get("l2_bytes_to_use") or 0
    if not isinstance(path, str):
        raise PolicyError(f"l2_pool_path is {path!r}: a folder is needed")
    try:
        return path, int(size)
    except (TypeError, ValueError, OverflowError):
        raise PolicyError(
            f"l2_bytes_to_use is {size!r}: a whole number of bytes is needed"
        ) from None


def _l2_key(found: Translation, key: str) -> None:
    if found.ssd is None:
        found.dropped(key, f"{_MARCONI} has a second tier with folder and size alone")
    elif key == "l2_pool_path":
        found.became(
            key,
            f"ssd.path {found.ssd['path']}, which begins empty; what is in the old "
            f"folder cannot be read and is yours to remove",
        )
    else:
        found.became(
            key, "ssd.max_bytes, over all engines of the folder, the index included"
        )


def _marconi_key(found: Translation, key: str, value: Any, is_scored: bool) -> None:
    if key == "cpu_bytes_to_use":
        found.extra[key] = value
        found.became(
            key, "stays; vLLM counts it for each engine, so divide by data parallelism"
        )
    elif key == "eviction_policy":
        name = found.policy["name"]
        unknown = "" if str(value).lower() == name else f": {value!r} is not known"
        found.became(key, f"policy {name}{unknown}")
    elif key == "admission_threshold":
        found.became(
            key, "policy.admission_threshold" if is_scored else "admission threshold"
        )
    elif key in ("eviction_decay", "eviction_reuse_mode"):
        name = {"eviction_decay": "decay", "eviction_reuse_mode": "reuse"}[key]
        if not is_scored:
            found.dropped(key, "lru has no scores")
        elif name == "decay" and value:
            found.became(
                key, "policy.decay, counted in requests and not in scheduler steps"
            )
        else:
            found.became(key, f"policy.{name}")
    elif key in ("l2_pool_path", "l2_bytes_to_use"):
        _l2_key(found, key)
    elif key in _DROPPED_OF_MARCONI:
        found.dropped(key, _DROPPED_OF_MARCONI[key])
    else:
        found.dropped(key, f"{_MARCONI} does not read it")
