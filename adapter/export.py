"""The exact configuration that a vLLM loads, from a tuned file or an old one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hotset.adapter.config import read_config
from hotset.adapter.export_ssd import needs_seed, tuned_ssd
from hotset.adapter.foreign import Translation
from hotset.adapter.names import SPEC_MODULE, SPEC_NAME, registered_name
from hotset.adapter.stock_keys import stock_faults
from hotset.adapter.tuned_file import DEPLOY, NO_OFFLOAD, TunedFile
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES

_ENGINE = re.compile(r"vllm-0\.([0-9]{1,3})(?:\.[0-9]{1,3})?")
_OLDEST, _NEWEST = 22, 33
_HAS_BLOCKS_PER_CHUNK = 26
_HAS_POLICY_NAMES = 28
_COUNTS_OFFERS = 30  # before it, a sight counts at the look-up
FORMS = ("spec", "policy")


@dataclass(frozen=True)
class Target:
    """Where a configuration is to run.

    Parameters
    ----------
    engine : str
        ``vllm-0.33``, say.
    model : str
        What ``vllm serve`` is given.
    block_tokens : int
        Tokens of a GPU block; chunks are whole blocks.
    cpu_bytes : int, optional
        Size of the CPU tier; as in the file where it is not given.
    form : "spec" or "policy"
        hotset's spec, or a policy by name in vLLM's own spec.
    ignore_verdict : bool
        Whether the best found is exported whatever the verdict.
    ssd_path : str, optional
        Folder of the SSD tier, where there is one.
    """

    engine: str
    model: str = "MODEL"
    block_tokens: int = 16
    cpu_bytes: int | None = None
    form: str = "spec"
    ignore_verdict: bool = False
    ssd_path: str | None = None

    @property
    def minor(self) -> int:
        """The version's second number.

        Raises
        ------
        PolicyError
            If it is no vLLM, or none that hotset supports.
        """
        match = _ENGINE.fullmatch(self.engine)
        if match is None or not _OLDEST <= int(match[1]) <= _NEWEST:
            raise PolicyError(
                f"--engine {self.engine}: allowed are vllm-0.{_OLDEST} to "
                f"vllm-0.{_NEWEST}"
            )
        return int(match[1])


@dataclass(frozen=True)
class Export:
    """What to start a server with.

    Parameters
    ----------
    kv_transfer_config : dict or None
        The value of ``--kv-transfer-config``; None without offloading.
    target : Target
        Where it runs.
    notes : list of str
        What to know.
    """

    kv_transfer_config: dict[str, Any] | None
    target: Target
    notes: list[str] = field(default_factory=list)

    @property
    def json(self) -> str:
        """The configuration on one line."""
        return json.dumps(self.kv_transfer_config)

    @property
    def serve(self) -> str:
        """The command that starts the server."""
        words = ["vllm", "serve", self.target.model]
        if self._needs_seed:
            words.insert(0, "PYTHONHASHSEED=0")
        words += ["--block-size", str(self.target.block_tokens)]
        if self.kv_transfer_config is not None:
            words += ["--kv-transfer-config", self.json]
        return shlex.join(words)

    @property
    def _needs_seed(self) -> bool:
        """Whether another process would find nothing of what this one stores."""
        config = self.kv_transfer_config or {}
        hotset = config.get("kv_connector_extra_config", {}).get("hotset", {})
        return "ssd" in hotset and needs_seed(self.target.minor)


def export_tuned(tuned: TunedFile, target: Target) -> Export:
    """Return what runs a tuned file.

    Raises
    ------
    PolicyError
        If this vLLM would refuse it, or the file's result does not hold for it; names
        everything that is wrong.
    """
    notes = [f"verdict {tuned.verdict}: {tuned.reason}"]
    deployed = tuned.verdict == DEPLOY or target.ignore_verdict
    if tuned.verdict == NO_OFFLOAD and not deployed:
        return Export(None, target, notes)
    ssd = tuned_ssd(tuned, deployed, target.ssd_path, notes)
    _refuse_needless_path(ssd, target)
    extra: dict[str, Any] = {
        "cpu_bytes_to_use": _tuned_bytes(tuned, deployed, target, notes),
        "block_size": tuned.chunk_tokens,
    }
    if not deployed:
        if ssd is None:
            notes.append("vLLM's own LRU: hotset is not needed for it")
            return _checked(extra, target, notes)
        notes.append("LRU in both tiers, whose sizes are those that were given")
        chosen = _chosen("lru", None, ssd, target)
        return _checked({**extra, **chosen}, target, notes)
    if tuned.engine == "none":
        notes.append("tuned for a plain cache (engine none): no engine's rules applied")
    elif tuned.engine.split(".")[:2] != target.engine.split(".")[:2]:
        notes.append(f"tuned for {tuned.engine}, exported for {target.engine}")
        _refuse_other_counting(tuned, target)
    chosen = _chosen(tuned.policy, tuned.admission, ssd, target)
    return _checked({**extra, **chosen}, target, notes)


def export_translated(old: Translation, target: Target) -> Export:
    """Return what runs a translated configuration.

    Raises
    ------
    PolicyError
        If this vLLM would refuse it; names everything that is wrong.
    """
    extra = dict(old.extra)
    if target.cpu_bytes is not None or "cpu_bytes_to_use" not in extra:
        extra["cpu_bytes_to_use"] = _cpu_bytes(None, target)
    ssd = None if old.ssd is None else {**old.ssd}
    _refuse_needless_path(ssd, target)
    if ssd is not None and target.ssd_path is not None:
        ssd["path"] = target.ssd_path
    chosen = _chosen(old.policy, old.admission, ssd, target)
    return _checked({**extra, **chosen}, target, list(old.notes))


def _refuse_needless_path(ssd: Any, target: Target) -> None:
    if ssd is None and target.ssd_path is not None:
        raise PolicyError("--ssd-path: the file has no SSD tier")


def _tuned_bytes(
    tuned: TunedFile, deployed: bool, target: Target, notes: list[str]
) -> int:
    """Return the size of the CPU tier; where RAM was given up for SSD, what is left."""
    known = tuned.cpu_bytes
    if deployed and tuned.ssd is not None:
        known = tuned.ssd.get("cpu_bytes", known)
    found = _cpu_bytes(known, target)
    if known is not None and found != known:
        notes.append(f"tuned for {known} bytes, exported for {found}")
    return found


def _cpu_bytes(known: int | None, target: Target) -> int:
    found = known if target.cpu_bytes is None else target.cpu_bytes
    if found is None:
        raise PolicyError("--cpu: the size of the CPU tier in bytes is not in the file")
    return found


def _refuse_other_counting(tuned: TunedFile, target: Target) -> None:
    match = _ENGINE.fullmatch(tuned.engine)
    rule = tuned.admission
    is_counted = isinstance(rule, Mapping) and rule.get("name") == "threshold"
    if match is None or not is_counted:
        return
    if (int(match[1]) < _COUNTS_OFFERS) != (target.minor < _COUNTS_OFFERS):
        raise PolicyError(
            f"--engine {target.engine}: the file's threshold was tuned for "
            f"{tuned.engine}: up to vLLM 0.28 a sight counts when a block is looked "
            "up, from 0.30 when it is offered; tune for this engine"
        )


def _chosen(policy: Any, admission: Any, ssd: Any, target: Target) -> dict[str, Any]:
    """Return the keys that choose policy, admission and SSD tier."""
    if target.form == "policy":
        if ssd is not None:
            raise PolicyError(
                "--form policy: an SSD tier needs hotset's spec; use --form spec"
            )
        return _by_name(policy, admission, target)
    hotset = {"policy": policy}
    if admission is not None:
        hotset["admission"] = admission
    if ssd is not None:
        hotset["ssd"] = ssd
    return {
        "spec_name": SPEC_NAME,
        "spec_module_path": SPEC_MODULE,
        "hotset": hotset,
    }


def _by_name(policy: Any, admission: Any, target: Target) -> dict[str, Any]:
    """Return the keys that name a policy in vLLM's own spec.

    Such a policy has its default parameters and cannot refuse a block.
    """
    spec, params = POLICIES.read(policy)
    faults = []
    if target.minor < _HAS_POLICY_NAMES:
        faults.append(
            f"{target.engine} has no registry of cache policies, which came with 0.28"
        )
    if params != spec.params():
        faults.append(
            f"a policy by name has its default parameters, and {spec.label(params)} "
            "has others"
        )
    if spec.refuses(params):
        faults.append(f"{spec.name} refuses blocks, which vLLM's own manager cannot")
    keys: dict[str, Any] = {"eviction_policy": registered_name(spec.name)}
    if admission is not None:
        rule, values = ADMISSIONS.read(admission)
        if rule.name == "threshold":
            keys["store_threshold"] = getattr(values, "min_count", 0)
            keys["max_tracker_size"] = getattr(values, "max_tracker_size", 0)
    if faults:
        raise PolicyError(
            "\n".join(f"--form policy: {fault}; use --form spec" for fault in faults)
        )
    return keys


def _checked(extra: dict[str, Any], target: Target, notes: list[str]) -> Export:
    """Return an export whose keys were read as the server reads them."""
    faults = []
    if "hotset" in extra:
        faults += stock_faults(extra, target.minor >= _HAS_BLOCKS_PER_CHUNK)
        try:
            read_config(extra, {})
        except PolicyError as error:
            faults += str(error).splitlines()
    chunk = extra.get("block_size")
    if isinstance(chunk, int) and chunk % target.block_tokens:
        faults.append(
            f"--block-size {target.block_tokens}: a chunk of {chunk} tokens is no "
            "whole number of GPU blocks, and vLLM refuses that"
        )
    if faults:
        raise PolicyError("\n".join(faults))
    config = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }
    return Export(config, target, notes)
