"""GreedyDual-Size-Frequency.

Idea: a block is worth its number of uses plus the worth of the last block that was
evicted when it was last used. What was used often long ago loses to what is used now.

Source: Cherkasova, Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency
Caching Policy, HP Labs HPL-98-69R1, 1998.

State: ``order`` holds exactly the resident slots by worth; ``inflation`` (the paper's
L) is the highest worth that was evicted so far.

Deviations: all blocks have one size and one cost, so the paper's worth ``L + uses *
cost / size`` is ``L + uses``, LFU with dynamic ageing. A request counts once for each
block. Equal worth falls to the block used longest ago, the tail of a request first.

Cost: O(1) a block, but for those whose worth is thousands above the others'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec
from hotset.policies.calendar import (
    Calendar,
    calendar_clear,
    calendar_remove,
    calendar_set,
    calendar_take,
    make_calendar,
)
from hotset.policies.jit import inlined, kernel
from hotset.policies.ordering import needs_order, note_hit, note_insert
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class GdsfParams(Params):
    """`gdsf` has none."""


class GdsfState(NamedTuple):
    """Residents by worth."""

    order: Calendar
    uses: Int64Array  # int64[C], requests that used a slot since it was stored
    inflation: Float64Array  # float64[1]
    ticks: Int64Array  # int64[1], uses so far, to break ties


def make_gdsf(params: GdsfParams, capacity: int, next_use: Any = None) -> GdsfState:
    """Build the state."""
    return GdsfState(
        order=make_calendar(capacity, 1.0),
        uses=np.zeros(capacity, np.int64),
        inflation=np.zeros(1, np.float64),
        ticks=np.zeros(1, np.int64),
    )


@kernel
def gdsf_select(
    state: GdsfState, n: int, blocked: Int32Array, now: float, out: Int32Array
) -> int:
    """Take the slots of least worth, and raise the inflation to theirs."""
    found = calendar_take(state.order, n, blocked, out)
    for i in range(found):
        state.inflation[0] = max(state.inflation[0], state.order.key[out[i]])
    return found


@kernel
def gdsf_on_remove(state: GdsfState, slots: Int32Array) -> None:
    """Forget slots."""
    for i in range(slots.shape[0]):
        calendar_remove(state.order, slots[i])


@inlined
def _put(state: GdsfState, slot: int, worth: float) -> None:
    """Make a slot the newest of its worth."""
    state.ticks[0] += 1
    calendar_set(state.order, slot, worth, state.ticks[0])


@inlined
def _use(state: GdsfState, slot: int) -> None:
    state.uses[slot] += 1
    _put(state, slot, state.inflation[0] + state.uses[slot])


@kernel
def gdsf_on_insert(
    state: GdsfState,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks, used once."""
    for i in range(slots.shape[0] - 1, -1, -1):
        state.uses[slots[i]] = 0
        _use(state, int(slots[i]))
    note_insert(request)


@kernel
def gdsf_on_hit(
    state: GdsfState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Count one more use of slots, and renew their worth."""
    for i in range(slots.shape[0] - 1, -1, -1):
        _use(state, int(slots[i]))
    note_hit(request, slots.shape[0])


@kernel
def gdsf_on_finish(
    state: GdsfState, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Renew slots among equals where tails look newer than heads."""
    if needs_order(request):
        for i in range(slots.shape[0] - 1, -1, -1):
            slot = int(slots[i])
            _put(state, slot, state.order.key[slot])


@kernel
def gdsf_reset(state: GdsfState) -> None:
    """Empty the cache."""
    calendar_clear(state.order)
    state.inflation[0] = 0.0


@kernel
def gdsf_scores(
    state: GdsfState, slots: Int32Array, now: float, out: Float64Array
) -> None:
    """Write the worth of slots."""
    for i in range(slots.shape[0]):
        out[i] = state.order.key[slots[i]]


register_kernels(
    GdsfState,
    Kernels(
        select=gdsf_select,
        on_remove=gdsf_on_remove,
        on_insert=gdsf_on_insert,
        on_hit=gdsf_on_hit,
        on_finish=gdsf_on_finish,
        reset=gdsf_reset,
        scores=gdsf_scores,
    ),
)

SPEC = PolicySpec(
    name="gdsf",
    summary="least uses plus the worth of what was last evicted goes first",
    params=GdsfParams,
    make=make_gdsf,
)
