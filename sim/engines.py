"""What each engine version does to a CPU tier, as far as it needs no clock.

The rules name facts about vLLM's offloading: what is looked up, offered and touched,
when a sight counts, and what happens to an offer that does not fit. ``none`` is a plain
cache in front of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from hotset.policies.base import known_names
from hotset.policies.errors import PolicyError


@dataclass(frozen=True)
class EngineRules:
    """The rules of one engine.

    Parameters
    ----------
    name : str
        As the user writes it.
    lru_order, arc_order : str
        The `order` of this engine's own LRU and of its own ARC.
    count : "lookup" or "offer"
        When a sight counts for the admission threshold.
    whole_offers : bool
        Whether an offer is stored whole or refused; otherwise its longest fitting
        prefix is stored.
    reports_all : bool
        Whether the engine reports every block of a request as used, after each look-up
        and each store; otherwise only blocks that it loads and offers.
    offers_at_end : bool
        Whether what was refused is offered once more in the step behind a request's
        last one.
    """

    name: str
    lru_order: str
    arc_order: str
    count: str
    whole_offers: bool
    reports_all: bool
    offers_at_end: bool

    @property
    def is_none(self) -> bool:
        """Whether there is no engine."""
        return self.name == "none"


ENGINES = {
    rules.name: rules
    for rules in (
        EngineRules("none", "tail-first", "paper", "offer", False, True, False),
        EngineRules("vllm-0.24", "vllm-0.24", "vllm-0.24", "lookup", True, True, False),
        EngineRules("vllm-0.28", "vllm-0.24", "vllm-0.24", "lookup", True, True, True),
        EngineRules("vllm-0.30", "vllm-0.24", "vllm-0.30", "offer", True, True, True),
        EngineRules("vllm-0.32", "vllm-0.32", "vllm-0.32", "offer", True, False, True),
        EngineRules("vllm-0.33", "vllm-0.33", "vllm-0.33", "offer", True, False, True),
    )
}


def engine(name: str) -> EngineRules:
    """Return the rules of an engine.

    Raises
    ------
    PolicyError
        If the name is unknown.
    """
    if name not in ENGINES:
        raise PolicyError(f"unknown engine {name!r}" + known_names(name, ENGINES))
    return ENGINES[name]
