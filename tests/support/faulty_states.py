"""Any policy with one fault planted: at a call of a verb, something goes wrong once.

`Planted` wraps a policy's state. Its kernels are the policy's own, until the planned
call of the planned verb.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from hotset.policies import verbs
from hotset.policies.jit import kernel
from hotset.policies.verbs import Kernels, register_kernels

VERBS = (
    "on_request",
    "admit",
    "select",
    "on_evict",
    "on_insert",
    "on_hit",
    "on_ready",
    "on_finish",
    "on_remove",
    "reset",
    "scores",
)
KINDS_OF_ALL = ("raise before", "raise after")
KINDS_OF_SELECT = (
    "same twice",
    "blocked slot",
    "free slot",
    "slot out of range",
    "slot of a NaN",
    "too few",
    "too many",
    "fewer than none",
)
KINDS_OF_ADMIT = ("too many", "fewer than none", "count of a NaN")
KINDS_OF_SCORES = ("NaN",)
KINDS = tuple(
    dict.fromkeys(KINDS_OF_ALL + KINDS_OF_SELECT + KINDS_OF_ADMIT + KINDS_OF_SCORES)
)

(ON_REQUEST, ADMIT, SELECT, ON_EVICT, ON_INSERT, ON_HIT) = range(6)
(ON_READY, ON_FINISH, ON_REMOVE, RESET, SCORES) = range(6, 11)
_VERB, _KIND, _CALLS, _FIRED = range(4)
_BEFORE, _AFTER = 0, 1
_TWICE, _BLOCKED, _FREE, _OUTSIDE, _NAN_SLOT = 2, 3, 4, 5, 6
_FEW, _MANY, _NEGATIVE, _NAN_COUNT, _NAN = 7, 8, 9, 10, 11
_INT32_OF_NAN, _INT64_OF_NAN = -(2**31), -(2**63)


class Planted(NamedTuple):
    """A policy's state and the plan of its fault."""

    inner: Any
    plan: np.ndarray  # int64[4]: verb, kind, calls before it fires, whether it has
    resident: np.ndarray  # int8[C]


def faults():
    """Return every (verb, kind)."""
    special = {
        "select": KINDS_OF_SELECT,
        "admit": KINDS_OF_ADMIT,
        "scores": KINDS_OF_SCORES,
    }
    return [
        (verb, kind) for verb in VERBS for kind in KINDS_OF_ALL + special.get(verb, ())
    ]


def plant(spec, verb, kind, call):
    """Return a spec whose first state fails at a call of a verb; and the states made.

    Those that come later, as for a driver's warm-up, do not fail.
    """
    made = []

    def make(params, capacity, next_use=None):
        numbers = [VERBS.index(verb), KINDS.index(kind), call, len(made) > 0]
        plan = np.array(numbers, np.int64)
        resident = np.zeros(capacity, np.int8)
        made.append(Planted(spec.make(params, capacity, None), plan, resident))
        return made[-1]

    return dataclasses.replace(spec, make=make), made


def has_fired(state):
    """Return whether the fault has happened."""
    return bool(state.plan[_FIRED])


@kernel
def _is_due(state, verb, kind):
    """Return whether the fault is to happen now; what cannot be now is put off."""
    plan = state.plan
    if plan[_FIRED] != 0 or plan[_VERB] != verb or plan[_KIND] != kind:
        return False
    plan[_CALLS] -= 1
    if plan[_CALLS] > 0:
        return False
    plan[_FIRED] = 1
    return True


@kernel
def _fail_if_due(state, verb, kind):
    if _is_due(state, verb, kind):
        raise ValueError("a planted fault")


@kernel
def _mark(state, slots, value):
    for i in range(slots.shape[0]):
        state.resident[slots[i]] = value


@kernel
def planted_on_request(state, keys, slots, now, request):
    _fail_if_due(state, ON_REQUEST, _BEFORE)
    verbs.on_request(state.inner, keys, slots, now, request)
    _fail_if_due(state, ON_REQUEST, _AFTER)


@kernel
def planted_admit(state, keys, depths, num_free, blocked, now, request):
    _fail_if_due(state, ADMIT, _BEFORE)
    m = verbs.admit(state.inner, keys, depths, num_free, blocked, now, request)
    _fail_if_due(state, ADMIT, _AFTER)
    if _is_due(state, ADMIT, _MANY):
        return keys.shape[0] + 1
    if _is_due(state, ADMIT, _NEGATIVE):
        return -1
    if _is_due(state, ADMIT, _NAN_COUNT):
        return _INT64_OF_NAN
    return m


