"""Policies and admission rules by name, and the text form that names one.

The text form is ``NAME`` or ``NAME:key=value,key=value``; for an admission
rule ``NAME:value`` sets its first parameter (``threshold:2``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from hotset.policies.base import AdmissionSpec, Params, PolicySpec, Spec, known_names
from hotset.policies.errors import PolicyError

S = TypeVar("S", bound=Spec)


class Registry(Generic[S]):
    """Specs of one kind by name.

    Parameters
    ----------
    kind : str
        What the specs are, for messages.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._specs: dict[str, S] = {}

    def add(self, spec: S) -> None:
        """Add a spec.

        Raises
        ------
        ValueError
            If the name is taken.
        """
        if spec.name in self._specs:
            raise ValueError(f"{self._kind} {spec.name!r} is registered already")
        self._specs[spec.name] = spec

    def names(self) -> list[str]:
        """Return all names in order of registration."""
        return list(self._specs)

    def get(self, name: str) -> S:
        """Return a spec by name.

        Raises
        ------
        PolicyError
            If the name is unknown; says the nearest one.
        """
        if name not in self._specs:
            raise PolicyError(
                f"unknown {self._kind} {name[:80]!r}"
                + known_names(name.lower(), self._specs)
            )
        return self._specs[name]

    def parse(self, text: str) -> tuple[S, Params]:
        """Read ``NAME[:key=value,...]``.

        Raises
        ------
        PolicyError
            For an unknown name or parameter, a value out of range, or a form that
            is none of the above.
        """
        name, colon, rest = text.partition(":")
        spec = self.get(name.strip())
        assignments: dict[str, str] = {}
        for part in rest.split(",") if colon else []:
            key, equals, value = part.partition("=")
            if not equals:
                if assignments or not isinstance(spec, AdmissionSpec) or not part:
                    raise PolicyError(f"{text[:80]!r}: {part[:80]!r} is not key=value")
                key, value = _main_parameter(spec, text), part
            key = key.strip()
            if key in assignments:
                raise PolicyError(f"{text!r}: {key} is given twice")
            assignments[key] = value.strip()
        return spec, spec.parse(assignments)

    def read(self, value: Any) -> tuple[S, Params]:
        """Read a JSON value: the text form, or an object with a name.

        Raises
        ------
        PolicyError
            As `parse`, and for any other value.
        """
        if isinstance(value, str):
            return self.parse(value)
        if isinstance(value, Mapping) and isinstance(value.get("name"), str):
            spec = self.get(value["name"])
            texts = {k: _as_text(v) for k, v in value.items() if k != "name"}
            return spec, spec.parse(texts)
        raise PolicyError(f"{value!r}: a name or an object with a name is needed")


def _main_parameter(spec: Spec, text: str) -> str:
    fields = dataclasses.fields(spec.params)
    if not fields:
        raise PolicyError(f"{text!r}: {spec.kind} {spec.name} has no parameters")
    return fields[0].name


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


POLICIES: Registry[PolicySpec] = Registry("policy")
ADMISSIONS: Registry[AdmissionSpec] = Registry("admission")
