"""Seconds of the engine's work: prefill, decoding, and when a load pays.

Prefill of n tokens behind c cached ones costs ``k + a*n + b*(n*n/2 + n*c)``: a start,
the work of each token, and its attention to every token before it. Cut into chunks it
costs the same, since the chunks' attention adds up. A step that decodes costs a start
of its own (the weights are read once for all), a little for each sequence, and the
reading of every token that is attended to. Work of one step is done in turn: times add.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from hotset.policies.errors import PolicyError
from hotset.sim.transfers import LinkSpec

_FAR_TOKENS = 1 << 40


@dataclass(frozen=True)
class CostModel:
    """Seconds of prefill and decoding on one machine with one model.

    Parameters
    ----------
    start_s : float
        k, seconds of a prefill whatever its length.
    token_s : float
        a, seconds of each computed token.
    pair_s : float
        b, seconds of each computed token for each token before it.
    decode_s : float
        Seconds of a step that decodes, whatever the number of sequences.
    sequence_s : float
        Seconds of each sequence in such a step.
    context_s : float
        Seconds of each token that a decoding sequence attends to.

    Raises
    ------
    PolicyError
        If a value is negative or no number.
    """

    start_s: float = 0.0
    token_s: float = 0.0
    pair_s: float = 0.0
    decode_s: float = 0.0
    sequence_s: float = 0.0
    context_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not 0 <= value < math.inf:
                raise PolicyError(f"{name} is {value}: 0 or more seconds are needed")

    def prefill_s(self, computed_tokens: int, cached_tokens: int = 0) -> float:
        """Return the seconds of a prefill behind cached tokens."""
        return self.start_s + self.chunk_s(computed_tokens, cached_tokens)

    def chunk_s(self, computed_tokens: int, cached_tokens: int) -> float:
        """Return the seconds of a further chunk of a prefill."""
        n, c = computed_tokens, cached_tokens
        return self.token_s * n + self.pair_s * (n * n / 2 + n * c)

    def decoding_s(
        self, num_sequences: int, context_tokens: int, num_steps: int = 1
    ) -> float:
        """Return the seconds of steps in which the same sequences decode.

        ``context_tokens`` are attended to in the first one, and one more for each
        sequence in each step after it.
        """
        if num_sequences == 0:
            return 0.0
        grown = num_sequences * (num_steps * (num_steps - 1) / 2)
        return (
            num_steps * (self.decode_s + self.sequence_s * num_sequences)
            + (num_steps * context_tokens + grown) * self.context_s
        )

    def break_even_tokens(
        self, links: list[LinkSpec], kv_bytes_per_token: int
    ) -> int | None:
        """Return the fewest tokens at a prompt's head whose load beats computing them.

        Parameters
        ----------
        links : list of LinkSpec
            Links that the tokens cross, one after the other.
        kv_bytes_per_token : int
            KV cache bytes of a token.

        Returns
        -------
        int or None
            None where no number does.
        """

        def pays(tokens: int) -> bool:
            load_s = sum(link.seconds(tokens * kv_bytes_per_token) for link in links)
            return load_s < self.chunk_s(tokens, 0)

        # Behind the break-even loads pay more and more: attention grows by the square.
        low, high = 0, 1
        while not pays(high):
            low, high = high, 2 * high
            if high > _FAR_TOKENS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if pays(middle) else (middle, high)
        return high
