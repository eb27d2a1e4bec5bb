"""What a policy is: a name, parameters, a state and kernels.

The contract, which the tests hold every registered policy to:

- `evict` of n gives exactly n slots that are neither pinned nor protected, or
  nothing, and then nothing has changed;
- occupancy never exceeds the capacity;
- within a request, tails age before heads;
- equal inputs give equal victims in every driver and every process: ties break by
  a counter, never by hash order, and there is no clock and no unseeded chance;
- memory of keys that are not resident is bounded;
- no score is ever NaN;
- a policy whose `PolicySpec.refuses` says False stores whatever it is offered: its
  `admit` returns the number of keys it is given, so that callers which cannot leave
  a block out (vLLM's ``eviction_policy``) may use it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hotset.policies.errors import PolicyError

AgeUnit = Literal["request", "key", "second"]


def param(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
    log: bool = False,
    unit: str = "",
    tuned: bool = True,
) -> Any:
    """Declare a parameter of a policy.

    Parameters
    ----------
    default : bool, int, float or str
        Its type is the parameter's type.
    doc : str
        One line for the user.
    low, high : float, optional
        Allowed range of a number, ends included.
    choices : tuple of str, optional
        Allowed words.
    log : bool
        Whether a search should step through the range in logarithms.
    unit : str
        Unit of a number.
    tuned : bool
        Whether a search may change it.
    """
    metadata = {
        "doc": doc,
        "low": low,
        "high": high,
        "choices": choices,
        "log": log,
        "unit": unit,
        "tuned": tuned,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Params:
    """Base of all parameter sets; fields are declared with `param`."""

    def __post_init__(self) -> None:
        """Check every value against its declaration.

        Raises
        ------
        PolicyError
            If a value has the wrong type or lies outside its range.
        """
        for field in dataclasses.fields(self):
            check_value(field, getattr(self, field.name))


def check_value(field: dataclasses.Field[Any], value: Any) -> None:
    """Raise PolicyError unless a value fits its declaration."""
    kind: type = type(field.default)
    got = f"{field.name}={value!r}"
    if kind is str:
        choices = field.metadata["choices"]
        if choices is not None and value not in choices:
            raise PolicyError(f"{got}: allowed are {', '.join(choices)}")
        return
    if kind is bool:
        if not isinstance(value, bool):
            raise PolicyError(f"{got}: allowed are true and false")
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PolicyError(f"{got}: a number is needed")
    if kind is int and not isinstance(value, int):
        raise PolicyError(f"{got}: a whole number is needed")
    low, high = field.metadata["low"], field.metadata["high"]
    fits = math.isfinite(value)
    fits = fits and (low is None or value >= low) and (high is None or value <= high)
    if not fits:
        raise PolicyError(f"{got}: allowed is {_range(low, high)}")


def _range(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any finite number"
    if high is None:
        return f"{low:g} or more"
    if low is None:
        return f"{high:g} or less"
    return f"{low:g} to {high:g}"


def parse_value(field: dataclasses.Field[Any], text: str) -> Any:
    """Read a parameter's value from text.

    Raises
    ------
    PolicyError
        If the text is no value of the parameter's type.
    """
    kind: type = type(field.default)
    if kind is str:
        return text
    if kind is bool:
        words = {"true": True, "false": False}
        if text.lower() not in words:
            raise PolicyError(f"{field.name}={text}: allowed are true and false")
        return words[text.lower()]
    try:
        if kind is int:
            return int(text)
        return float(text)
    except ValueError:
        word = "whole number" if kind is int else "number"
        raise PolicyError(f"{field.name}={text}: a {word} is needed") from None


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Spec:
    """What eviction and admission policies have in common.

    Parameters
    ----------
    name : str
        Registry name, lower case.
    summary : str
        One line for the user.
    params : type of Params
        The parameter set.
    make : callable
        Builds the state.
    """

    kind: ClassVar[str]
    name: str
    summary: str
    params: type[Params]
    make: Callable[..., Any]

    def label(self, params: Params) -> str:
        """Return the text that names this with its parameters, defaults left out."""
        changed = [
            f"{field.name}={_as_text(getattr(params, field.name))}"
            for field in dataclasses.fields(params)
            if getattr(params, field.name) != field.default
        ]
        return self.name + (":" + ",".join(changed) if changed else "")

    def parse(self, assignments: Mapping[str, str]) -> Params:
        """Build the parameters from ``key=value`` texts.

        Raises
        ------
        PolicyError
            For unknown keys (with the nearest names) and bad values, a line each.
        """
        fields = {field.name: field for field in dataclasses.fields(self.params)}
        values: dict[str, Any] = {}
        faults = []
        for key, text in assignments.items():
            if key not in fields:
                faults.append(
                    f"{self.kind} {self.name} has no parameter {key!r}"
                    + known_names(key, fields)
                )
                continue
            try:
                values[key] = parse_value(fields[key], text)
                check_value(fields[key], values[key])
            except PolicyError as error:
                faults.append(f"{self.kind} {self.name}: {error}")
        if faults:
            raise PolicyError("\n".join(faults))
        return self.params(**values)


def _never(params: Any) -> bool:
    return False


@dataclass(frozen=True)
class PolicySpec(Spec):
    """An eviction policy.

    ``make(params, capacity, next_use)`` builds the state for ``capacity`` slots;
    ``next_use`` (int64[A]: by access, the request that next uses the block) is given
    to offline policies only.

    Parameters
    ----------
    age_unit : "request", "key" or "second"
        Unit of the clock that drivers pass as ``now``.
    offline : bool
        Whether the policy needs the future and so cannot run in a server.
    unbounded : bool
        Whether the capacity is ignored: nothing is ever evicted.
    refuses : callable
        Given the parameters, whether ``admit`` may leave out blocks; never, if it is
        not given.
    """

    kind: ClassVar[str] = "policy"
    age_unit: AgeUnit = "request"
    offline: bool = False
    unbounded: bool = False
    refuses: Callable[[Any], bool] = _never

    def check_online(self) -> None:
        """Raise PolicyError where the policy cannot run in a server."""
        if self.offline or self.unbounded:
            raise PolicyError(f"policy {self.name} cannot run in a server")


@dataclass(frozen=True)
class AdmissionSpec(Spec):
    """A rule that says which missing blocks are worth storing.

    ``make(params)`` builds the state.
    """

    kind: ClassVar[str] = "admission"


def known_names(name: str, known: Iterable[str]) -> str:
    """Say the nearest known name, or list them all."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return "; it has none"
    return f"; known: {', '.join(names)}"
