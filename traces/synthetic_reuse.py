"""Made-up reuse for traces that only have lengths.

Nothing here is measured: a hit ratio over such a trace is a property of the
model, and every result names it.
"""

import re
from array import array
from dataclasses import dataclass

import numpy as np

from hotset.traces.errors import ArgumentError
from hotset.traces.options import ReadOptions

DEFAULT_BLOCK_TOKENS = 16

_ALLOWED = "prefix:TOKENS, or chat:SHARE with a share in 0..1"
_PREFIX = re.compile(r"prefix:(\d{1,9})")
_CHAT = re.compile(r"chat:(\d(?:\.\d{1,9})?)")
_LIVE_CHATS = 1024


@dataclass(frozen=True)
class ReuseModel:
    """What prompts share.

    Attributes
    ----------
    text : str
        As the user states it.
    prefix_tokens : int
        Tokens that all prompts begin with, as far as they are that long.
    chat_share : float
        Share of requests that continue an earlier prompt and its answer.
    seed : int
        Of the draws.
    block_tokens : int
        Tokens per block.
    """

    text: str
    prefix_tokens: int
    chat_share: float
    seed: int
    block_tokens: int

    def ids(
        self, input_tokens: "array[int]", output_tokens: "array[int]"
    ) -> list["array[int]"]:
        """Ids of the full blocks of each request.

        A request that continues a chat takes one of the last 1,024 prompts, at
        random, that it is long enough to contain; the rest of its blocks are new.

        Parameters
        ----------
        input_tokens, output_tokens : array of int64
            Lengths of the requests, in order of time.

        Returns
        -------
        list of array of int64
            By request.
        """
        rng = np.random.default_rng(self.seed)
        shared = array("q", range(self.prefix_tokens // self.block_tokens))
        fresh = len(shared)
        live: list[array[int]] = []
        every = []
        for at, (tokens, answer) in enumerate(
            zip(input_tokens, output_tokens, strict=True)
        ):
            full = tokens // self.block_tokens
            ids = shared[:full]
            if live and self.chat_share and rng.random() < self.chat_share:
                earlier = live[int(rng.integers(len(live)))]
                if len(earlier) <= full:
                    ids = earlier[:]
            ids.extend(range(fresh, fresh + full - len(ids)))
            fresh += full
            every.append(ids)
            # The blocks that the answer fills become part of the next prompt.
            grown = (tokens + answer) // self.block_tokens - full
            kept = ids + array("q", range(fresh, fresh + grown))
            fresh += grown
            if len(live) < _LIVE_CHATS:
                live.append(kept)
            else:
                live[at % _LIVE_CHATS] = kept
        return every

    def used(self) -> tuple[tuple[str, str | int], ...]:
        """Return the options as used, for the provenance."""
        return (
            ("synthetic_reuse", self.text),
            ("trace_seed", self.seed),
            ("block_tokens", self.block_tokens),
        )


def reuse_model(options: ReadOptions) -> ReuseModel | None:
    """Model of the option `synthetic_reuse`.

    Parameters
    ----------
    options : ReadOptions
        `synthetic_reuse`, `trace_seed` (0 if absent), `block_tokens` (16 if absent).

    Returns
    -------
    ReuseModel or None
        None if no model is asked for.

    Raises
    ------
    ArgumentError
        If it is unknown, or an option is given that nothing uses.
    """
    text = options.synthetic_reuse
    seed, block_tokens = options.trace_seed, options.block_tokens
    if text is None:
        for name, value in (("trace_seed", seed), ("block_tokens", block_tokens)):
            if value is not None:
                raise ArgumentError(name, value, "only with synthetic_reuse here")
        return None
    prefix, chat = _PREFIX.fullmatch(text), _CHAT.fullmatch(text)
    share = float(chat[1]) if chat else 0.0
    if (prefix is None and chat is None) or share > 1:
        raise ArgumentError("synthetic_reuse", text, _ALLOWED)
    return ReuseModel(
        text=text,
        prefix_tokens=int(prefix[1]) if prefix else 0,
        chat_share=share,
        seed=seed or 0,
        block_tokens=block_tokens or DEFAULT_BLOCK_TOKENS,
    )
