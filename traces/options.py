"""Options that formats of traces take: names, command-line help, values."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hotset.traces.errors import ArgumentError

_MAX_SEED = 2**63 - 1
_MAX_BLOCK_TOKENS = 2**31 - 1


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
    columns : str or None
        Names of the columns of a generic file: "time=ts,input=prompt_tokens".
    time_unit : str or None
        Unit of a generic file's times: s, ms, us or ns.
    block_tokens : int or None
        Tokens per block, 1 or more.
    chained : bool or None
        Whether each id of a generic file stands for its whole prefix.
    tokenizer : str or None
        The model's tokenizer.json, for formats that hold text.
    synthetic_reuse : str or None
        Model that makes up what prompts share, for formats without block ids.
    no_sort : bool or None
        Whether rows that are earlier than the row before them are errors.
    """

    starts: str | None = _option(
        "When conversations begin, where the format does not tell: exp:30s "
        "(exponential gaps of that mean) or zero.",
        "exp:SECONDSs|zero",
    )
    trace_seed: int | None = _option("Seed of what reading a trace draws, 0 or more.")
    columns: str | None = _option(
        "Columns of a jsonl or csv trace, for example time=ts,input=prompt_tokens,"
        "ids=hashes; of time, input, output, ids, session, type.",
        "NAME=COLUMN,...",
    )
    time_unit: str | None = _option(
        "Unit of the times of a jsonl or csv trace.", "s|ms|us|ns"
    )
    block_tokens: int | None = _option("Tokens per block, where the file has none.")
    chained: bool | None = _option(
        "Each id of a jsonl or csv trace stands for its whole prefix, not for a "
        "block's content alone."
    )
    tokenizer: str | None = _option(
        "tokenizer.json of the model, for traces that hold text.", "FILE"
    )
    synthetic_reuse: str | None = _option(
        "What prompts share in traces of lengths alone: prefix:TOKENS (all begin "
        "alike) or chat:SHARE (so many continue an earlier prompt). Results name it.",
        "MODEL",
    )
    no_sort: bool | None = _option("Rows not in order of time are an error.")

    def __post_init__(self) -> None:
        seed = self.trace_seed
        if seed is not None and not 0 <= seed <= _MAX_SEED:
            raise ArgumentError("trace_seed", seed, f"0..{_MAX_SEED}")
        size = self.block_tokens
        if size is not None and not 1 <= size <= _MAX_BLOCK_TOKENS:
            raise ArgumentError("block_tokens", size, f"1..{_MAX_BLOCK_TOKENS}")

    def given(self) -> Iterator[tuple[str, Any]]:
        """Options that the user stated.

        Yields
        ------
        tuple of (str, value)
            Name and value.
        """
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value is not None and value is not False:
                yield each.name, value
