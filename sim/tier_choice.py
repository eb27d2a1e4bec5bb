"""How a search may use RAM and SSD: what is split, what is written, and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from hotset.policies.base import AdmissionSpec, Params
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS
from hotset.sim.ssd import MODES, Mode
from hotset.sim.ssd_plan import SsdPlan

LEAST_SHARE = 0.1
MOST_COUNT = 64


@dataclass(frozen=True)
class TierChoice:
    """What a candidate makes of RAM and SSD; the default is what the user gave.

    Parameters
    ----------
    ram_share : float
        Share of the CPU tier that stays; SSD is bought for the rest.
    mode : "write-through" or "demote"
        When chunks are written to the SSD.
    min_count : int
        Requests that name a chunk before it is written.
    """

    ram_share: float = 1.0
    mode: Mode = "write-through"
    min_count: int = 1

    @property
    def label(self) -> str:
        """The text that names it."""
        return f"ssd:mode={self.mode},min_count={self.min_count}," + (
            f"ram_share={self.ram_share:g}"
        )

    @property
    def admission(self) -> tuple[AdmissionSpec, Params]:
        """The SSD's admission rule."""
        if self.min_count < 2:
            return ADMISSIONS.parse("always")
        return ADMISSIONS.parse(f"threshold:min_count={self.min_count}")

    def as_json(self) -> dict[str, Any]:
        """Return the choice as JSON values."""
        return dataclasses.asdict(self)


def tiers_from_json(values: Any) -> TierChoice | None:
    """Return the choice that `TierChoice.as_json` wrote; None for none.

    Raises
    ------
    PolicyError
        If it is nothing of the kind.
    """
    if values is None:
        return None
    fields = {field.name for field in dataclasses.fields(TierChoice)}
    if not isinstance(values, Mapping) or set(values) != fields:
        raise PolicyError(f'"tiers": {", ".join(sorted(fields))} are needed')
    share, mode, count = (values[n] for n in ("ram_share", "mode", "min_count"))
    is_number = isinstance(share, int | float) and isinstance(count, int)
    if not is_number or not 0 < share <= 1 or mode not in MODES or count < 1:
        raise PolicyError(f'"tiers" is {dict(values)!r}: out of range')
    return TierChoice(float(share), cast("Mode", mode), count)


@dataclass(frozen=True)
class TierBudget:
    """What there is to be divided.

    Parameters
    ----------
    ssd : SsdPlan
        The SSD as the user gave it.
    per_ram : float, optional
        Bytes of SSD that a byte of RAM is exchanged for; without it RAM stays.

    Raises
    ------
    PolicyError
        If the rate is out of range.
    """

    ssd: SsdPlan
    per_ram: float | None = None

    def __post_init__(self) -> None:
        if self.per_ram is not None and not 0 < self.per_ram <= 1e6:
            raise PolicyError(
                f"--ssd-per-ram {self.per_ram}: allowed is above 0 to 1,000,000"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of `TierChoice` that are searched."""
        split = () if self.per_ram is None else ("ram_share",)
        return (*split, "mode", "min_count")

    def divide(
        self, choice: TierChoice, cpu_blocks: int, ssd_blocks: int
    ) -> tuple[int, SsdPlan]:
        """Return the blocks of the CPU tier and the SSD tier that a choice makes.

        ``cpu_blocks`` and ``ssd_blocks`` are what the user gave.
        """
        kept = max(int(choice.ram_share * cpu_blocks), 1)
        bought = int((cpu_blocks - kept) * (self.per_ram or 0.0))
        blocks = Fraction(ssd_blocks + bought)
        size = dataclasses.replace(self.ssd.size, amount=blocks, unit="blocks")
        return kept, dataclasses.replace(
            self.ssd, size=size, admission=choice.admission, mode=choice.mode
        )

    def as_json(self) -> dict[str, Any]:
        """Return the budget as JSON values."""
        return {
            "asked": self.ssd.size.text,
            "per_ram": self.per_ram,
            "writes_per_day": self.ssd.as_json()["writes_per_day"],
            "searched": list(self.fields),
        }


def tier_budget(
    size: str | None, per_ram: float | None, writes_per_day: str | None
) -> TierBudget | None:
    """Return the budget that the options of `hotset tune` ask for; None without SSD.

    Raises
    ------
    PolicyError
        If a value is no such thing, or there is no ``--ssd`` beside the others.
    """
    from hotset.sim.ssd_options import ssd_plan

    ssd = ssd_plan(size, None, None, None, writes_per_day, None, None)
    if ssd is None:
        if per_ram is not None:
            raise PolicyError("--ssd-per-ram: there is no SSD tier without --ssd")
        return None
    return TierBudget(ssd, per_ram)
