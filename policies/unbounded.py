"""A cache without bound: the ceiling of every policy.

Idea: nothing is ever evicted, so a block misses once, on first sight.

Source: the definition of a compulsory miss.

State: none. The capacity is ignored; drivers give it a slot for every distinct block.

Deviations: none.

Cost: none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Int32Array
from hotset.policies.base import Params, PolicySpec
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class UnboundedParams(Params):
    """`unbounded` has no parameters."""


class UnboundedState(NamedTuple):
    """Nothing; a state needs one array."""

    nothing: Int32Array  # int32[1]


def make_unbounded(params: UnboundedParams, capacity: int, next_use: Any = None) -> Any:
    """Build the state."""
    return UnboundedState(nothing=np.zeros(1, np.int32))


register_kernels(UnboundedState, Kernels())

SPEC = PolicySpec(
    name="unbounded",
    summary="nothing is evicted: the ceiling",
    params=UnboundedParams,
    make=make_unbounded,
    unbounded=True,
)
