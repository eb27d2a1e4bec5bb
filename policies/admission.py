"""Admission: which missing blocks are worth storing, whatever evicts later.

`always` stores everything. `threshold` stores a block once it has been seen often
enough, as vLLM's ``store_threshold`` does, with its bounded tracker of counts. Two
counting rules exist: ``lookup`` (vLLM up to 0.28) counts each key that a lookup
touches, up to and including the first miss; ``offer`` (from 0.30) counts every key of
an offer. A tracker smaller than the traffic between two sights of a block makes the
threshold unreachable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from hotset.policies.arrays import Int32Array, Int64Array, KeyArray
from hotset.policies.base import AdmissionSpec, Params, param
from hotset.policies.counts import (
    CountTable,
    count_of,
    count_offer,
    count_recent,
    counts_clear,
    make_counts,
)
from hotset.policies.jit import OPTIONS, body_for_overload, kernel

OFF = 0
AT_LOOKUP = 1
AT_OFFER = 2


@dataclass(frozen=True)
class AlwaysParams(Params):
    """`always` has no parameters."""


@dataclass(frozen=True)
class ThresholdParams(Params):
    """Parameters of `threshold`."""

    min_count: int = param(
        2, "sights of a block before it is stored", low=1, high=1000, unit="sights"
    )
    max_tracker_size: int = param(
        64_000,
        "keys whose counts are kept",
        low=1,
        high=100_000_000,
        log=True,
        unit="keys",
    )
    count: str = param(
        "auto",
        "when a sight counts; auto: as the engine does, at the offer without one",
        choices=("auto", "lookup", "offer"),
        tuned=False,
    )


class AlwaysState(NamedTuple):
    """Nothing; a state needs one array."""

    nothing: Int32Array  # int32[1]


class ThresholdState(NamedTuple):
    """Counts and the rule that applies to them."""

    table: CountTable
    numbers: Int64Array  # int64[2]: min_count, OFF or AT_LOOKUP or AT_OFFER


def make_always(params: AlwaysParams) -> AlwaysState:
    """Build the state of `always`."""
    return AlwaysState(nothing=np.zeros(1, np.int32))


def make_threshold(params: ThresholdParams) -> ThresholdState:
    """Build the state of `threshold`; a minimum of 1 is no threshold, as in vLLM."""
    rule = AT_LOOKUP if params.count == "lookup" else AT_OFFER
    if params.min_count < 2:
        rule = OFF
    return ThresholdState(
        table=make_counts(params.max_tracker_size),
        numbers=np.array([params.min_count, rule], np.int64),
    )


@kernel
def _threshold_on_lookup(state: ThresholdState, keys: KeyArray) -> None:
    if state.numbers[1] == AT_LOOKUP:
        for i in range(keys.shape[0]):
            count_recent(state.table, keys[i])


@kernel
def _threshold_on_offer(state: ThresholdState, keys: KeyArray) -> None:
    if state.numbers[1] == AT_OFFER:
        count_offer(state.table, keys)


@kernel
def _threshold_keep(
    state: ThresholdState, keys: KeyArray, depths: Int64Array, n: int
) -> int:
    if state.numbers[1] == OFF:
        return n
    kept = 0
    for i in range(n):
        if count_of(state.table, keys[i]) >= state.numbers[0]:
            keys[kept] = keys[i]
            depths[kept] = depths[i]
            kept += 1
    return kept


@kernel
def _threshold_clear(state: ThresholdState) -> None:
    counts_clear(state.table)


@kernel
def _always_note(state: AlwaysState, keys: KeyArray) -> None:
    pass


@kernel
def _always_keep(state: AlwaysState, keys: KeyArray, depths: Int64Array, n: int) -> int:
    return n


@kernel
def _always_clear(state: AlwaysState) -> None:
    pass


_KERNELS: dict[type, dict[str, Callable[..., Any]]] = {
    AlwaysState: {
        "on_lookup": _always_note,
        "on_offer": _always_note,
        "keep": _always_keep,
        "clear": _always_clear,
    },
    ThresholdState: {
        "on_lookup": _threshold_on_lookup,
        "on_offer": _threshold_on_offer,
        "keep": _threshold_keep,
        "clear": _threshold_clear,
    },
}


def admission_kernels(state: Any) -> dict[str, Callable[..., Any]]:
    """Return the kernels of a rule's state: on_lookup, on_offer, keep and clear."""
    return _KERNELS[type(state)]


def admission_on_lookup(state: Any, keys: KeyArray) -> None:
    """Note keys that were looked up, the first miss included."""
    _KERNELS[type(state)]["on_lookup"](state, keys)


def admission_on_offer(state: Any, keys: KeyArray) -> None:
    """Note keys that were offered for storing, resident ones included."""
    _KERNELS[type(state)]["on_offer"](state, keys)


def admission_keep(state: Any, keys: KeyArray, depths: Int64Array, n: int) -> int:
    """Move the missing keys that may be stored to the front, in order; say how many.

    ``keys`` and their ``depths`` hold n of them and are changed.
    """
    return _KERNELS[type(state)]["keep"](state, keys, depths, n)


def admission_clear(state: Any) -> None:
    """Forget all counts."""
    _KERNELS[type(state)]["clear"](state)


def _chosen(state_type: Any, name: str) -> Callable[..., Any] | None:
    if not isinstance(state_type, types.BaseNamedTuple):
        return None
    found = _KERNELS.get(state_type.instance_class)
    return None if found is None else body_for_overload(found[name])


@overload(admission_on_lookup, jit_options=OPTIONS)
def _on_lookup_overload(state, keys):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_lookup")


@overload(admission_on_offer, jit_options=OPTIONS)
def _on_offer_overload(state, keys):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_offer")


@overload(admission_keep, jit_options=OPTIONS)
def _keep_overload(state, keys, depths, n):  # type: ignore[no-untyped-def]
    return _chosen(state, "keep")


@overload(admission_clear, jit_options=OPTIONS)
def _clear_overload(state):  # type: ignore[no-untyped-def]
    return _chosen(state, "clear")


ALWAYS = AdmissionSpec(
    name="always",
    summary="store every missing block",
    params=AlwaysParams,
    make=make_always,
)
THRESHOLD = AdmissionSpec(
    name="threshold",
    summary="store a block once it was seen often enough (vLLM's store_threshold)",
    params=ThresholdParams,
    make=make_threshold,
)
