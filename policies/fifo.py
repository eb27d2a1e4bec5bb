"""First in, first out.

Idea: the block that was stored first goes first, whether it is used or not. It is the
floor under every policy that looks at use.

Source: the classic policy.

State: one list, oldest to newest by insertion, of exactly the resident slots.

Deviations: blocks stored together leave tail first (``order=insertion``: head first).
A request's own blocks are protected while it stores; kvcache-simulator's FIFO stores
block by block and may evict the request's own head, so its counts differ by up to a
few percent.

Cost: O(1) a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hotset.policies.arrays import Int32Array
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.linked import make_links
from hotset.policies.lru import (
    list_insert_head_first,
    list_insert_tail_first,
    list_on_remove,
    list_reset,
    list_select,
)
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class FifoParams(Params):
    """Parameters of `fifo`."""

    order: str = param(
        "tail-first",
        "which of the blocks that were stored together goes first",
        choices=("tail-first", "insertion"),
        tuned=False,
    )


class FifoState(NamedTuple):
    """One list by insertion, tails of a batch oldest."""

    links: Int32Array  # int32[C + 1, 2]


class FifoInsertionState(NamedTuple):
    """One list by insertion, heads of a batch oldest."""

    links: Int32Array  # int32[C + 1, 2]


def make_fifo(params: FifoParams, capacity: int, next_use: Any = None) -> Any:
    """Build the state."""
    made = FifoState if params.order == "tail-first" else FifoInsertionState
    return made(links=make_links(capacity))


register_kernels(
    FifoState,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=list_insert_tail_first,
        reset=list_reset,
    ),
)
register_kernels(
    FifoInsertionState,
    Kernels(
        select=list_select,
        on_remove=list_on_remove,
        on_insert=list_insert_head_first,
        reset=list_reset,
    ),
)

SPEC = PolicySpec(
    name="fifo",
    summary="the block stored first goes first",
    params=FifoParams,
    make=make_fifo,
)
