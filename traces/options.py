"""Options that formats of traces take: names, command-line help, values."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hotset.traces.errors import ArgumentError

_MAX_SEED = 2**63 - 1


def _option(help: str, metavar: str | None = None) -> Any:
    return field(default=None, metadata={"help": help, "metavar": metavar})


@dataclass(frozen=True)
class ReadOptions:
    """What a user may say about a trace that its file does not; None: not said.

    Each format takes some of these and refuses the others. The command line has
    an option of the same name for each.

    Attributes
    ----------
    starts : str or None
        When conversations begin in a format that does not tell: "exp:30s"
        (exponential gaps of that mean, drawn with `trace_seed`) or "zero".
    trace_seed : int or None
        Seed of what reading draws, 0 or more.
    """

    starts: str | None = _option(
        "When conversations begin, where the format does not tell: exp:30s "
        "(exponential gaps of that mean) or zero.",
        "exp:SECONDSs|zero",
    )
    trace_seed: int | None = _option("Seed of what reading a trace draws, 0 or more.")

    def __post_init__(self) -> None:
        seed = self.trace_seed
        if seed is not None and not 0 <= seed <= _MAX_SEED:
            raise ArgumentError("trace_seed", seed, f"0..{_MAX_SEED}")

    def given(self) -> Iterator[tuple[str, Any]]:
        """Options that the user stated.

        Yields
        ------
        tuple of (str, value)
            Name and value.
        """
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None:
                yield each.name, value
