"""The ``"hotset"`` key of ``kv_connector_extra_config``: a closed schema.

``policy`` and ``admission`` name a policy and an admission rule, either as the command
line does (``"marconi:decay=0.01"``) or as an object (``{"name": "marconi", "decay":
0.01}``); ``policy_file`` names a file of `hotset tune` instead of both,
which is looked at again every ``watch_s`` seconds (`hotset.adapter.policy_file`).
``trusted_tags`` says whether clients' tenants and ends of sessions count, ``record``
what is recorded (`hotset.adapter.record_config`), ``log_every`` how many requests come
to a line in the log, ``allow_hybrid`` whether vLLM's guard against Mamba layers may be
lifted (`hotset.adapter.hybrid`). The key ``"evoke"`` of evoke-vllm is read as well.
Everything that is wrong with a configuration is said at once.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.adapter.choice import read_admission, read_policy
from hotset.adapter.evoke import asks_for_evoke, evoke_policy
from hotset.adapter.record_config import record_config
from hotset.adapter.recorder import RecordConfig
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.tuned_file import TunedFile, read_tuned
from hotset.policies.base import AdmissionSpec, Params, PolicySpec, known_names
from hotset.policies.choice import Choice
from hotset.policies.errors import PolicyError

_MAX_WATCH_S = 86_400.0
_KEYS = (
    "policy",
    "admission",
    "policy_file",
    "watch_s",
    "trusted_tags",
    "record",
    "log_every",
    "allow_hybrid",
    "ssd",
)


@dataclass(frozen=True)
class AdapterConfig:
    """What the adapter runs.

    Parameters
    ----------
    policy, params : PolicySpec, Params
        The eviction policy; the default is `lru`.
    admission, admission_params : AdmissionSpec, Params
        The admission rule; the default is vLLM's own ``store_threshold`` and
        ``max_tracker_size``, where they are set.
    trusted_tags : bool
        Whether clients' tenants and ends of sessions count.
    record : RecordConfig or None
        What is recorded.
    log_every : int
        Requests to a line in the log; 0 for none.
    allow_hybrid : bool
        Whether vLLM's guard against loads for Mamba layers may be lifted.
    tuned : TunedFile or None
        Where policy and admission come from.
    watch_s : float
        Seconds between two looks at it; 0 for none.
    ssd : SsdConfig or None
        The SSD tier.
    """

    policy: PolicySpec
    params: Params
    admission: AdmissionSpec
    admission_params: Params
    trusted_tags: bool = False
    record: RecordConfig | None = None
    log_every: int = 1000
    allow_hybrid: bool = False
    tuned: TunedFile | None = None
    watch_s: float = 5.0
    ssd: SsdConfig | None = None

    @property
    def choice(self) -> Choice:
        """Policy and admission rule."""
        return Choice(self.policy, self.params, self.admission, self.admission_params)

    def describe(self) -> str:
        """Return the effective configuration on one line."""
        text = self.choice.describe()
        if self.tuned is not None:
            text += f" ({self.tuned.path}: {self.tuned.verdict}: {self.tuned.reason})"
        return text + (f", recorded to {self.record.path}" if self.record else "")


def read_config(
    extra_config: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> AdapterConfig:
    """Read the adapter's part of ``kv_connector_extra_config``.

    Parameters
    ----------
    extra_config : mapping
        The whole of it.
    environment : mapping, optional
        Environment variables, for those of evoke-vllm; default the process's own.

    Raises
    ------
    PolicyError
        Names everything that is wrong, one fault a line.
    """
    given = extra_config.get("hotset", {})
    if not isinstance(given, Mapping):
        raise PolicyError(f'"hotset" is {given!r}: an object is needed')
    faults = [
        f'"hotset" has no key {key!r}' + known_names(str(key), _KEYS)
        for key in given
        if key not in _KEYS
    ]
    faults += _strangers(extra_config)
    if "watch_s" in given and "policy_file" not in given:
        faults.append('"hotset": "watch_s" is for a "policy_file", which is not given')
    tuned = _tuned(given, faults)
    if tuned is not None:
        policy_of_file, admission_of_file = tuned.chosen
        given = {**given, "policy": policy_of_file, "admission": admission_of_file}
    said = '"hotset"' if tuned is None else f'"hotset": "policy_file": {tuned.path}'
    admission = given.get("admission", _stock_threshold(extra_config))
    environment = os.environ if environment is None else environment
    policy = _policy(extra_config, given, environment, said, faults)
    rule = read_admission(admission, f'{said}: "admission"', faults)
    watch_s = given.get("watch_s", AdapterConfig.watch_s)
    if type(watch_s) not in (int, float) or not 0 <= watch_s <= _MAX_WATCH_S:
        faults.append(
            f'"hotset": "watch_s" is {watch_s!r}: seconds are needed, 0 for not at all'
        )
    trusted_tags = _flag(given, "trusted_tags", faults)
    allow_hybrid = _flag(given, "allow_hybrid", faults)
    record = record_config(given.get("record"), faults)
    ssd = None
    if given.get("ssd") is not None:
        ssd = SsdConfig.read(given["ssd"], '"hotset": "ssd"', faults)
    log_every = given.get("log_every", AdapterConfig.log_every)
    if type(log_every) is not int or log_every < 0:
        faults.append(
            f'"hotset": "log_every" is {log_every!r}: a whole number of requests is '
            "needed, 0 for no lines"
        )
    if faults or policy is None or rule is None:
        raise PolicyError("\n".join(faults))
    return AdapterConfig(
        *policy,
        *rule,
        trusted_tags,
        record,
        log_every,
        allow_hybrid,
        tuned,
        float(watch_s),
        ssd,
    )


def _strangers(extra_config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with keys beside ``"hotset"`` that were meant for it."""
    ours = ("hotset", "evoke")
    others = [key for key in map(str, extra_config) if key not in ours]
    faults = [
        f'"{key}" stands beside "hotset" and belongs into it'
        for key in others
        if key in _KEYS
    ]
    faults += [
        f'"{key}" is no key: did you mean "{meant}"?'
        for key in others
        for meant in difflib.get_close_matches(key.lower(), ours, 1, 0.75)
        if key not in _KEYS
    ]
    return faults


