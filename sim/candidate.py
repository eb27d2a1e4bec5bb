"""What a search tries: an eviction policy and an admission rule, with parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.policies.base import known_names
from hotset.policies.choice import Choice
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.tier_choice import TierChoice, tiers_from_json

_KEYS = ("policy", "admission")
_OFFLOADING = "OffloadingConnector"
_VERDICTS = ("deploy", "keep-lru", "offload-does-not-pay")
_STOCK_POLICIES = ("lru", "arc")


@dataclass(frozen=True)
class Candidate(Choice):
    """An eviction policy and an admission rule that a search may try.

    Parameters
    ----------
    tiers : TierChoice, optional
        What it makes of RAM and SSD, where that differs from what the user gave.
    """

    tiers: TierChoice | None = None

    @property
    def label(self) -> str:
        """The text that names both; two candidates with one label are the same."""
        label = self.policy.label(self.params)
        if self.admission.name != "always":
            label += f" + {self.admission.label(self.admission_params)}"
        return label if self.tiers is None else f"{label} + {self.tiers.label}"

    def as_json(self) -> dict[str, Any]:
        """Return all as JSON values, every parameter named."""
        tiers = {} if self.tiers is None else {"tiers": self.tiers.as_json()}
        return {
            "policy": {"name": self.policy.name, **dataclasses.asdict(self.params)},
            "admission": {
                "name": self.admission.name,
                **dataclasses.asdict(self.admission_params),
            },
            **tiers,
        }

    def units(self) -> dict[str, str]:
        """Return the unit of each number that has one, by policy or rule and name."""
        pairs = ((self.policy, self.params), (self.admission, self.admission_params))
        return {
            f"{spec.name}.{field.name}": field.metadata["unit"]
            for spec, params in pairs
            for field in dataclasses.fields(params)
            if field.metadata["unit"]
        }


def candidate(policy: Any, admission: Any = "always") -> Candidate:
    """Return a candidate from the text forms or the JSON objects of its parts.

    Raises
    ------
    PolicyError
        For an unknown name or a bad parameter.
    """
    return Candidate(*POLICIES.read(policy), *ADMISSIONS.read(admission))


def from_json(values: Mapping[str, Any]) -> Candidate:
    """Return a candidate from what `Candidate.as_json` returned."""
    found = candidate(values["policy"], values["admission"])
    return dataclasses.replace(found, tiers=tiers_from_json(values.get("tiers")))


def from_configuration(values: Any, name: str) -> Candidate:
    """Return what a configuration runs.

    Parameters
    ----------
    values : JSON value
        An object with ``policy`` and ``admission``, as `hotset tune` writes it; or
        vLLM's ``--kv-transfer-config`` or its ``kv_connector_extra_config``, with the
        ``hotset`` key or for vLLM's own policies.
    name : str
        Of the file, for messages.

    Raises
    ------
    PolicyError
        If it is nothing of the kind, or names an unknown policy.
    """
    if not isinstance(values, Mapping):
        raise PolicyError(f"{name}: an object is needed")
    extra = values.get("kv_connector_extra_config", values)
    if not isinstance(extra, Mapping):
        raise PolicyError(f'{name}: "kv_connector_extra_config" is no object')
    if "evoke" in extra or "SimpleCPU" in str(values.get("kv_connector", "")):
        raise PolicyError(
            f"{name}: a configuration of another package: hotset export --from {name} "
            "says what it is in hotset's terms"
        )
    for connector in extra.get("connectors") or ():
        if isinstance(connector, Mapping) and _OFFLOADING in connector.values():
            return from_configuration(connector, name)
    if values.get("format") == "hotset-tuned" and not _deploys(values, name):
        return candidate("lru")  # what a server runs with such a file
    try:
        found = _chosen(extra)
    except PolicyError as error:
        raise PolicyError(f"{name}: {error}") from None
    if found is None:
        raise PolicyError(f"{name}: no {' or '.join(_KEYS)} in it")
    return found


def _deploys(values: Mapping[str, Any], name: str) -> bool:
    if values.get("version") != 1 or values.get("verdict") not in _VERDICTS:
        raise PolicyError(f"{name}: a tuned file of another version, or damaged")
    return bool(values["verdict"] == "deploy")


def _chosen(extra: Mapping[str, Any]) -> Candidate | None:
    """Return what a connector's configuration chooses; None if it chooses nothing."""
    own = extra.get("hotset", extra)
    if not isinstance(own, Mapping):
        raise PolicyError('"hotset" is no object')
    if "policy_file" in own:
        raise PolicyError(f"it runs {own['policy_file']}: give that file")
    if "policy" in own:
        found = candidate(own["policy"], own.get("admission", _threshold(extra)))
        return dataclasses.replace(found, tiers=tiers_from_json(own.get("tiers")))
    if "eviction_policy" in extra or "cpu_bytes_to_use" in extra:
        return candidate(_stock_policy(extra), _threshold(extra))
    return None


def _stock_policy(extra: Mapping[str, Any]) -> str:
    wanted = str(extra.get("eviction_policy", "lru"))
    policy = wanted.removeprefix("hotset-")
    if policy == wanted and policy not in _STOCK_POLICIES:
        raise PolicyError(
            f'"eviction_policy" is {wanted!r}{known_names(wanted, _STOCK_POLICIES)}'
        )
    return policy


def _threshold(extra: Mapping[str, Any]) -> Any:
    """Return the admission rule that vLLM's own keys ask for."""
    given = extra.get("store_threshold", 0)
    try:
        minimum = int(given)
    except (TypeError, ValueError, OverflowError):
        raise PolicyError(
            f'"store_threshold" is {given!r}: an integer is needed'
        ) from None
    if minimum < 2:
        return "always"
    size = extra.get("max_tracker_size", 64_000)
    return {"name": "threshold", "min_count": minimum, "max_tracker_size": size}
