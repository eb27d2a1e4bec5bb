"""One cache tier driven from Python: keys of any kind, batches, pins, a fallback.

`PolicyDriver` runs the same kernels as the replay loop for callers that bring their own
requests: the simulated tier and the vLLM adapter. It maps keys to slots, tells blocks
being written from readable ones, and keeps a plain LRU order of its own beside the
policy's. Should the policy's code ever fail or choose impossible victims, that is
logged once and counted, and the tier goes on with the LRU order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from hotset.policies.admission import ALWAYS
from hotset.policies.arrays import Float64Array, Int32Array, Int64Array
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.guarded import GuardedPolicy
from hotset.policies.guarded_admission import GuardedAdmission
from hotset.policies.identities import distinct
from hotset.policies.keys import KeyBatch, KeyMap, fold, folded_of
from hotset.policies.outcomes import Status as Status
from hotset.policies.outcomes import Stored as Stored
from hotset.policies.request import Request
from hotset.policies.slots import EMPTY, block, unblock
from hotset.policies.verbs import on_finish, on_hit, on_ready, on_request
from hotset.policies.warm_up import use_all

K = TypeVar("K", bound=Hashable)


_MISS, _PENDING, _HIT = Status.MISS, Status.PENDING, Status.HIT


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
        spec.check_online()
        self.spec = spec
        self.capacity = capacity
        self.now_s = 0.0
        state = spec.make(params, capacity, None)
        self._cache = GuardedPolicy(spec.name, state, capacity, spec.refuses(params))
        self._slots = self._cache.slots
        self._run = self._cache.run
        self._params = params
        self._rule = admission
        self._rule_params = admission_params or admission.params()
        rule = admission.make(self._rule_params)
        self._admission = GuardedAdmission(admission.name, rule)
        self._map: KeyMap[K] = KeyMap(self._slots)
        self._is_written = bytearray(capacity)  # 1 while a slot is being written
        self._writing = np.frombuffer(self._is_written, np.bool_)
        self._depths = np.zeros(capacity, np.int32)  # of blocks in their requests
        self._num_requests = 0
        self._keys_used = 0

    def warm_up(self) -> None:
        """Compile every kernel that this tier and its fallback can call.

        Small tiers of the same kinds go through all calls; this one is untouched.
        """
        # A rule may refuse all that a small tier offers, so that nothing is stored.
        for rule, params in ((self._rule, self._rule_params), (ALWAYS, None)):
            tier = PolicyDriver[int](self.spec, self._params, 2, rule, params)
            use_all(tier, self.spec, self._params, rule, params)

    # What is there

    def __len__(self) -> int:
        return len(self._map.slot_of)

    def __contains__(self, key: object) -> bool:
        return key in self._map.slot_of

    @property
    def num_evictable(self) -> int:
        """Blocks that could be evicted now."""
        return self._cache.num_evictable()

    @property
    def num_free(self) -> int:
        """Free slots."""
        return self._cache.num_free()

    @property
    def fallen_back(self) -> bool:
        """Whether the policy failed and the tier runs on plain LRU."""
        return self._cache.fallen_back

    @property
    def num_faults(self) -> int:
        """How often the policy or the admission rule failed."""
        return self._cache.num_faults + self._admission.num_faults

    @property
    def is_changing(self) -> bool:
        """Whether another policy is learning what is here, see `carry_on`."""
        return self._cache.is_changing

    def fall_back(self) -> None:
        """Go on with plain LRU from now on, after a failure of the caller's own."""
        self._cache.fall_back()

    def lookup(self, key: K) -> Status:
        """Return whether a key is here; changes nothing."""
        slot = self._map.slot_of.get(key)
        if slot is None:
            return _MISS
        return _PENDING if self._is_written[slot] else _HIT

    def slot(self, key: K) -> int:
        """Return the slot of a resident key.

        Raises
        ------
        KeyError
            If the key is not resident.
        """
        return self._map.slot_of[key]

    def scores(self, keys: Sequence[K]) -> Float64Array:
        """Return the policy's worth of resident keys; the lowest goes first."""
        return self._cache.scores(self._map.find(keys), self._now())

    # Requests

    def begin(self, **known: float) -> Request:
        """Start a request; what is known of it is what `Request.of` takes."""
        self._num_requests += 1
        return Request.of(**known)

    def observe(self, request: Request, keys: Sequence[K] | KeyBatch[K]) -> None:
        """Note keys of a request, resident or not, head first; once for each key."""
        slots = self._map.look_up(keys)
        if not request.is_observed:
            request.is_observed = True
            gaps = np.flatnonzero(slots < 0)
            run = gaps[0] if len(gaps) else len(slots)
            request.note_prompt(len(keys), int(run))
        told, slots = self._map.identities.of_seen(folded_of(keys), slots)
        self._cache.call(on_request, told, slots, self._now(), request.fields)

    def note_lookup(self, keys: Sequence[K]) -> None:
        """Note keys that were looked up, the first miss included."""
        self._admission.on_lookup(fold(keys))

    def hit(self, request: Request, keys: Iterable[K] | KeyBatch[K]) -> None:
        """Note that a request uses those of its keys that are resident, in order."""
        slots = self._map.resident(keys)
        self._cache.call(on_hit, slots, self._now(), request.fields)
        self._keys_used += len(slots)

    def finish(self, request: Request, keys: Iterable[K] | KeyBatch[K]) -> None:
        """Put a request's blocks in order, after a store or at its end.

        ``keys`` are its blocks, head first; those that are not resident do not matter.
        """
        slots = self._map.resident(keys)
        self._cache.call(on_finish, slots, self._now(), request.fields)

    # Blocks come and go

    def offer(
        self,
        request: Request,
        keys: Sequence[K] | KeyBatch[K],
        depths: Sequence[int] | Int64Array | None = None,
        whole: bool = True,
        protected: Sequence[K] = (),
    ) -> Stored[K] | None:
        """Offer blocks for storing; what is taken is being written until `complete`.

        Parameters
        ----------
        request : Request
            Whose blocks they are.
        keys : sequence or KeyBatch
            Keys in head-to-tail order, each once; resident ones stay.
        depths : sequence of int, optional
            0-based places of the keys in their request; default 0, 1, 2, ...
        whole : bool
            Whether what is wanted must fit as a whole (vLLM); otherwise its longest
            prefix that fits is stored.
        protected : sequence, optional
            More keys that are not to go, resident or not.

        Returns
        -------
        Stored or None
            None where what policy and admission want does not fit beside pinned and
            offered blocks; then nothing has changed but the counts of sights.
        """
        folded = folded_of(keys)
        self._admission.on_offer(folded)
        offered = self._map.look_up(keys)
        missing = np.flatnonzero(offered < 0)
        places = self._admission.keep(folded, missing)
        unwanted = len(missing) - len(places)
        if not len(places):
            return Stored([], [], [], refused_by_admission=unwanted)
        names = keys.keys if isinstance(keys, KeyBatch) else keys
        places, newcomers = self._map.newcomers(names, folded, places)
        at = places if depths is None else np.asarray(depths, np.int64)[places]
        kept = offered
        if protected:
            kept = np.concatenate((offered, self._map.look_up(protected)))
        self._run(block, self._slots, kept)
        try:
            result = self._cache.store(
                newcomers, at, self._now(), request.fields, whole
            )
        finally:
            self._run(unblock, self._slots, kept)
        if result is None:
            return None
        taken, victims = result
        self._depths[taken] = at[: len(taken)]
        stored = [names[i] for i in places[: len(taken)].tolist()]
        evicted = self._map.forget(victims)
        entered = self._enter(stored, newcomers[: len(taken)], taken)
        refused = len(places) - len(taken) if whole else 0
        return Stored(stored, evicted, entered, victims.tolist(), unwanted, refused)

    def announce(
        self, request: Request, keys: Sequence[K], depths: Sequence[int]
    ) -> None:
        """Tell the policy of missing blocks that the caller will `insert`.

        That is what `offer` does before it evicts; here the caller evicts.
        """
        at = np.array(depths, np.int64)
        newcomers = self._map.identities.of_newcomers(fold(keys))
        self._cache.announce(newcomers, at, self._now(), request.fields)

    def insert(
        self, request: Request, keys: Sequence[K], depths: Sequence[int]
    ) -> None:
        """Take in missing blocks that the caller stores in any case.

        There must be free slots for them. They are being written until `complete`.
        """
        at = np.array(depths, np.int64)
        newcomers = self._map.identities.of_newcomers(fold(keys))
        taken = self._cache.place(newcomers, at, self._now(), request.fields)
        self._depths[taken] = at
        self._enter(keys, newcomers, taken)

    def complete(self, keys: Iterable[K], success: bool = True) -> list[K]:
        """End the writing of blocks: readable, or gone again; return which were."""
        slots = self._map.resident(keys)
        slots = slots[self._writing[slots]]
        done = self._map.keys_in(slots)
        self._writing[slots] = False
        if not success:
            self._remove(slots)
            return done
        self._run(unblock, self._slots, slots)
        self._cache.call(on_ready, slots)
        return done

    def pin(self, keys: Iterable[K]) -> list[int]:
        """Keep readable blocks from eviction until as many calls of `unpin`.

        Returns
        -------
        list of int
            Their slots.
        """
        slots = self._map.find(keys)
        self._run(block, self._slots, slots)
        return slots.tolist()

    def unpin(self, keys: Iterable[K]) -> None:
        """Undo `pin`."""
        slots = self._map.find(keys)
        self._run(unblock, self._slots, slots)
        free = distinct(self._run, slots[self._slots.blocked[slots] == 0])
        self._cache.call(on_ready, free)

    def evict(self, n: int, protected: Iterable[K] = ()) -> list[K] | None:
        """Evict exactly n blocks that are neither pinned nor protected, or none.

        Returns
        -------
        list of keys or None
            None where there are not n such blocks; then nothing has changed.
        """
        freed = self.displace(n, protected)
        return None if freed is None else freed[0]

    def displace(
        self, n: int, protected: Iterable[K] = ()
    ) -> tuple[list[K], list[int]] | None:
        """Evict as `evict` does; return the keys and the slots that they were in."""
        if n <= 0:
            return [], []
        kept = self._map.resident(protected)
        self._run(block, self._slots, kept)
        try:
            victims = self._cache.evict(n, self._now())
        finally:
            self._run(unblock, self._slots, kept)
        if victims is None:
            return None
        return self._map.forget(victims), victims.tolist()

    def remove(self, keys: Iterable[K]) -> None:
        """Take resident blocks out, whatever their state."""
        self._remove(self._map.resident(keys))

    def retune(
        self,
        spec: PolicySpec,
        params: Params,
        admission: AdmissionSpec = ALWAYS,
        admission_params: Params | None = None,
    ) -> None:
        """Go on under another policy and rule, with the blocks that are here.

        The policy hears of them in the order of their last uses, a large tier's slice
        by slice in `carry_on`. A new rule counts anew.
        """
        spec.check_online()
        state = spec.make(params, self.capacity, None)
        rule_params = admission_params or admission.params()
        if (admission, rule_params) != (self._rule, self._rule_params):
            rule = GuardedAdmission(admission.name, admission.make(rule_params))
            rule.num_faults = self._admission.num_faults
            self._admission = rule
            self._rule, self._rule_params = admission, rule_params
        self.spec, self._params = spec, params
        told = self._depths, self._now(), spec.age_unit
        self._cache.replace(spec.name, state, spec.refuses(params), *told)

    def carry_on(self) -> None:
        """Tell a policy that takes over of more blocks; LRU chooses until then."""
        self._cache.carry_on()

    def resident_slots(self) -> Int32Array:
        """Return the slots that are taken; goes through all of them."""
        return np.flatnonzero(self._slots.key != EMPTY).astype(np.int32)

    def reset(self) -> None:
        """Empty the tier; counts of sights stay with the policy."""
        self._cache.reset()
        self._map.clear()
        self._writing[:] = False

    # Keys and slots

    def _now(self) -> float:
        if self.spec.age_unit == "key":
            return float(self._keys_used)
        if self.spec.age_unit == "second":
            return self.now_s
        return float(self._num_requests - 1)

    def _enter(
        self, keys: Sequence[K], identities: Int64Array, slots: Int32Array
    ) -> list[int]:
        """Note which new keys are in which slots; they are being written."""
        places = self._map.put(keys, identities, slots)
        self._writing[slots] = True
        self._run(block, self._slots, slots)
        self._keys_used += len(places)
        return places

    def _remove(self, slots: Int32Array) -> None:
        self._writing[slots] = False
        self._cache.remove(slots)
        self._map.forget(slots)
