"""Whether a deployed file still gains what it promised, on traffic that is new."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.sim.bootstrap import Gain

WITHIN, BELOW, ABOVE = "within", "below", "above"


@dataclass(frozen=True)
class Promise:
    """The gain over LRU that a tuned file gives its reader to expect.

    Parameters
    ----------
    objective : str
        In which objective.
    gain : Gain
        As it was on the file's holdout.
    size : (str, int), optional
        The tier for which it was promised: what was asked for, and its blocks.
    engine : (str, int, int), optional
        The engine, the tokens of its chunks and the blocks of its GPU cache.
    """

    objective: str
    gain: Gain
    size: tuple[str, int] | None = None
    engine: tuple[str, int, int] | None = None

    def holds_for(self, size: tuple[str, int], engine: tuple[str, int, int]) -> bool:
        """Return whether it was made for such a tier."""
        if self.size is None:
            return True
        is_as_large = any(a == b for a, b in zip(self.size, size, strict=True))
        return is_as_large and self.engine == engine


@dataclass(frozen=True)
class Drift:
    """A promise beside what is found now.

    Parameters
    ----------
    promised : Gain
        The promise.
    found : Gain
        The gain of the same configuration over LRU on the holdout of the new trace.
    """

    promised: Gain
    found: Gain

    @property
    def outcome(self) -> str:
        """Where what is found lies: `WITHIN` the promised bounds, or outside them."""
        if self.found.value < self.promised.lower:
            return BELOW
        return ABOVE if self.found.value > self.promised.upper else WITHIN

    @property
    def text(self) -> str:
        """One sentence."""
        found, promised = self.found, self.promised
        return (
            f"the deployed file gains {100 * found.value:.2f} "
            f"({100 * found.lower:.2f} to {100 * found.upper:.2f}) over lru, "
            f"{self.outcome} the {100 * promised.lower:.2f} to "
            f"{100 * promised.upper:.2f} that it promised"
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "outcome": self.outcome,
            "promised": [self.promised.lower, self.promised.upper],
            "found": self.found.value,
            "found_bounds": [self.found.lower, self.found.upper],
        }


def promise_of(values: Any) -> Promise | None:
    """Return what a tuned file promises; None for other files, or if it is LRU."""
    if not isinstance(values, Mapping) or values.get("format") != "hotset-tuned":
        return None
    if values.get("verdict") != "deploy":
        return None
    try:
        evidence = values["evidence"]
        best = next(row for row in evidence["holdout"] if row["role"] == "best")
        gain = best["gain"]
        if gain is None:
            return None
        engine = values["engine"]
        bounds = [float(gain[name]) for name in ("value", "lower", "upper")]
        if not all(map(math.isfinite, bounds)):
            return None
        return Promise(
            str(evidence["objective"]),
            Gain(*bounds),
            (str(values["cpu"]["asked"]), int(values["cpu"]["blocks"])),
            (
                str(engine["name"]),
                int(engine["chunk_tokens"]),
                int(engine["gpu_blocks"]),
            ),
        )
    except (KeyError, TypeError, ValueError, StopIteration):
        return None
