"""Protecting distance with bypass: blocks stay for a distance, newcomers wait.

Idea: a block is protected until it has gone a number of requests without use, the more
the oftener it was seen. When every block is protected the newcomer is refused, and with
it the rest of its request, which would be stranded behind it. Where more conversations
are active than fit, some are kept whole instead of all being cut short.

Source: Duong et al., Improving Cache Management Policies Using Dynamic Reuse Distances,
MICRO 2012 (protecting distance, bypass).

State: one recency list for each class of blocks (seen once, twice, 3 or 4 times, 5 and
more), exactly the resident slots; a memory of ``memory`` keys a block, resident or not,
that says how often a key was seen.

Deviations: the paper counts the distance in accesses to a set and has one for all
lines; here it is in requests, and ``growth`` times longer from class to class. The
paper evicts an unprotected line, or the youngest one if there is no bypass; here the
victim is the block whose protection ended first. Blocks of one request are protected
alike and leave tail first.

Cost: O(1) a use, O(classes) a victim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.base import Params, PolicySpec, param
from hotset.policies.class_lists import Worth, make_worth
from hotset.policies.classified import (
    Classified,
    bind,
    classified_admit,
    classified_clear,
    classified_on_evict,
    classified_on_finish,
    classified_on_hit,
    classified_on_insert,
    classified_on_remove,
    classified_scores,
    classified_select,
    entry_of,
    make_classified,
)
from hotset.policies.history import (
    FORGETTABLE,
    NUM_CLASSES,
    history_place,
    history_put,
    history_vacancy,
)
from hotset.policies.jit import kernel
from hotset.policies.key_table import NO_ENTRY, table_touch
from hotset.policies.verbs import Kernels, register_kernels


@dataclass(frozen=True)
class GuardParams(Params):
    """Parameters of `guard`."""

    distance: int = param(
        20,
        "requests for which a block that was seen once is protected",
        low=0,
        high=1_000_000,
        unit="request",
    )
    growth: float = param(
        2.0, "how many times longer from class to class", low=1.0, high=100.0, log=True
    )
    memory: int = param(
        4, "keys remembered for each block of capacity", low=1, high=4, tuned=False
    )


class GuardState(NamedTuple):
    """Residents by class, and how long each class is protected."""

    blocks: Classified
    worth: Worth
    least: Float64Array  # float64[K], what newcomers may displace
    place: Int32Array  # int32[1], scratch


def make_guard(params: GuardParams, capacity: int, next_use: Any = None) -> GuardState:
    """Build the state."""
    worth = make_worth(NUM_CLASSES)
    worth.span[:] = params.distance * params.growth ** np.arange(NUM_CLASSES)
    return GuardState(
        blocks=make_classified(capacity, params.memory),
        worth=worth,
        least=np.zeros(NUM_CLASSES, np.float64),
        place=np.zeros(1, np.int32),
    )


@kernel
def guard_on_request(
    state: GuardState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Count a sight of each key, remembering heads longest."""
    history = state.blocks.history
    state.place[0] = history.last.shape[0] + FORGETTABLE
    table_touch(history.keys, keys)
    for i in range(keys.shape[0]):
        entry = entry_of(state.blocks, keys[i], slots[i])
        if entry == NO_ENTRY:
            entry = history_vacancy(history, now)
            if entry == NO_ENTRY:
                continue
            history_put(history, entry, keys[i], now)
        history.seen[entry] += 1
        history.last[entry] = now
        if slots[i] >= 0:
            bind(state.blocks, entry, slots[i])
        else:
            history_place(history, entry, FORGETTABLE, state.place[0])
            state.place[0] = entry


@kernel
def guard_admit(
    state: GuardState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys while there are blocks whose protection is over."""
    # A block protected for T requests can go at age T + 1.
    state.least[:] = now - 1.0
    return classified_admit(state, keys, num_free, blocked, now, request)


@kernel
def guard_reset(state: GuardState) -> None:
    """Forget everything."""
    classified_clear(state.blocks)


register_kernels(
    GuardState,
    Kernels(
        on_request=guard_on_request,
        admit=guard_admit,
        select=classified_select,
        on_evict=classified_on_evict,
        on_remove=classified_on_remove,
        on_insert=classified_on_insert,
        on_hit=classified_on_hit,
        on_finish=classified_on_finish,
        reset=guard_reset,
        scores=classified_scores,
    ),
)


def _refuses(params: GuardParams) -> bool:
    return True


SPEC = PolicySpec(
    name="guard",
    summary="blocks are protected for a distance; newcomers wait (protecting distance)",
    params=GuardParams,
    make=make_guard,
    refuses=_refuses,
)
