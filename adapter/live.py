"""Requests between their first call and their last, and what is under way for them.

A request's record hangs on its context, which vLLM keeps for as long as any call can
follow: a last store may come after the request's end, and reports of transfers do. It
is also found by the request's id until its end.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hotset.adapter import compat
from hotset.adapter.tags import Tags
from hotset.policies.keys import KeyBatch
from hotset.policies.request import Request

_ATTRIBUTE = "_hotset_live"


class Live:
    """One request.

    Its keys are learnt in order, each with its depth in its group, and what the driver
    works out of a key is kept: a long prompt is stored in many calls.

    Parameters
    ----------
    request : Request
        The request as policies see it.
    owner : LiveRequests
        Whose record it is; a context may pass through several managers.
    generation : int
        The tier's resets that ``found``, ``loading`` and ``storing`` know of.
    tags : Tags
        What the client said.
    arrival_s : float
        When it was first heard of, by the monotonic clock.

    Attributes
    ----------
    found : set
        Keys that its look-ups found in this step and that are not loaded yet.
    loading : dict
        Keys being read for it, and how often.
    storing : set
        Keys being written for it.
    num_loaded, num_stored : int
        Chunks that the tier gave and took.
    asked : object
        vLLM's own request, once it is known.
    gpu_tokens : int
        Tokens that the GPU cache had of it.
    from_ssd : set
        Keys that came, or are coming, from the SSD for it.
    num_from_ssd : int
        How many of the chunks that the tier gave were these.
    is_head_from_ssd : bool
        Whether the first chunk of its load was.
    in_ssd : object
        What the SSD tier knows of it.
    """

    def __init__(
        self,
        request: Request,
        owner: LiveRequests,
        generation: int,
        tags: Tags,
        arrival_s: float,
    ) -> None:
        self.request = request
        self.tags = tags
        self.arrival_s = arrival_s
        self.num_loaded = self.num_stored = self.gpu_tokens = 0
        self.asked: Any = None
        self.num_from_ssd, self.is_head_from_ssd = 0, False
        self.from_ssd: set[Any] = set()
        self.in_ssd: Any = None
        self.owner = owner
        self.generation = generation
        self.is_started = False
        self.is_ended = False
        self.found: set[Any] = set()
        self.loading: dict[Any, int] = {}
        self.storing: set[Any] = set()
        self.batch: KeyBatch[Any] = KeyBatch.of([])
        self._depths: list[int] = []
        self._place_of: dict[Any, int] = {}
        self._size_of_group: dict[int, int] = {}
        self._num_positions = 0

    def learn(self, req_context: Any, keys: Iterable[Any]) -> int:
        """Add the keys that are new; return how many were known before.

        Where this vLLM keeps the positions of a request's keys, those come first.
        """
        known = len(self.batch)
        located = compat.keys_since(req_context, self._num_positions)
        place_of = self._place_of
        new = [key for key in (*located, *keys) if key not in place_of]
        if new:
            self._add(list(dict.fromkeys(new)))
        self._num_positions += len(located)
        return known

    def part(
        self, keys: list[Any]
    ) -> tuple[KeyBatch[Any] | list[Any], list[int] | None]:
        """Return some of its keys as a batch, with their depths.

        Keys that could not be learnt come as they are, without depths.
        """
        try:
            places = list(map(self._place_of.__getitem__, keys))
        except KeyError:
            return keys, None
        depths = self._depths
        return (
            self.batch.part(keys, np.array(places, np.int64)),
            [depths[place] for place in places],
        )

    def _add(self, keys: list[Any]) -> None:
        known = len(self.batch)
        runs = compat.runs_of_groups(keys)
        self.batch.extend(keys)
        self._place_of.update(zip(keys, range(known, known + len(keys)), strict=True))
        for group, number in runs:
            size = self._size_of_group.get(group, 0)
            self._depths.extend(range(size, size + number))
            self._size_of_group[group] = size + number


class LiveRequests:
    """The requests of one manager.

    Parameters
    ----------
    on_gone : callable
        Takes a request that vLLM has dropped without a word, and its id.
    """

    def __init__(self, on_gone: Callable[[Live, str], None]) -> None:
        self._on_gone = on_gone
        self._generation = 0
        self._by_id: dict[str, Live] = {}
        self._finding: list[Live] = []  # those that may hold keys in `found`
        self._gone: deque[str] = deque()

    def __len__(self) -> int:
        self._forget_gone()
        return len(self._by_id)

    def start(
        self, req_context: Any, request: Request, tags: Tags, arrival_s: float
    ) -> Live:
        """Make a request's record."""
        live = Live(request, self, self._generation, tags, arrival_s)
        self._by_id[req_context.req_id] = live
        # A context without room for it is then known by its id alone.
        with contextlib.suppress(AttributeError):
            setattr(req_context, _ATTRIBUTE, live)
        if not compat.HAS_REQUEST_HOOKS:
            self._forget_gone()
            compat.call_when_gone(req_context, self._gone.append)
        return live

    def find(self, req_context: Any) -> Live | None:
        """Return a request's record, if there is one."""
        live: Live | None = getattr(req_context, _ATTRIBUTE, None)
        if live is None or live.owner is not self:
            live = self._by_id.get(req_context.req_id)
        if live is not None and live.generation != self._generation:
            live.generation = self._generation
            live.found.clear()
            live.loading.clear()
            live.storing.clear()
        return live

    def settle(self, req_id: str, is_ended: bool = False) -> None:
        """Forget a request's id once it has ended and nothing is under way for it."""
        live = self._by_id.get(req_id)
        if live is None:
            return
        live.is_ended = live.is_ended or is_ended
        if live.is_ended and not live.loading and not live.storing:
            del self._by_id[req_id]

    def note_found(self, live: Live, key: Any) -> None:
        """Note that a look-up of this step found a key."""
        if not live.found:
            self._finding.append(live)
        live.found.add(key)

    def found(self) -> list[Any]:
        """Return the keys that are found and not loaded yet, each request's sorted."""
        return [key for live in self._finding for key in sorted(live.found)]

    def end_step(self) -> None:
        """Forget what was found: the next step looks it up again."""
        for live in self._finding:
            live.found.clear()
        self._finding.clear()
        self._forget_gone()

    def reset(self) -> None:
        """Note a reset of the tier: what was found or under way is nobody's."""
        self._generation += 1
        self._finding.clear()
        for req_id in [i for i, live in self._by_id.items() if live.is_ended]:
            del self._by_id[req_id]

    def _forget_gone(self) -> None:
        """Settle requests of which vLLM has dropped the context without a word."""
        while self._gone:
            req_id = self._gone.popleft()
            live = self._by_id.get(req_id)
            if live is not None:
                self._on_gone(live, req_id)
            self.settle(req_id, is_ended=True)
