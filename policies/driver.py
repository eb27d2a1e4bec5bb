"""One cache tier driven from Python: keys of any kind, batches, pins, a fallback.

`PolicyDriver` runs the same kernels as the replay loop for callers that bring their own
requests: the simulated tier and the vLLM adapter. It maps keys to slots, tells blocks
being written from readable ones, and keeps a plain LRU order of its own beside the
policy's. Should the policy's code ever fail or choose impossible victims, that is
logged once and counted, and the tier goes on with the LRU order.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from hotset.policies import request as request_fields
from hotset.policies.admission import (
    ALWAYS,
    admission_keep,
    admission_on_lookup,
    admission_on_offer,
)
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.guarded import GuardedPolicy
from hotset.policies.slots import block, num_evictable, num_free, unblock
from hotset.policies.verbs import on_finish, on_hit, on_ready, on_request, scores

K = TypeVar("K", bound=Hashable)

_MASK = (1 << 63) - 1


class Status(enum.Enum):
    """What a look-up finds."""

    MISS = "miss"
    PENDING = "pending"  # being written
    HIT = "hit"


@dataclass
class Request:
    """One request as policies see it, from its first call to its last.

    Parameters
    ----------
    fields : float64[REQUEST_FIELDS]
        See `hotset.policies.request`.
    """

    fields: Float64Array = field(
        default_factory=lambda: np.zeros(request_fields.REQUEST_FIELDS, np.float64)
    )
    is_observed: bool = False


@dataclass(frozen=True)
class Stored(Generic[K]):
    """What an offer led to: the keys to write, and the keys evicted for them."""

    keys: list[K]
    evicted: list[K]


class PolicyDriver(Generic[K]):
    """A cache tier of fixed capacity under one policy.

    Parameters
    ----------
    spec, params : PolicySpec, Params
        The eviction policy; not an offline one.
    capacity : int
        Blocks that fit, at least 1.
    admission, admission_params : AdmissionSpec, Params, optional
        The admission rule; default `always`.

    Raises
    ------
    PolicyError
        For a capacity below 1 or a policy that cannot run on line.
    """

    def __init__(
        self,
        spec: PolicySpec,
        params: Params,
        capacity: int,
        admission: AdmissionSpec = ALWAYS,
        admission_params: Params | None = None,
    ) -> None:
        if capacity < 1:
            raise PolicyError(f"capacity is {capacity} blocks: at least 1 is needed")
        if spec.offline or spec.unbounded:
            raise PolicyError(f"policy {spec.name} cannot run in a server")
        self.spec = spec
        self.capacity = capacity
        self.now_s = 0.0
        self._cache = GuardedPolicy(
            spec.name, spec.make(params, capacity, None), capacity
        )
        self._slots = self._cache.slots
        self._params = params
        self._rule = admission
        self._rule_params = admission_params or admission.params()
        self._admission = admission.make(self._rule_params)
        self._slot_of: dict[K, int] = {}
        self._key_in: list[K | None] = [None] * capacity
        self._writing = np.zeros(capacity, np.bool_)
        self._num_requests = 0
        self._keys_used = 0

    def warm_up(self) -> None:
        """Compile every kernel that this tier and its fallback can call.

        A small tier of the same kinds goes through all calls; this one is untouched.
        """
        tier: PolicyDriver[int] = PolicyDriver(
            self.spec, self._params, 2, self._rule, self._rule_params
        )
        for _tier in range(2):
            for key in range(4):
                request = tier.begin()
                tier.observe(request, [key])
                tier.note_lookup([key])
                for _sight in range(2):
                    if tier.offer(request, [key]) is not None:
                        tier.complete([key])
                tier.hit(request, [key])
                held = [key] if key in tier else []
                tier.pin(held)
                tier.unpin(held)
                tier.finish(request, [key])
            tier.evict(1)
            tier.remove([3])
            tier.reset()
            tier.announce(tier.begin(), [4], [0])
            tier.insert(tier.begin(), [4], [0])
            tier.reset()
            tier._cache.fall_back()

    # What is there

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: object) -> bool:
        return key in self._slot_of

    @property
    def num_evictable(self) -> int:
        """Blocks that could be evicted now."""
        return int(num_evictable(self._slots))

    @property
    def num_free(self) -> int:
        """Free slots."""
        return int(num_free(self._slots))

    @property
    def fallen_back(self) -> bool:
        """Whether the policy failed and the tier runs on plain LRU."""
        return self._cache.fallen_back

    @property
    def num_faults(self) -> int:
        """How often the policy failed."""
        return self._cache.num_faults

    def lookup(self, key: K) -> Status:
        """Return whether a key is here; changes nothing."""
        slot = self._slot_of.get(key)
        if slot is None:
            return Status.MISS
        return Status.PENDING if self._writing[slot] else Status.HIT

    def slot(self, key: K) -> int:
        """Return the slot of a resident key.

        Raises
        ------
        KeyError
            If the key is not resident.
        """
        return self._slot_of[key]

    def scores(self, keys: Sequence[K]) -> Float64Array:
        """Return the policy's worth of resident keys; the lowest goes first."""
        slots = self._find(keys)
        out = np.zeros(len(slots), np.float64)
        scores(self._cache.state, slots, self._now(), out)
        return out

    # Requests

    def begin(
        self,
        *,
        input_tokens: int = 0,
        num_blocks: int = 0,
        hit_blocks: int = 0,
        source_type: int = -1,
        priority: float = 1.0,
    ) -> Request:
        """Start a request; what is unknown may be left out."""
        self._num_requests += 1
        made = Request()
        made.fields[request_fields.INPUT_TOKENS] = input_tokens
        made.fields[request_fields.NUM_BLOCKS] = num_blocks
        made.fields[request_fields.HIT_BLOCKS] = hit_blocks
        made.fields[request_fields.SOURCE_TYPE] = source_type
        made.fields[request_fields.PRIORITY] = priority
        return made

    def observe(self, request: Request, keys: Sequence[K]) -> None:
        """Note keys of a request, resident or not, head first; once for each key."""
        slots = self._find_any(keys)
        if not request.is_observed:
            request.is_observed = True
            gaps = np.flatnonzero(slots < 0)
            run = gaps[0] if len(gaps) else len(slots)
            request.fields[request_fields.HIT_BLOCKS] = run
        self._cache.call(
            on_request,
            _fold(keys),
            slots,
            self._now(),
            request.fields,
        )

    def note_lookup(self, keys: Sequence[K]) -> None:
        """Note keys that were looked up, the first miss included."""
        admission_on_lookup(self._admission, _fold(keys))

    def hit(self, request: Request, keys: Iterable[K]) -> None:
        """Note that a request uses those of its keys that are resident, in order."""
        slots = self._resident(keys)
        self._cache.call(on_hit, slots, self._now(), request.fields)
        self._keys_used += len(slots)

    def finish(self, request: Request, keys: Iterable[K]) -> None:
        """Put a request's blocks in order, after a store or at its end.

        ``keys`` are its blocks, head first; those that are not resident do not matter.
        """
        slots = self._resident(keys)
        self._cache.call(on_finish, slots, self._now(), request.fields)

    # Blocks come and go

    def offer(
        self,
        request: Request,
        keys: Sequence[K],
        depths: Sequence[int] | None = None,
    ) -> Stored[K] | None:
        """Offer blocks for storing; what is taken is being written until `complete`.

        Parameters
        ----------
        request : Request
            Whose blocks they are.
        keys : sequence
            Keys in head-to-tail order, each once; resident ones stay.
        depths : sequence of int, optional
            0-based places of the keys in their request; default 0, 1, 2, ...

        Returns
        -------
        Stored or None
            None where what policy and admission want does not fit beside pinned and
            offered blocks; then nothing has changed but the counts of sights.
        """
        folded = _fold(keys)
        admission_on_offer(self._admission, folded)
        offered = self._find_any(keys)
        places = np.flatnonzero(offered < 0)
        wanted = folded[places]
        n = admission_keep(self._admission, wanted, places, len(places))
        places, wanted = places[:n], wanted[:n]
        if n == 0:
            return Stored([], [])
        at = places if depths is None else np.array(depths, np.int64)[places]
        block(self._slots, offered)
        try:
            result = self._cache.store(wanted, at, self._now(), request.fields)
        finally:
            unblock(self._slots, offered)
        if result is None:
            return None
        taken, victims = result
        evicted = self._forget(victims)
        stored = [keys[i] for i in places[: len(taken)].tolist()]
        self._enter(stored, taken)
        return Stored(stored, evicted)

    def announce(
        self, request: Request, keys: Sequence[K], depths: Sequence[int]
    ) -> None:
        """Tell the policy of missing blocks that the caller will `insert`.

        That is what `offer` does before it evicts; here the caller evicts.
        """
        at = np.array(depths, np.int64)
        self._cache.announce(_fold(keys), at, self._now(), request.fields)

    def insert(
        self, request: Request, keys: Sequence[K], depths: Sequence[int]
    ) -> None:
        """Take in missing blocks that the caller stores in any case.

        There must be free slots for them. They are being written until `complete`.
        """
        at = np.array(depths, np.int64)
        taken = self._cache.place(_fold(keys), at, self._now(), request.fields)
        self._enter(keys, taken)

    def complete(self, keys: Iterable[K], success: bool = True) -> list[K]:
        """End the writing of blocks: readable, or gone again; return which were."""
        done = [key for key in keys if self.lookup(key) is Status.PENDING]
        slots = self._find(done)
        self._writing[slots] = False
        if not success:
            self._remove(slots)
            return done
        unblock(self._slots, slots)
        self._cache.call(on_ready, slots)
        return done

    def pin(self, keys: Sequence[K]) -> None:
        """Keep readable blocks from eviction until as many calls of `unpin`."""
        block(self._slots, self._find(keys))

    def unpin(self, keys: Sequence[K]) -> None:
        """Undo `pin`."""
        slots = self._find(keys)
        unblock(self._slots, slots)
        self._cache.call(on_ready, slots[self._slots.blocked[slots] == 0])

    def evict(self, n: int, protected: Iterable[K] = ()) -> list[K] | None:
        """Evict exactly n blocks that are neither pinned nor protected, or none.

        Returns
        -------
        list of keys or None
            None where there are not n such blocks; then nothing has changed.
        """
        if n <= 0:
            return []
        kept = self._resident(protected)
        block(self._slots, kept)
        try:
            victims = self._cache.evict(n, self._now())
        finally:
            unblock(self._slots, kept)
        return None if victims is None else self._forget(victims)

    def remove(self, keys: Iterable[K]) -> None:
        """Take resident blocks out, whatever their state."""
        self._remove(self._resident(keys))

    def reset(self) -> None:
        """Empty the tier; counts of sights stay with the policy."""
        self._cache.reset()
        self._slot_of.clear()
        self._key_in = [None] * self.capacity
        self._writing[:] = False

    # Keys and slots

    def _now(self) -> float:
        if self.spec.age_unit == "key":
            return float(self._keys_used)
        if self.spec.age_unit == "second":
            return self.now_s
        return float(self._num_requests - 1)

    def _enter(self, keys: Sequence[K], slots: Int32Array) -> None:
        """Note which new keys are in which slots; they are being written."""
        for key, slot in zip(keys, slots.tolist(), strict=True):
            self._slot_of[key] = slot
            self._key_in[slot] = key
        self._writing[slots] = True
        block(self._slots, slots)
        self._keys_used += len(slots)

    def _find(self, keys: Sequence[K]) -> Int32Array:
        slot_of = self._slot_of
        return np.array([slot_of[key] for key in keys], np.int32)

    def _find_any(self, keys: Iterable[K]) -> Int32Array:
        get = self._slot_of.get
        return np.array([get(key, -1) for key in keys], np.int32)

    def _resident(self, keys: Iterable[K]) -> Int32Array:
        found = self._find_any(keys)
        return found[found >= 0]

    def _forget(self, slots: Int32Array) -> list[K]:
        """Drop the keys of freed slots from the map and return them."""
        gone: list[K] = []
        for slot in slots.tolist():
            key = self._key_in[slot]
            assert key is not None, "a freed slot had a key"
            self._key_in[slot] = None
            del self._slot_of[key]
            gone.append(key)
        return gone

    def _remove(self, slots: Int32Array) -> None:
        self._writing[slots] = False
        self._cache.remove(slots)
        self._forget(slots)


def _fold(keys: Iterable[Any]) -> Int64Array:
    """Return 63-bit identities: whole numbers as they are, bytes by their first 8."""
    folded = [
        (key if isinstance(key, int) else int.from_bytes(key[:8], "big")) & _MASK
        for key in keys
    ]
    return np.array(folded, np.int64)
