"""The space that a search goes through, read from the registry of policies.

A trial chooses a policy, then values of that policy's parameters, then an admission
rule and its parameters. Ranges over two orders of magnitude are searched by their
logarithm; where such a range begins at 0, whether a value is 0 is a choice of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hotset.policies.admission import ALWAYS, ThresholdParams
from hotset.policies.arc import ArcParams
from hotset.policies.base import AdmissionSpec, Params, PolicySpec, Spec
from hotset.policies.lru import LruParams
from hotset.sim.candidate import Candidate
from hotset.sim.search import least_logarithm, tuned_fields
from hotset.sim.ssd import MODES
from hotset.sim.tier_choice import LEAST_SHARE, MOST_COUNT, TierChoice

_EDGE = 0.01  # of a range that is searched evenly: as good as its end


class Chooser(Protocol):
    """What a trial of Optuna offers."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Choose one of several."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Choose a whole number."""

    def suggest_float(
        self, name: str, low: float, high: float, *, log: bool = False
    ) -> float:
        """Choose a number."""


@dataclass(frozen=True)
class Dimension:
    """One parameter of a policy or rule as it is searched.

    Parameters
    ----------
    name : str
        Policy or rule, and parameter.
    field : str
        The parameter alone.
    default : bool, int, float or str
        Its type is the parameter's.
    choices : tuple
        Of a word or a flag.
    low, high : float
        Of a number, ends included.
    least : float or None
        Where the logarithms of the range begin; None where it is searched evenly.
    is_capped : bool
        Whether more than ``high`` would change nothing.
    """

    name: str
    field: str
    default: Any
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    least: float | None = None
    is_capped: bool = False

    def choose(self, trial: Chooser) -> Any:
        """Let a trial choose a value."""
        if self.choices:
            return trial.suggest_categorical(self.name, list(self.choices))
        is_int, is_log = isinstance(self.default, int), self.least is not None
        may_be_0 = is_log and self.low == 0
        if may_be_0 and trial.suggest_categorical(f"{self.name} is 0", [False, True]):
            return 0 if is_int else 0.0
        bottom = self.low if self.least is None else self.least
        if is_int:
            return trial.suggest_int(self.name, int(bottom), int(self.high), log=is_log)
        found = trial.suggest_float(
            self.name, float(bottom), float(self.high), log=is_log
        )
        return self._rounded(found)

    def moves(self, value: Any) -> list[Any]:
        """Return values beside a value, see `Space.neighbours`."""
        if self.choices:
            return [choice for choice in self.choices if choice != value]
        if self.least is None:
            step = (self.high - self.low) / 10
            moved = [value - step, value + step]
        else:
            moved = [value / 2, max(value * 2, self.least)]
        kept = dict.fromkeys(map(self._rounded, moved))
        return [each for each in kept if each != value]

    def is_at_end(self, value: Any) -> bool:
        """Return whether a number was moved to an end of its range.

        A default at an end means that something is off, which is no narrow range.
        """
        if self.choices or value == self.default:
            return False
        edge = 0.0 if self.least is not None else _EDGE * (self.high - self.low)
        is_at_top = not self.is_capped and value >= self.high - edge
        return bool(value <= self.low + edge or is_at_top)

    def _rounded(self, value: float) -> Any:
        """Return an allowed value of three digits: enough for a file to be read."""
        kept = min(max(value, self.low), self.high)
        if isinstance(self.default, int):
            return round(kept)
        return min(max(float(f"{kept:.3g}"), float(self.low)), float(self.high))


_TIERS = "ssd"
_TIER_DIMENSIONS = {
    "ram_share": Dimension(
        f"{_TIERS}.ram_share", "ram_share", 1.0, (), LEAST_SHARE, 1.0
    ),
    "mode": Dimension(f"{_TIERS}.mode", "mode", MODES[0], MODES),
    "min_count": Dimension(f"{_TIERS}.min_count", "min_count", 1, (), 1, MOST_COUNT, 1),
}


@dataclass(frozen=True)
class Space:
    """Policies and admission rules that a search may combine.

    Parameters
    ----------
    policies : sequence of PolicySpec
        At least one.
    admissions : sequence of AdmissionSpec
        At least one.
    most_keys : int, optional
        Distinct blocks of the trace: a larger tracker of sights remembers no more.
    tier_fields : tuple of str
        Fields of `TierChoice` that are searched.
    """

    policies: Sequence[PolicySpec]
    admissions: Sequence[AdmissionSpec]
    most_keys: int | None = None
    tier_fields: tuple[str, ...] = ()

    def choose(self, trial: Chooser) -> Candidate:
        """Let a trial choose."""
        policy, params = self._choose_spec(trial, "policy", self.policies)
        rule, rule_params = self._choose_spec(trial, "admission", self.admissions)
        if isinstance(rule_params, ThresholdParams) and rule_params.min_count < 2:
            # One sight is no threshold, whatever else was chosen.
            rule_params = ThresholdParams(min_count=1)
        served = _as_served(params, rule.name)
        tiers = {each.field: each.choose(trial) for each in self._tier_dimensions()}
        return Candidate(policy, served, rule, rule_params, _tiers(tiers))

    def values_of(self, candidate: Candidate) -> dict[str, Any] | None:
        """Return what a trial has to choose to get a candidate; None outside it."""
        is_known = candidate.policy in self.policies
        if not is_known or candidate.admission not in self.admissions:
            return None
        values = {
            "policy": candidate.policy.name,
            "admission": candidate.admission.name,
        }
        for dimension, value in self._values(candidate):
            values[dimension.name] = value
            values[f"{dimension.name} is 0"] = value == 0
        recorder = _Recorder(values)
        served = dataclasses.replace(
            candidate, params=_as_served(candidate.params, candidate.admission.name)
        )
        return recorder.chosen if self.choose(recorder) == served else None

    def digest(self) -> str:
        """Return a digest of all that may be chosen."""
        told = [
            [spec.kind, spec.name, *map(dataclasses.astuple, self.dimensions(spec))]
            for spec in (*self.policies, *self.admissions)
        ]
        if self.tier_fields:
            told.append([*map(dataclasses.astuple, self._tier_dimensions())])
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def dimensions(self, spec: Spec) -> list[Dimension]:
        """Return what is searched of a policy or rule."""
        return [
            _dimension(f"{spec.name}.{field.name}", field, self.most_keys)
            for field in tuned_fields(spec)
        ]

    def neighbours(self, candidate: Candidate) -> Iterator[tuple[str, Any, Candidate]]:
        """Yield candidates that differ in one parameter, with its name and value.

        A number moves down and up by a factor of 2 where its range is searched by the
        logarithm, otherwise by a tenth of its range; of a choice every other is taken.
        """
        for dimension, value in self._values(candidate):
            owner = dimension.name.partition(".")[0]
            if owner == _TIERS:
                for moved in dimension.moves(value):
                    kept = dataclasses.asdict(candidate.tiers or TierChoice())
                    tiers = _tiers({**kept, dimension.field: moved})
                    other = dataclasses.replace(candidate, tiers=tiers)
                    yield dimension.name, moved, other
                continue
            part = "params" if owner == candidate.policy.name else "admission_params"
            for moved in dimension.moves(value):
                params = dataclasses.replace(
                    getattr(candidate, part), **{dimension.field: moved}
                )
                yield (
                    dimension.name,
                    moved,
                    dataclasses.replace(candidate, **{part: params}),
                )

    def at_bounds(self, candidate: Candidate) -> list[str]:
        """Return the parameters whose value lies at an end of its range, as text."""
        return [
            f"{dimension.name}={value:g} of {dimension.low:g} to {dimension.high:g}"
            for dimension, value in self._values(candidate)
            if dimension.is_at_end(value)
        ]

    def _values(self, candidate: Candidate) -> list[tuple[Dimension, Any]]:
        pairs: list[tuple[Spec, Params]] = [
            (candidate.policy, candidate.params),
            (candidate.admission, candidate.admission_params),
        ]
        found = [
            (dimension, getattr(params, dimension.field))
            for spec, params in pairs
            for dimension in self.dimensions(spec)
        ]
        tiers = candidate.tiers or TierChoice()
        return found + [
            (dimension, getattr(tiers, dimension.field))
            for dimension in self._tier_dimensions()
        ]

    def _tier_dimensions(self) -> list[Dimension]:
        return [_TIER_DIMENSIONS[name] for name in self.tier_fields]

    def _choose_spec(
        self, trial: Chooser, kind: str, specs: Sequence[Any]
    ) -> tuple[Any, Params]:
        by_name = {spec.name: spec for spec in specs}
        spec = by_name[trial.suggest_categorical(kind, list(by_name))]
        values = {each.field: each.choose(trial) for each in self.dimensions(spec)}
        return spec, spec.params(**values)


def _as_served(params: Params, admission: str) -> Params:
    """Return parameters with the order that hotset's spec runs.

    Under an engine ``auto`` is the order of vLLM's own LRU and ARC, which only plain
    LRU, what a server has without us, is to be.
    """
    if isinstance(params, ArcParams) and params.order == "auto":
        return dataclasses.replace(params, order="paper")
    if not isinstance(params, LruParams) or params.order != "auto":
        return params
    if admission == ALWAYS.name:
        return params
    return dataclasses.replace(params, order="tail-first")


def _dimension(
    name: str, field: dataclasses.Field[Any], most_keys: int | None
) -> Dimension:
    if isinstance(field.default, bool):
        return Dimension(name, field.name, field.default, (False, True))
    if isinstance(field.default, str):
        return Dimension(name, field.name, field.default, field.metadata["choices"])
    low, high = field.metadata["low"], field.metadata["high"]
    is_capped = field.name == "max_tracker_size" and most_keys is not None
    if is_capped:
        high = max(min(high, most_keys or low), low)
    least = least_logarithm(field, low, high)
    return Dimension(name, field.name, field.default, (), low, high, least, is_capped)


def _tiers(values: dict[str, Any]) -> TierChoice | None:
    """Return a choice, None where it is what the user gave."""
    found = TierChoice(**values)
    return None if found == TierChoice() else found


class _Recorder:
    """A chooser that chooses given values, as far as it may, and notes them."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.chosen: dict[str, Any] = {}
        self._values = values

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.chosen[name] = self._values[name]
        return self.chosen[name]

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        self.chosen[name] = min(max(self._values[name], low), high)
        return int(self.chosen[name])

    def suggest_float(
        self, name: str, low: float, high: float, *, log: bool = False
    ) -> float:
        self.chosen[name] = min(max(self._values[name], low), high)
        return float(self.chosen[name])
