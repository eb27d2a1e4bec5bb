"""A vLLM cache policy over a policy driver, for deployments that keep vLLM's own spec.

``"eviction_policy": "hotset-marconi"`` (registered by `hotset.adapter.plugin`), or
``"eviction_policy": "HotsetMarconiPolicy", "cache_policy_module_path":
"hotset.adapter.policy"``, runs a policy with its default parameters under vLLM's
manager, from vLLM 0.28 on. vLLM gives such a policy no configuration and no way to
refuse a chunk, so tuned parameters, admission and policies that refuse need the spec.

vLLM's manager reports chunk by chunk. Calls are kept until the next decision and put to
the driver in batches; the manager's set order within a batch is replaced by the order
in which the chunks were taken, so that hash order decides nothing.

A policy hears of a request once, whatever is reported how often: its known keys, then
its resident chunks as used. A context that holds no state (vLLM 0.26), or none at all
(0.24), makes each report a request of its own; neither version has a registry.

An order that mirrors a version of vLLM (``order=vllm-...``) is the exception: it is
told what vLLM's own policies are told, as often and in the order of the calls.
"""

from __future__ import annotations

import enum
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

from hotset.adapter import compat
from hotset.adapter.names import SPEC_MODULE, SPEC_NAME, class_name
from hotset.adapter.tags import TagReader
from hotset.policies import POLICIES, PolicyError
from hotset.policies.base import known_names
from hotset.policies.driver import PolicyDriver, Status
from hotset.policies.request import Request

_LOG = logging.getLogger(__name__)


class _Call(enum.Enum):
    """Reports on single chunks that wait for the next decision."""

    INSERT = "insert"
    RELEASE = "release"  # written, or read by nobody any more
    HOLD = "hold"
    REMOVE = "remove"


@dataclass(eq=False)
class _Live:
    """What one policy knows of a request."""

    owner: Any
    request: Request
    keys: dict[Any, int] = field(default_factory=dict)  # key to depth, head first
    num_in_group: dict[int, int] = field(default_factory=dict)
    is_started: bool = False


