"""Capacities as users write them: blocks, a share of the trace, or bytes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from hotset.policies.errors import PolicyError

_ALLOWED = "blocks (1638), a share of the distinct blocks (5%) or bytes (64GiB)"
_UNITS = {
    "b": 1,
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", 1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", 1)},
}
_NUMBER = re.compile(
    r"\s*([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})\s*([a-zA-Z%]*)\s*"
)


@dataclass(frozen=True)
class Capacity:
    """A capacity as written, in the one unit that the user chose.

    Parameters
    ----------
    text : str
        As written.
    amount : Fraction
        Blocks, percent or bytes, exactly as written.
    unit : "blocks", "%" or "bytes"
        Which of them.
    option : str
        The option that it was given by, for messages.
    """

    text: str
    amount: Fraction
    unit: str
    option: str = "--capacity"

    def blocks(
        self, distinct_blocks: int, block_tokens: int, kv_bytes_per_token: int | None
    ) -> int:
        """Return whole blocks, at least 1.

        Parameters
        ----------
        distinct_blocks : int
            Distinct blocks of the trace under the tail rule.
        block_tokens : int
            Tokens of a block.
        kv_bytes_per_token : int or None
            KV cache bytes of a token over all ranks; needed for bytes.

        Raises
        ------
        PolicyError
            If it is less than one block, or bytes cannot be turned into blocks.
        """
        if self.unit == "blocks":
            blocks = int(self.amount)
        elif self.unit == "%":
            blocks = math.floor(self.amount * distinct_blocks / 100)
        elif kv_bytes_per_token is None:
            raise PolicyError(
                f"{self.option} {self.text}: bytes need --kv-bytes-per-token or --model"
            )
        else:
            blocks = math.floor(self.amount / (block_tokens * kv_bytes_per_token))
        if blocks < 1:
            raise PolicyError(
                f"{self.option} {self.text}: that is {blocks} blocks, at least 1 is "
                "needed"
            )
        return blocks


def parse_capacity(text: str, option: str = "--capacity") -> Capacity:
    """Read a capacity that was given by an option.

    Raises
    ------
    PolicyError
        If the text is no capacity.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise PolicyError(f"{option} {text}: allowed: {_ALLOWED}")
    amount, unit = Fraction(match[1]), match[2].lower()
    if unit == "%":
        return Capacity(text, amount, "%", option)
    if unit in _UNITS:
        return Capacity(text, amount * _UNITS[unit], "bytes", option)
    if unit or amount.denominator != 1:
        raise PolicyError(f"{option} {text}: allowed: {_ALLOWED}")
    return Capacity(text, amount, "blocks", option)
