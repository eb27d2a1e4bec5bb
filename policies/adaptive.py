"""Learned worth against LRU: keeps what traffic shows to be used again, or keeps LRU.

Idea: how soon blocks of a class are used again is learned from traffic, and gives each
class and age a worth: the hits to be expected for each request that the block is kept
through. The least worthy block goes first, and a newcomer that is worth less than all
that it could displace is refused, with the rest of its request. Two shadow caches, one
in this order and one in LRU order, tell which of them the real cache should follow; it
starts with LRU.

Source: ours. The worth is an optimal stopping index (`hotset.policies.reuse_model`);
the distance that it implies is a protecting distance in the sense of Duong et al.,
MICRO 2012, one for each class, chosen by the traffic.

State: `Classified` residents, by classes of how often they were seen (once, twice, 3
or 4 times, 5 and more); `ReuseModel`; `Duel`, the shadow caches. The memory holds
``memory`` keys for each block of capacity besides as many residents. Where the model
knows nothing, all worth is equal, which is LRU order. When the order changes, the
blocks stay as they are and only the choice among them changes.

Deviations: in LRU order, blocks of one request and one class leave tail first, and
blocks of one request in different classes leave the class that was seen less first,
which is the tail as well.

Cost: O(1) a use, O(classes) a victim, for the real cache and each shadow. About 300
bytes for each block of capacity.
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
from hotset.policies.duel import (
    REQUESTS,
    WINDOW,
    Duel,
    duel_clear,
    duel_end,
    duel_forget,
    duel_judge,
    duel_learned,
    duel_lru,
    duel_miss,
    duel_start,
    make_duel,
)
from hotset.policies.history import (
    NUM_CLASSES,
    class_of,
    history_put,
    history_vacancy,
)
from hotset.policies.jit import inlined, kernel
from hotset.policies.key_table import NO_ENTRY, table_touch
from hotset.policies.request import CUT
from hotset.policies.reuse_model import (
    ReuseModel,
    age_bucket,
    make_reuse_model,
    model_fade,
    model_worth,
)
from hotset.policies.verbs import Kernels, register_kernels

_LEARN_EVERY = 50  # requests between two updates of the worth, a multiple of WINDOW
_WINDOW_FADE, _MODEL_FADE, _EVIDENCE, _MIN_GAIN = 0, 1, 2, 3


@dataclass(frozen=True)
class AdaptiveParams(Params):
    """Parameters of `adaptive`."""

    half_life: float = param(
        1000.0,
        "requests after which what was learned counts half",
        low=50.0,
        high=1e6,
        log=True,
        unit="request",
    )
    evidence: float = param(
        3.0, "standard deviations of gain that leaving lru takes", low=0.0, high=10.0
    )
    min_gain: float = param(
        0.005, "gain that leaving lru takes, hits by accesses", low=0.0, high=1.0
    )
    memory: int = param(
        4, "keys remembered for each block of capacity", low=1, high=4, tuned=False
    )


class AdaptiveState(NamedTuple):
    """The cache, what is known of reuse, and the two shadows."""

    blocks: Classified
    worth: Worth
    least: Float64Array  # float64[K], what a newcomer of each class is worth
    model: ReuseModel
    duel: Duel
    numbers: Float64Array  # float64[4]: fading by window and update, evidence, gain


def make_adaptive(
    params: AdaptiveParams, capacity: int, next_use: Any = None
) -> AdaptiveState:
    """Build the state."""
    blocks = make_classified(capacity, params.memory, 1 + NUM_CLASSES)
    return AdaptiveState(
        blocks=blocks,
        worth=make_worth(NUM_CLASSES),
        least=np.zeros(NUM_CLASSES, np.float64),
        model=make_reuse_model(NUM_CLASSES),
        duel=make_duel(blocks.history.last.shape[0], capacity),
        numbers=np.array(
            [
                0.5 ** (WINDOW / params.half_life),
                0.5 ** (_LEARN_EVERY / params.half_life),
                params.evidence,
                params.min_gain,
            ]
        ),
    )


@inlined
def _enter(state: AdaptiveState, key: int, slot: int, now: float) -> int:
    """Return the entry of a key, a new one if need be, and learn from its age."""
    blocks, history, model = state.blocks, state.blocks.history, state.model
    entry = entry_of(blocks, key, slot)
    if entry == NO_ENTRY:
        entry = history_vacancy(history, now)
        if entry == NO_ENTRY:
            return NO_ENTRY
        duel_forget(state.duel, entry)
        history_put(history, entry, key, now)
    else:
        age = age_bucket(state.worth.ages, now - history.last[entry])
        model.reused[class_of(history.seen[entry]), age] += 1.0
    if slot >= 0:
        bind(blocks, entry, slot)
    history.seen[entry] += 1
    history.last[entry] = now
    return entry


@kernel
def adaptive_on_request(
    state: AdaptiveState,
    keys: KeyArray,
    slots: Int32Array,
    now: float,
    request: Float64Array,
) -> None:
    """Learn from a request, serve it in both shadows, and judge them."""
    history, duel, table = state.blocks.history, state.duel, state.worth.table
    duel_start(duel, history, table, state.worth.ages, now)
    table_touch(history.keys, keys)
    for i in range(keys.shape[0]):
        entry = _enter(state, keys[i], slots[i], now)
        if entry == NO_ENTRY:
            duel_miss(duel)
            continue
        k = class_of(history.seen[entry])
        state.model.entered[k] += 1.0
        duel_lru(duel, history, entry, now)
        duel_learned(duel, history, table, state.worth.ages, entry, k, now)
    if duel_end(duel, keys.shape[0]):
        _close_window(state)


@inlined
def _close_window(state: AdaptiveState) -> None:
    """Decide which order to follow, and renew the worth now and then."""
    worth, numbers = state.worth, state.numbers
    worth.learned[0] = duel_judge(
        state.duel,
        numbers[_WINDOW_FADE],
        numbers[_EVIDENCE],
        numbers[_MIN_GAIN],
        worth.learned[0] != 0,
    )
    if state.duel.numbers[REQUESTS] % _LEARN_EVERY == 0:
        model_worth(state.model, worth.ages, worth.table)
        model_fade(state.model, numbers[_MODEL_FADE])


@kernel
def adaptive_admit(
    state: AdaptiveState,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Admit keys while each is worth as much as what it displaces; all under LRU."""
    worth = state.worth
    if worth.learned[0] == 0:
        return keys.shape[0] if request[CUT] == 0.0 else 0
    for k in range(NUM_CLASSES):
        state.least[k] = worth.table[k, 0]
    return classified_admit(state, keys, num_free, blocked, now, request)


@kernel
def adaptive_reset(state: AdaptiveState) -> None:
    """Empty the caches and forget keys; what was learned of reuse stays."""
    classified_clear(state.blocks)
    duel_clear(state.duel)


register_kernels(
    AdaptiveState,
    Kernels(
        on_request=adaptive_on_request,
        admit=adaptive_admit,
        select=classified_select,
        on_evict=classified_on_evict,
        on_remove=classified_on_remove,
        on_insert=classified_on_insert,
        on_hit=classified_on_hit,
        on_finish=classified_on_finish,
        reset=adaptive_reset,
        scores=classified_scores,
    ),
)


def _refuses(params: AdaptiveParams) -> bool:
    return True


SPEC = PolicySpec(
    name="adaptive",
    summary="what traffic shows to be worth least goes first; lru until that pays",
    params=AdaptiveParams,
    make=make_adaptive,
    refuses=_refuses,
)
