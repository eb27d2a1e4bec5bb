"""The offloading manager: vLLM's calls, put to a policy driver.

The driver owns which chunk is where and what goes; this module owns the order in which
a policy hears of a request: its keys once, its resident chunks as used once, its
stores, its end. vLLM's calls differ between versions in what they report and how often;
what the policy hears does not.

Memory for each resident chunk: under `lru` 24 bytes of arrays (slot table, the policy's
and the fallback's links), and about 250 bytes for the key and its entries in the maps
from keys to slots and back.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from vllm.v1.kv_offload import base

from hotset.adapter import compat
from hotset.adapter.tags import TagReader
from hotset.policies.driver import PolicyDriver, Request


@dataclass
class _Live:
    """A request between its first call and its last."""

    request: Request
    keys: dict[Any, int] = field(default_factory=dict)  # key to depth, head first
    is_started: bool = False


class HotsetManager(base.OffloadingManager):  # type: ignore[misc]
    """A CPU tier under one of hotset's policies.

    Parameters
    ----------
    driver : PolicyDriver
        The tier.
    enable_events : bool
        Whether stores and removals are collected for `take_events`.
    trusted_tags : bool
        Whether clients' tenants and ends of sessions count.
    """

    def __init__(
        self,
        driver: PolicyDriver[Any],
        enable_events: bool = False,
        trusted_tags: bool = False,
    ) -> None:
        self.driver = driver
        self.tags = TagReader(trusted_tags)
        self._events: list[Any] | None = [] if enable_events else None
        self._live: dict[str, _Live] = {}

    # Requests

    def on_new_request(self, req_context: Any) -> Any:
        """Start a request."""
        self._live[req_context.req_id] = _Live(self._begin(req_context))
        return base.RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        """End a request: its chunks are put in order, heads last to go."""
        live = self._live.pop(req_context.req_id, None)
        if live is not None:
            self._note_keys(live, req_context, ())
            self.driver.finish(live.request, live.keys)

    def touch(self, keys: Collection[Any], req_context: Any) -> None:
        """Learn a request's keys; vLLM up to 0.30 names them all here."""
        self._start(req_context, keys)

    # Loads

    def lookup(self, key: Any, req_context: Any) -> Any:
        """Return whether a chunk can be loaded."""
        return compat.lookup_answer(self.driver.lookup(key))

    def prepare_load(self, keys: Collection[Any], req_context: Any) -> Any:
        """Pin chunks for a load."""
        self._start(req_context, keys)
        wanted = list(keys)
        self.driver.pin(wanted)
        return compat.load_store_spec([self.driver.slot(key) for key in wanted])

    def complete_load(self, keys: Collection[Any], req_context: Any) -> None:
        """Unpin chunks; the order in which vLLM's set gives them does not matter."""
        self.driver.unpin(self._in_slot_order(keys))

    # Stores

    def prepare_store(self, keys: Collection[Any], req_context: Any) -> Any:
        """Make room for those of the chunks that are worth it; None where none fits."""
        live = self._start(req_context, keys)
        offered = list(keys)
        stored = self.driver.offer(
            live.request, offered, [live.keys[key] for key in offered]
        )
        if stored is None:
            return None
        if stored.keys:
            # Now, not at the end: vLLM tells of an end after the next request's start.
            self.driver.finish(live.request, live.keys)
        if stored.evicted and self._events is not None:
            self._events.append(compat.removal_events(stored.evicted, removed=True))
        return base.PrepareStoreOutput(
            keys_to_store=stored.keys,
            store_spec=compat.load_store_spec(
                [self.driver.slot(key) for key in stored.keys]
            ),
            evicted_keys=stored.evicted,
        )

    def complete_store(
        self, keys: Collection[Any], req_context: Any, success: bool = True
    ) -> None:
        """End the writing of chunks: readable from now on, or gone."""
        resident = self._in_slot_order(key for key in keys if key in self.driver)
        done = self.driver.complete(resident, success)
        if done and self._events is not None:
            self._events.append(compat.removal_events(done, removed=not success))

    # The tier

    def reset_cache(self) -> None:
        """Empty the tier; transfers in flight are flushed by the scheduler."""
        self.driver.reset()

    def take_events(self) -> Iterable[Any]:
        """Return the events since the last call."""
        taken, self._events = self._events, None if self._events is None else []
        return taken or ()

    def _begin(self, req_context: Any) -> Request:
        params = getattr(req_context, "kv_transfer_params", None)
        tags = self.tags.read(params, time.monotonic())
        return self.driver.begin(source_type=tags.source_type, priority=tags.priority)

    def _start(self, req_context: Any, keys: Iterable[Any]) -> _Live:
        """Tell the policy of a request, on the first call that knows its keys."""
        live = self._live.get(req_context.req_id)
        if live is None:
            # A last store can follow the end of its request in some versions.
            live = _Live(self._begin(req_context), is_started=True)
        known = len(live.keys)
        self._note_keys(live, req_context, keys)
        if not live.is_started:
            live.is_started = True
            every = list(live.keys)
            self.driver.observe(live.request, every)
            self.driver.hit(live.request, every)
        elif len(live.keys) > known:
            self.driver.observe(live.request, list(live.keys)[known:])
        return live

    def _note_keys(self, live: _Live, req_context: Any, keys: Iterable[Any]) -> None:
        """Add keys to a request's list, each with its depth in its group."""
        known = compat.known_keys(req_context)
        for key in keys if known is None else known:
            if key not in live.keys:
                live.keys[key] = 0
        depth_of_group: dict[int, int] = {}
        for key in live.keys:
            group = compat.group_of(key)
            live.keys[key] = depth_of_group.get(group, 0)
            depth_of_group[group] = live.keys[key] + 1

    def _in_slot_order(self, keys: Iterable[Any]) -> list[Any]:
        return sorted(keys, key=self.driver.slot)
