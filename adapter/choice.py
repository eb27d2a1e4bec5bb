"""What a tier runs: a policy and an admission rule, as configurations name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES, Registry


@dataclass(frozen=True)
class Choice:
    """A policy and an admission rule.

    Parameters
    ----------
    policy, params : PolicySpec, Params
        The eviction policy.
    admission, admission_params : AdmissionSpec, Params
        The admission rule.
    """

    policy: PolicySpec
    params: Params
    admission: AdmissionSpec
    admission_params: Params

    def describe(self) -> str:
        """Return the choice on one line."""
        admission = self.admission.label(self.admission_params)
        return f"policy {self.policy.label(self.params)}, admission {admission}"


def read_policy(
    value: Any, said: str, faults: list[str]
) -> tuple[PolicySpec, Params] | None:
    """Return a policy that can run in a server; None with a fault.

    Parameters
    ----------
    value : object
        A name as on the command line, or an object with a name.
    said : str
        Where it stands, for the message.
    faults : list of str
        Receives what is wrong.
    """
    found = _read(POLICIES, value, said, faults)
    if found is not None and (found[0].offline or found[0].unbounded):
        faults.append(f"{said}: policy {found[0].name} cannot run in a server")
        return None
    return found


def read_admission(
    value: Any, said: str, faults: list[str]
) -> tuple[AdmissionSpec, Params] | None:
    """Return an admission rule; see `read_policy`."""
    return _read(ADMISSIONS, value, said, faults)


def _read(
    registry: Registry[Any], value: Any, said: str, faults: list[str]
) -> tuple[Any, Params] | None:
    try:
        if isinstance(value, str):
            return registry.parse(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), str):
            spec = registry.get(value["name"])
            texts = {k: _as_text(v) for k, v in value.items() if k != "name"}
            return spec, spec.parse(texts)
        raise PolicyError(f"{value!r}: a name or an object with a name is needed")
    except PolicyError as error:
        faults.append(f"{said}: {error}")
        return None


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
