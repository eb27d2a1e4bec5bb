"""What policies are told of a request: the fields of a float64 vector.

One vector lives as long as its request. The last fields are the policy's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hotset.policies.arrays import Float64Array

SOURCE_TYPES = ("system", "user", "assistant", "document")

INPUT_TOKENS = 0  # prompt length, tokens
HIT_BLOCKS = 1  # leading blocks of the prompt that are in this tier
NUM_BLOCKS = 2  # cacheable blocks of the prompt
SOURCE_TYPE = 3  # index into SOURCE_TYPES, -1 where unknown
PRIORITY = 4  # the client's priority, 1 where unknown
TURN = 5  # 1-based place of the request in its session, 0 where unknown
SCRATCH = 6  # the policy's own, 0 at the start of a request
CUT = 7  # the policy's own: 1 once it has refused a block; the rest is stranded behind
NUMBER = 7  # or, where the policy refuses nothing, the number that it gave the request
REQUEST_FIELDS = 8


def _nothing_known() -> Float64Array:
    return np.zeros(REQUEST_FIELDS, np.float64)


@dataclass
class Request:
    """One request as policies see it, from its first call to its last.

    Parameters
    ----------
    fields : float64[REQUEST_FIELDS]
        What is known of it.
    """

    fields: Float64Array = field(default_factory=_nothing_known)
    is_observed: bool = False

    @classmethod
    def of(
        cls,
        *,
        input_tokens: float = 0,
        num_blocks: float = 0,
        hit_blocks: float = 0,
        source_type: float = -1,
        priority: float = 1.0,
        turn: float = 0,
    ) -> Request:
        """Return a request of which this is known; the rest may be left out."""
        made = cls()
        made.fields[INPUT_TOKENS] = input_tokens
        made.fields[NUM_BLOCKS] = num_blocks
        made.fields[HIT_BLOCKS] = hit_blocks
        made.fields[SOURCE_TYPE] = source_type
        made.fields[PRIORITY] = priority
        made.fields[TURN] = turn
        return made

    def note_prompt(self, num_blocks: int, hit_blocks: int) -> None:
        """Note how many blocks a prompt has, unless known, and how many are here."""
        self.fields[HIT_BLOCKS] = hit_blocks
        if self.fields[NUM_BLOCKS] == 0.0:
            self.fields[NUM_BLOCKS] = num_blocks
