"""One request on its way through the engine."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from hotset.policies.request import Request


class Phase(enum.Enum):
    """Where a request is."""

    WAITING = "waiting"
    LOADING = "loading"
    LOADED = "loaded"
    PREFILL = "prefill"
    DECODING = "decoding"
    DONE = "done"


@dataclass(slots=True, eq=False)
class Job:
    """A request between its arrival and its end.

    Parameters
    ----------
    index : int
        Its number in the trace.
    arrival_s : float
        When it came.
    input_tokens, output_tokens : int
        Prompt length; tokens to generate, at least 1.
    blocks : sequence of int
        Full blocks of the prompt as the GPU knows them.
    chunks : sequence of int
        Full chunks of the prompt as the offload tiers know them.
    """

    index: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: Sequence[int]
    chunks: Sequence[int]
    phase: Phase = Phase.WAITING

    # Tokens
    target: int = 0  # tokens to compute before the next one is sampled
    computed: int = 0  # tokens whose KV is on the GPU; while decoding: at its start
    generated: int = 0
    is_begun: bool = False  # whether this prefill has had a chunk

    # GPU blocks
    held: list[int] = field(default_factory=list)
    num_named: int = 0  # leading held blocks that are cached under their keys

    # Offload tier
    policy_request: Request | None = None
    first_load: int = 0  # chunks to load: the first one, and the one behind the last
    last_load: int = 0
    unreported: int = 0  # leading chunks that the engine does not report at the end
    upcoming: int = 0  # first chunk that was not offered yet
    num_writing: int = 0  # store transfers under way
    ssd_request: Request | None = None
    promoted: frozenset[int] | None = None  # chunks that it had read from the SSD
    seen_version: int = -1  # the tier's state at the last look-up that led nowhere

    # Order
    turn: int = 0  # place among running requests, in order of admission
    joined_step: int = 0  # first step of decoding
    epoch: int = 0  # changes when what was planned for it does not hold any more

    # What is reported
    admitted_s: float = -1.0
    first_token_s: float = -1.0
    gpu_tokens: int = 0
    hit_tokens: int = 0
    ssd_tokens: int = 0  # of the hit tokens, those that it had read from the SSD
    num_computed: int = 0  # prompt tokens computed, again after a preemption
    num_preemptions: int = 0
    load_s: float = 0.0

    def __post_init__(self) -> None:
        self.target = self.input_tokens