@kernel
def _some_slot(state, blocked, is_resident):
    """Return a free slot or a resident, blocked one; -1 where there is none."""
    for slot in range(blocked.shape[0]):
        if is_resident and state.resident[slot] != 0 and blocked[slot] != 0:
            return slot
        if not is_resident and state.resident[slot] == 0:
            return slot
    return -1


@kernel
def _spoil(state, n, blocked, out, found):
    """Make the choice of victims impossible if that is due; return how many."""
    if n > 1 and _is_due(state, SELECT, _TWICE):
        out[1] = out[0]
    if _is_due(state, SELECT, _OUTSIDE):
        out[n - 1] = blocked.shape[0]
    if _is_due(state, SELECT, _NAN_SLOT):
        out[n - 1] = _INT32_OF_NAN
    slot = _some_slot(state, blocked, True)
    if slot >= 0 and _is_due(state, SELECT, _BLOCKED):
        out[n - 1] = slot
    slot = _some_slot(state, blocked, False)
    if slot >= 0 and _is_due(state, SELECT, _FREE):
        out[n - 1] = slot
    if _is_due(state, SELECT, _FEW):
        return n - 1
    if _is_due(state, SELECT, _MANY):
        return n + 1
    if _is_due(state, SELECT, _NEGATIVE):
        return -1
    return found


@kernel
def planted_select(state, n, blocked, now, out):
    _fail_if_due(state, SELECT, _BEFORE)
    found = verbs.select(state.inner, n, blocked, now, out)
    _fail_if_due(state, SELECT, _AFTER)
    if found == n:
        found = _spoil(state, n, blocked, out, found)
    return found


@kernel
def planted_on_evict(state, slots):
    _mark(state, slots, 0)
    _fail_if_due(state, ON_EVICT, _BEFORE)
    verbs.on_evict(state.inner, slots)
    _fail_if_due(state, ON_EVICT, _AFTER)


@kernel
def planted_on_insert(state, slots, keys, depths, now, request):
    _mark(state, slots, 1)
    _fail_if_due(state, ON_INSERT, _BEFORE)
    verbs.on_insert(state.inner, slots, keys, depths, now, request)
    _fail_if_due(state, ON_INSERT, _AFTER)


@kernel
def planted_on_hit(state, slots, now, request):
    _fail_if_due(state, ON_HIT, _BEFORE)
    verbs.on_hit(state.inner, slots, now, request)
    _fail_if_due(state, ON_HIT, _AFTER)


@kernel
def planted_on_ready(state, slots):
    _fail_if_due(state, ON_READY, _BEFORE)
    verbs.on_ready(state.inner, slots)
    _fail_if_due(state, ON_READY, _AFTER)


@kernel
def planted_on_finish(state, slots, now, request):
    _fail_if_due(state, ON_FINISH, _BEFORE)
    verbs.on_finish(state.inner, slots, now, request)
    _fail_if_due(state, ON_FINISH, _AFTER)


@kernel
def planted_on_remove(state, slots):
    _mark(state, slots, 0)
    _fail_if_due(state, ON_REMOVE, _BEFORE)
    verbs.on_remove(state.inner, slots)
    _fail_if_due(state, ON_REMOVE, _AFTER)


@kernel
def planted_reset(state):
    state.resident[:] = 0
    _fail_if_due(state, RESET, _BEFORE)
    verbs.reset(state.inner)
    _fail_if_due(state, RESET, _AFTER)


@kernel
def planted_scores(state, slots, now, out):
    _fail_if_due(state, SCORES, _BEFORE)
    verbs.scores(state.inner, slots, now, out)
    _fail_if_due(state, SCORES, _AFTER)
    if slots.shape[0] > 0 and _is_due(state, SCORES, _NAN):
        out[0] = np.nan


register_kernels(
    Planted,
    Kernels(
        on_request=planted_on_request,
        admit=planted_admit,
        select=planted_select,
        on_evict=planted_on_evict,
        on_insert=planted_on_insert,
        on_hit=planted_on_hit,
        on_ready=planted_on_ready,
        on_finish=planted_on_finish,
        on_remove=planted_on_remove,
        reset=planted_reset,
        scores=planted_scores,
    ),
)
