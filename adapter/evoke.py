"""The configuration of evoke-vllm, read as one of the policy `relevance`.

Its users change the spec's name and keep the key ``"evoke"`` of
``kv_connector_extra_config``, and the environment variables ``EVOKE_...`` that override
it. Without that key the variables alone choose the policy, unless ``"hotset"`` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hotset.policies.base import Params, PolicySpec, known_names
from hotset.policies.errors import PolicyError
from hotset.policies.registry import POLICIES
from hotset.policies.request import SOURCE_TYPES

# As evoke-vllm 0.1.1 has them; a source that is not named has no floor.
_DEFAULT_FLOORS = {"system": 0.6, "user": 0.6, "assistant": 0.5}
_WEIGHTS = ("w_recency", "w_reuse")
_INERT = ("w_attention", "w_coherence")
_NUMBERS = (*_WEIGHTS, *_INERT, "recency_half_life")
_KEYS = (*_NUMBERS, "source_floors")
_FLOOR_VARIABLE = "EVOKE_FLOOR_"


def asks_for_evoke(
    extra_config: Mapping[str, Any], environment: Mapping[str, str]
) -> bool:
    """Return whether a configuration speaks of evoke-vllm's policy."""
    if "evoke" in extra_config:
        return True
    return any(_is_variable(name) for name in environment)


def evoke_policy(
    extra_config: Mapping[str, Any],
    environment: Mapping[str, str],
    faults: list[str],
) -> tuple[PolicySpec, Params] | None:
    """Return the policy that an evoke-vllm configuration asks for.

    Parameters
    ----------
    extra_config : mapping
        ``kv_connector_extra_config``.
    environment : mapping
        Environment variables.
    faults : list of str
        Receives what is wrong, one line each.

    Returns
    -------
    (PolicySpec, Params) or None
        None where something is wrong.
    """
    found = len(faults)
    given = extra_config.get("evoke") or {}
    if not isinstance(given, Mapping):
        faults.append(f'"evoke" is {given!r}: an object is needed')
        return None
    faults += [
        f'"evoke" has no key {key!r}{known_names(str(key), _KEYS)}'
        for key in given
        if key not in _KEYS
    ]
    numbers = _numbers(given, environment, faults)
    floors = _floors(given, environment, faults)
    texts = {name: repr(numbers[name]) for name in _WEIGHTS if name in numbers}
    if "recency_half_life" in numbers:
        # The original takes the whole part, and divides by at least 1.
        half_life = numbers["recency_half_life"]
        if math.isfinite(half_life):
            half_life = max(1.0, float(int(half_life)))
        texts["half_life"] = repr(half_life)
    texts |= {f"floor_{name}": repr(floors.get(name, 0.0)) for name in SOURCE_TYPES}
    if "max_tracker_size" in extra_config:
        texts["tracker_size"] = str(extra_config["max_tracker_size"])
    spec = POLICIES.get("relevance")
    try:
        params = spec.parse(texts)
    except PolicyError as error:
        faults += [f'"evoke": {line}' for line in str(error).splitlines()]
        return None
    return (spec, params) if len(faults) == found else None


def _numbers(
    given: Mapping[str, Any], environment: Mapping[str, str], faults: list[str]
) -> dict[str, float]:
    numbers = {}
    for name in _NUMBERS:
        said, value = f'"evoke": "{name}"', given.get(name)
        variable = f"EVOKE_{name.upper()}"
        if variable in environment:
            said, value = f"the variable {variable}", environment[variable]
        if value is None:
            continue
        number = _number(said, value, faults)
        if name not in _INERT:
            numbers[name] = number
        elif number != 0.0:
            faults.append(
                f"{said} is {value!r}: vLLM's CPU tier has no signal for it, and "
                "evoke-vllm does not use it either; allowed is 0"
            )
    return numbers


def _floors(
    given: Mapping[str, Any], environment: Mapping[str, str], faults: list[str]
) -> dict[str, float]:
    floors = given.get("source_floors")
    floors = _DEFAULT_FLOORS if floors is None else floors
    if not isinstance(floors, Mapping):
        faults.append(f'"evoke": "source_floors" is {floors!r}: an object is needed')
        floors = {}
    said = {name: f'"evoke": "source_floors": {name!r}' for name in floors}
    values = dict(floors)
    for variable, value in environment.items():
        name = variable.removeprefix(_FLOOR_VARIABLE).lower()
        if variable.startswith(_FLOOR_VARIABLE) and name:
            said[name], values[name] = f"the variable {variable}", value
    faults += [
        f"{said[name]}: floors are for {', '.join(SOURCE_TYPES)}"
        for name in values
        if name not in SOURCE_TYPES
    ]
    return {name: _number(said[name], value, faults) for name, value in values.items()}


def _number(said: str, value: Any, faults: list[str]) -> float:
    """Return a number as evoke-vllm reads it, texts included; 0 with a fault."""
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        faults.append(f"{said} is {value!r}: a number is needed")
        return 0.0


def _is_variable(name: str) -> bool:
    known = {f"EVOKE_{number.upper()}" for number in _NUMBERS}
    return name in known or (
        name.startswith(_FLOOR_VARIABLE) and name != _FLOOR_VARIABLE
    )
