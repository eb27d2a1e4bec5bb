"""Policies and admission rules as the adapter's configurations name them."""

from __future__ import annotations

from typing import Any

from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES, Registry


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
        return registry.read(value)
    except PolicyError as error:
        faults += [f"{said}: {line}" for line in str(error).splitlines()]
        return None
