"""The verbs of the policy contract, dispatched by the type of a policy's state.

Jitted callers reach a policy's kernels at compile time through `overload`, so that
a compiled loop holds one policy and can be cached on disk; plain Python callers
reach them through a table. Both read the same kernels, registered once for each
state type by `register_kernels`.

Common arguments
----------------
state : NamedTuple of arrays
    The policy's state, indexed by slot.
slots : int32[n]
    Resident slots, in head-to-tail order of their request; in `on_request` -1 where
    a key is not resident.
keys : int32[n] or int64[n]
    Identities of blocks.
depths : int64[n]
    0-based places of the keys in their request.
blocked : int32[C]
    Not 0 where a slot must not be chosen (pinned or protected).
now : float
    The policy's clock in its own unit: requests, keys or seconds. For a policy that
    counts keys, the i-th of a batch of n keys is used at ``now + i + 1``.
request : float64[REQUEST_FIELDS]
    What is known of the request, see `hotset.policies.request`; the last fields
    belong to the policy while the request lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from hotset.policies.arrays import Float64Array, Int32Array, Int64Array, KeyArray
from hotset.policies.jit import OPTIONS, body_for_overload, note_kernels


def _on_request(
    state: Any, keys: KeyArray, slots: Int32Array, now: float, request: Float64Array
) -> None:
    pass


def _admit(
    state: Any,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    return keys.shape[0]


def _select(state: Any, n: int, blocked: Int32Array, now: float, out: Any) -> int:
    return 0


def _on_slots(state: Any, slots: Int32Array) -> None:
    pass


def _on_insert(
    state: Any,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    pass


def _on_use(state: Any, slots: Int32Array, now: float, request: Float64Array) -> None:
    pass


def _reset(state: Any) -> None:
    pass


def _scores(state: Any, slots: Int32Array, now: float, out: Any) -> None:
    out[:] = 0.0


def _has_order(state: Any) -> bool:
    return True


@dataclass(frozen=True)
class Kernels:
    """A policy's kernels, one for each verb; what is left out does nothing.

    Each takes the arguments of the verb of its name, by the same names.
    """

    on_request: Callable[..., Any] = _on_request
    admit: Callable[..., Any] = _admit
    select: Callable[..., Any] = _select
    on_evict: Callable[..., Any] = _on_slots
    on_remove: Callable[..., Any] = _on_slots
    on_insert: Callable[..., Any] = _on_insert
    on_hit: Callable[..., Any] = _on_use
    on_ready: Callable[..., Any] = _on_slots
    on_finish: Callable[..., Any] = _on_use
    reset: Callable[..., Any] = _reset
    scores: Callable[..., Any] = _scores
    has_order: Callable[..., Any] = _has_order


_KERNELS: dict[type, Kernels] = {}


def register_kernels(state_type: type, kernels: Kernels) -> None:
    """Bind a state type to its kernels.

    Raises
    ------
    ValueError
        If the type is bound already.
    """
    if state_type in _KERNELS:
        raise ValueError(f"state type {state_type.__name__} has kernels already")
    _KERNELS[state_type] = kernels
    note_kernels(state_type, vars(kernels).values())


def kernels_of(state: Any) -> Kernels:
    """Return the kernels that are bound to a state's type."""
    return _KERNELS[type(state)]


def on_request(
    state: Any, keys: KeyArray, slots: Int32Array, now: float, request: Float64Array
) -> None:
    """Note a request's keys, resident or not; once for each request, first of all.

    Policies that reproduce an engine's own hear it at each of that engine's touches.
    """
    kernels_of(state).on_request(state, keys, slots, now, request)


def admit(
    state: Any,
    keys: KeyArray,
    depths: Int64Array,
    num_free: int,
    blocked: Int32Array,
    now: float,
    request: Float64Array,
) -> int:
    """Return how many of the missing keys to store, from the first on."""
    return kernels_of(state).admit(state, keys, depths, num_free, blocked, now, request)


def select(state: Any, n: int, blocked: Int32Array, now: float, out: Any) -> int:
    """Write n victims to ``out``, best first to go; return how many were found.

    The caller has made sure that n unblocked slots exist and evicts what is found
    at once, so a kernel takes victims out of its order here. Only a kernel that can
    find fewer than n must leave its state alone and wait for `on_evict`.
    """
    return kernels_of(state).select(state, n, blocked, now, out)


