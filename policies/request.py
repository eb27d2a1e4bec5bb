"""What policies are told of a request: the fields of a float64 vector.

One vector lives as long as its request. The last fields are the policy's own.
"""

from __future__ import annotations

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