def _flag(given: Mapping[str, Any], key: str, faults: list[str]) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        faults.append(f'"hotset": "{key}" is {value!r}: true or false is needed')
    return value is True


def _tuned(given: Mapping[str, Any], faults: list[str]) -> TunedFile | None:
    """Return the tuned file that is asked for, if any."""
    path = given.get("policy_file")
    if path is None:
        return None
    said = '"hotset": "policy_file"'
    faults += [
        f'{said} and "{key}" both choose: leave out one'
        for key in ("policy", "admission")
        if key in given
    ]
    try:
        if not isinstance(path, str) or "\0" in path:
            raise PolicyError(f"{path!r}: a file of hotset tune is needed")
        return read_tuned(path)
    except PolicyError as error:
        faults.append(f"{said}: {error}")
        return None


def _policy(
    extra_config: Mapping[str, Any],
    given: Mapping[str, Any],
    environment: Mapping[str, str],
    said: str,
    faults: list[str],
) -> tuple[PolicySpec, Params] | None:
    if "policy" in given:
        if "evoke" in extra_config:
            faults.append(
                '"evoke" and "hotset": "policy" both choose the policy: leave out one'
            )
        return read_policy(given["policy"], f'{said}: "policy"', faults)
    if asks_for_evoke(extra_config, environment):
        return evoke_policy(extra_config, environment, faults)
    return read_policy("lru", '"hotset": "policy"', faults)


def _stock_threshold(extra_config: Mapping[str, Any]) -> Any:
    try:
        minimum = int(extra_config.get("store_threshold", 0))
        size = int(extra_config.get("max_tracker_size", 64_000))
    except (TypeError, ValueError, OverflowError):
        return "always"  # `stock_faults` says what is wrong
    if minimum < 2:
        return "always"
    return {"name": "threshold", "min_count": minimum, "max_tracker_size": size}