def on_evict(state: Any, slots: Int32Array) -> None:
    """Note that the victims of the last `select` are gone."""
    kernels_of(state).on_evict(state, slots)


def on_remove(state: Any, slots: Int32Array) -> None:
    """Take out slots that the caller removes, such as those of a failed store."""
    kernels_of(state).on_remove(state, slots)


def on_insert(
    state: Any,
    slots: Int32Array,
    keys: KeyArray,
    depths: Int64Array,
    now: float,
    request: Float64Array,
) -> None:
    """Take in new blocks."""
    kernels_of(state).on_insert(state, slots, keys, depths, now, request)


def on_hit(state: Any, slots: Int32Array, now: float, request: Float64Array) -> None:
    """Note that a request uses resident blocks."""
    kernels_of(state).on_hit(state, slots, now, request)


def on_ready(state: Any, slots: Int32Array) -> None:
    """Note that slots can be evicted now: written, or no longer read by anyone."""
    kernels_of(state).on_ready(state, slots)


def on_finish(state: Any, slots: Int32Array, now: float, request: Float64Array) -> None:
    """Put a request's resident blocks in order, after a store and at its end.

    ``slots`` are those of its blocks that are resident, head first.
    """
    kernels_of(state).on_finish(state, slots, now, request)


def reset(state: Any) -> None:
    """Empty the cache; what was learned of traffic may stay."""
    kernels_of(state).reset(state)


def scores(state: Any, slots: Int32Array, now: float, out: Any) -> None:
    """Write the worth of slots to ``out``; the lowest goes first. 0 without scores."""
    kernels_of(state).scores(state, slots, now, out)


def has_order(state: Any) -> bool:
    """Return whether the state orders slots at all; `NoLinks` does not."""
    return kernels_of(state).has_order(state)


def _chosen(state_type: Any, name: str) -> Callable[..., Any] | None:
    """Return the Python body that numba compiles for a state's type."""
    if not isinstance(state_type, types.BaseNamedTuple):
        return None
    kernels = _KERNELS.get(state_type.instance_class)
    return None if kernels is None else body_for_overload(getattr(kernels, name))


# overload matches argument names, so each verb states its own once more.


@overload(on_request, jit_options=OPTIONS)
def _on_request_overload(state, keys, slots, now, request):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_request")


@overload(admit, jit_options=OPTIONS)
def _admit_overload(state, keys, depths, num_free, blocked, now, request):  # type: ignore[no-untyped-def]
    return _chosen(state, "admit")


@overload(select, jit_options=OPTIONS)
def _select_overload(state, n, blocked, now, out):  # type: ignore[no-untyped-def]
    return _chosen(state, "select")


@overload(on_evict, jit_options=OPTIONS)
def _on_evict_overload(state, slots):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_evict")


@overload(on_remove, jit_options=OPTIONS)
def _on_remove_overload(state, slots):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_remove")


@overload(on_insert, jit_options=OPTIONS)
def _on_insert_overload(state, slots, keys, depths, now, request):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_insert")


@overload(on_hit, jit_options=OPTIONS)
def _on_hit_overload(state, slots, now, request):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_hit")


@overload(on_ready, jit_options=OPTIONS)
def _on_ready_overload(state, slots):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_ready")


@overload(on_finish, jit_options=OPTIONS)
def _on_finish_overload(state, slots, now, request):  # type: ignore[no-untyped-def]
    return _chosen(state, "on_finish")


@overload(reset, jit_options=OPTIONS)
def _reset_overload(state):  # type: ignore[no-untyped-def]
    return _chosen(state, "reset")


@overload(scores, jit_options=OPTIONS)
def _scores_overload(state, slots, now, out):  # type: ignore[no-untyped-def]
    return _chosen(state, "scores")


@overload(has_order, jit_options=OPTIONS)
def _has_order_overload(state):  # type: ignore[no-untyped-def]
    return _chosen(state, "has_order")


class NoLinks(NamedTuple):
    """Stands for the second order of slots where a driver keeps none."""

    nothing: Int32Array  # int32[1]; a state needs one array


def _no_order(state: Any) -> bool:
    return False


NO_LINKS = NoLinks(nothing=np.zeros(1, np.int32))
register_kernels(NoLinks, Kernels(has_order=_no_order))