class HotsetCachePolicy(CachePolicy):  # type: ignore[misc]
    """One of hotset's policies as vLLM's manager wants it.

    Parameters
    ----------
    cache_capacity : int
        Chunks of the tier; the manager never holds more.

    Raises
    ------
    PolicyError
        If the policy cannot run this way; one line says what it needs.
    """

    text: ClassVar[str] = "lru"

    def __init__(self, cache_capacity: int) -> None:
        spec, params = POLICIES.parse(self.text)
        order = str(getattr(params, "order", ""))
        self._mirrors_vllm = order.startswith("vllm-")
        if spec.refuses(params) and not self._mirrors_vllm:
            raise PolicyError(
                f"hotset: policy {self.text} can refuse to store a chunk, which vLLM's "
                "eviction_policy cannot: it needs the spec, "
                f'"spec_name": "{SPEC_NAME}", "spec_module_path": "{SPEC_MODULE}", '
                f'"hotset": {{"policy": "{self.text}"}}'
            )
        self.cache_capacity = cache_capacity
        self.driver: PolicyDriver[Any] = PolicyDriver(spec, params, cache_capacity)
        self.driver.warm_up()
        self.tags = TagReader()  # nobody can say here that clients are trusted
        # Up to 0.30 a touch is a use, later what a finished request leaves behind.
        self._touch_is_use = order in ("vllm-0.24", "vllm-0.30")
        # vLLM's ARC counts what a request found, at its end; what a request asked for
        # in vain, and another one stored, its LRU renews and its ARC does not.
        self._is_arc = spec.name == "arc"
        self._owner = object()
        self._chunks: dict[Any, Any] = {}
        self._held: dict[Any, int] = {}  # chunks not evictable, by when they were taken
        self._taken = 0
        self._call: _Call | None = None
        self._waiting: list[Any] = []
        # Whose keys are about to be inserted: only 0.33 says so in the call itself.
        self._announced: OrderedDict[Any, _Live] = OrderedDict()
        _LOG.info("hotset: policy %s, %d chunks", self.text, cache_capacity)

    # Chunks

    def get(self, key: Any) -> Any:
        """Return the status of a resident chunk, or None; changes nothing."""
        return self._chunks.get(key)

    def insert(self, key: Any, status: Any, req_context: Any = None) -> None:
        """Take in a chunk that is about to be written."""
        if key in self._chunks:
            self._chunks[key] = status
            return
        live = self._announced.get(key)
        if req_context is not None:
            live = self._live_of(req_context)
        self._chunks[key] = status
        self._take(key)
        self._wait(_Call.INSERT, (key, live))
        if status.ref_cnt == 0:
            self.mark_evictable(key)

    def remove(self, key: Any) -> None:
        """Take out a chunk whose writing failed."""
        if self._chunks.pop(key, None) is not None:
            self._wait(_Call.REMOVE, (key, self._held.pop(key, 0)))

    def mark_evictable(self, key: Any) -> None:
        """Note that nobody writes or reads a chunk any more."""
        taken = self._held.pop(key, None)
        if taken is not None:
            self._wait(_Call.RELEASE, (key, taken))

    def mark_non_evictable(self, key: Any) -> None:
        """Note that a chunk is being read."""
        self._take(key)
        self._wait(_Call.HOLD, key)

    def evict(self, n: int, protected: set[Any]) -> list[tuple[Any, Any]] | None:
        """Evict exactly n chunks, or return None with nothing changed."""
        self._flush()
        victims = self.driver.evict(n, protected)
        if victims is None:
            return None
        return [(key, self._chunks.pop(key)) for key in victims]

    def clear(self) -> None:
        """Forget every chunk; what the policy learned of traffic stays."""
        self._call = None
        self._waiting.clear()
        self._chunks.clear()
        self._held.clear()
        self._announced.clear()
        self.driver.reset()
        if self._mirrors_vllm:
            self._owner = object()

    # Requests

    def touch(self, keys: Iterable[Any], req_context: Any = None) -> None:
        """Note a request's keys, resident or not; vLLM up to 0.30 names them here."""
        touched = list(keys)
        live = self._note(req_context, touched)
        if self._mirrors_vllm and self._touch_is_use:
            self.driver.observe(live.request, touched)
            self.driver.hit(live.request, touched)
        elif self._mirrors_vllm:
            self.driver.finish(live.request, touched)

    def on_store_miss(self, keys: Iterable[Any], req_context: Any) -> None:
        """Note keys that a request is about to store."""
        missing = list(keys)
        live = self._note(req_context, missing)
        depths = [live.keys[key] for key in missing]
        self.driver.announce(live.request, missing, depths)

    def on_request_access(self, keys: Iterable[Any], req_context: Any) -> None:
        """Note keys that a request uses for the first time."""
        used = list(keys)
        live = self._note(req_context, used)
        if self._mirrors_vllm and not self._is_arc:
            self.driver.hit(live.request, used)

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[Any]],
        insertion_only_keys: set[Any],
        reused_keys: set[Any],
        req_context: Any,
    ) -> None:
        """Put a finished request's chunks in order, heads last to go."""
        keys = [key for group in key_groups for key in group]
        live = self._note(req_context, keys)
        if self._mirrors_vllm:
            keys = _by_position(keys, req_context)
            if self._is_arc:
                keys = [k for k in keys if k in reused_keys or k in insertion_only_keys]
                self.driver.hit(live.request, [k for k in keys if k in reused_keys])
            self.driver.finish(live.request, keys)
        else:
            self.driver.finish(live.request, live.keys)
        for key in live.keys:
            if self._announced.get(key) is live:
                del self._announced[key]

    def _note(self, req_context: Any, keys: list[Any]) -> _Live:
        self._flush()
        live = self._live_of(req_context)
        self._start(live, req_context, keys)
        return live

    def _live_of(self, req_context: Any) -> _Live:
        """Return what is known of a request, a new one where that is nothing."""
        live = compat.request_state(req_context, _Live)
        if live is None or live.owner is not self._owner:
            live = _Live(self._owner, self._begin(req_context))
            compat.keep_request_state(req_context, live)
        return live

    def _begin(self, req_context: Any) -> Request:
        now_s = time.monotonic()
        if self.driver.spec.age_unit == "second":
            self.driver.now_s = now_s
        params = getattr(req_context, "kv_transfer_params", None)
        tags = self.tags.read(params)
        return self.driver.begin(source_type=tags.source_type, priority=tags.priority)

    def _start(self, live: _Live, req_context: Any, keys: list[Any]) -> None:
        """Tell the policy of keys that it has not heard of in this request."""
        if all(key in live.keys for key in keys):
            return
        known = [*compat.keys_since(req_context, 0), *keys]
        new = [key for key in dict.fromkeys(known) if key not in live.keys]
        for key in new:
            group = compat.group_of(key)
            live.keys[key] = live.num_in_group.get(group, 0)
            live.num_in_group[group] = live.keys[key] + 1
        self._announce(live, new)
        if not self._mirrors_vllm:
            self.driver.observe(live.request, new)
            if not live.is_started:
                self.driver.hit(live.request, new)
        live.is_started = True

    def _announce(self, live: _Live, keys: list[Any]) -> None:
        for key in keys:
            if key not in self._chunks:
                self._announced[key] = live
                self._announced.move_to_end(key)
        while len(self._announced) > 4 * self.cache_capacity:
            self._announced.popitem(last=False)

    # Calls that wait

    def _take(self, key: Any) -> None:
        self._taken += 1
        self._held[key] = self._taken

    def _wait(self, call: _Call, what: Any) -> None:
        if call is not self._call:
            self._flush()
            self._call = call
        self._waiting.append(what)

    def _flush(self) -> None:
        """Put the calls that wait to the driver."""
        call, self._call = self._call, None
        waiting, self._waiting = self._waiting, []
        if call is _Call.INSERT:
            for live, chunks in itertools.groupby(waiting, key=lambda pair: pair[1]):
                self._insert(live, [key for key, _ in chunks])
        elif call is _Call.HOLD:
            self.driver.pin(waiting)
        elif call is not None:
            if not self._mirrors_vllm:
                waiting.sort(key=lambda pair: pair[1])
            keys = [key for key, _ in waiting]
            if call is _Call.REMOVE:
                self.driver.remove(keys)
            else:
                self._release(keys)

    def _insert(self, live: _Live | None, keys: list[Any]) -> None:
        if live is None:
            live = _Live(self._owner, self._begin(None))
        self._start(live, None, keys)
        self.driver.insert(live.request, keys, [live.keys[key] for key in keys])
        if not self._mirrors_vllm:
            # Now, not at the end, which older versions do not report.
            self.driver.finish(live.request, live.keys)

    def _release(self, keys: list[Any]) -> None:
        def is_written(key: Any) -> bool:
            return self.driver.lookup(key) is Status.PENDING

        for written, some in itertools.groupby(keys, key=is_written):
            if written:
                self.driver.complete(list(some))
            else:
                self.driver.unpin(list(some))


def _by_position(keys: list[Any], req_context: Any) -> list[Any]:
    """Return keys of all groups head to tail, where all positions are known."""
    places = {key: req_context.get_offload_key_position(key) for key in keys}
    if None in places.values():
        return keys
    return sorted(keys, key=places.__getitem__)


@cache
def policy_class(text: str) -> type[HotsetCachePolicy]:
    """Return the class that runs a policy, given as on the command line.

    Raises
    ------
    PolicyError
        For an unknown policy or a wrong parameter.
    """
    spec, _ = POLICIES.parse(text)
    members = {"text": text, "__module__": __name__}
    return type(class_name(spec.name), (HotsetCachePolicy,), members)


def __getattr__(name: str) -> Any:
    """Return the class of a registered policy, ``Hotset<Policy>Policy``."""
    policies = {class_name(policy): policy for policy in POLICIES.names()}
    if name not in policies:
        hint = known_names(name, policies) if name.startswith("Hotset") else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return policy_class(policies[name])
