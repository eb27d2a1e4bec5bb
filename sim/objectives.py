"""What a search can maximise or minimise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hotset.policies.base import known_names
from hotset.policies.errors import PolicyError


@dataclass(frozen=True)
class Objective:
    """One figure of a run.

    Parameters
    ----------
    name : str
        As the user writes it.
    unit : str
        Its unit, "" for a ratio.
    definition : str
        One line.
    is_gain : bool
        Whether more is better.
    needs_time : bool
        Whether it takes a simulation in time.
    """

    name: str
    unit: str
    definition: str
    is_gain: bool
    needs_time: bool

    @property
    def title(self) -> str:
        """What tables and pictures call it, with its unit."""
        words = self.name.replace("_", " ")
        return f"{words.removesuffix(' s')}, s" if self.unit == "s" else words

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """What Optuna calls it."""
        return "maximize" if self.is_gain else "minimize"


OBJECTIVES = {
    each.name: each
    for each in (
        Objective(
            "token_hit_ratio",
            "",
            "tokens in hit blocks / all input tokens",
            is_gain=True,
            needs_time=False,
        ),
        Objective(
            "stored_bytes",
            "bytes",
            "bytes written to the CPU tier",
            is_gain=False,
            needs_time=False,
        ),
        Objective(
            "ssd_bytes_per_day",
            "bytes/day",
            "bytes written to the SSD over the seconds simulated, times 86,400",
            is_gain=False,
            needs_time=True,
        ),
        Objective(
            "saved_prefill_s",
            "s",
            "engine seconds that computing the hit tokens would have taken",
            is_gain=True,
            needs_time=True,
        ),
        Objective(
            "ttft_p95_s",
            "s",
            "95th percentile of the time to the first token",
            is_gain=False,
            needs_time=True,
        ),
    )
}


def figure(name: str, value: float) -> str:
    """Return an objective's value as tables show it."""
    if name == "token_hit_ratio":
        return f"{100 * value:.2f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def gain_unit(name: str) -> str:
    """Return what a gain in this objective is in, times 100: points, or a share."""
    units = {
        "token_hit_ratio": "points",
        "saved_prefill_s": "% of the prefill time",
        "ttft_p95_s": "% of the p95 TTFT",
    }
    return units.get(name, "%")


_NO_FIRST = ("stored_bytes", "ssd_bytes_per_day")


def parse_objectives(names: Sequence[str]) -> list[Objective]:
    """Return objectives by name, the one that the verdict is about first.

    Raises
    ------
    PolicyError
        If one is unknown or given twice, or the first is to store little.
    """
    if not names:
        raise PolicyError("--objective: names none")
    for name in names:
        if name not in OBJECTIVES:
            raise PolicyError(
                f"--objective {name}: unknown{known_names(name, OBJECTIVES)}"
            )
    if len(set(names)) < len(names):
        raise PolicyError("--objective: one is given twice")
    if names[0] in _NO_FIRST:
        raise PolicyError(
            f"--objective {names[0]}: storing nothing is best for it; name another "
            "objective before it"
        )
    return [OBJECTIVES[name] for name in names]
