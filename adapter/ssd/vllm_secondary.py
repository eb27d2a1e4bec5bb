"""The SSD cache as a secondary tier of vLLM's own `TieringOffloadingSpec`.

From vLLM 0.28 on: ``"secondary_tiers": [{"type": "HotsetSsdTier", "module_path":
"hotset.adapter.ssd.vllm_secondary", "path": ..., "max_bytes": ...}]`` with the keys of
``"hotset": {"ssd": ...}``. Before, `SecondaryTierFactory.register_tier` takes the
class. vLLM's manager then writes all that its CPU tier stores and promotes what is
looked up; ``"mode"`` has no meaning here. `hotset.adapter.spec` needs none of this.

What fails in here is logged once, and ends the tier: look-ups miss, and what vLLM waits
for is reported as failed once no thread can touch its memory any more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from vllm.v1.kv_offload.tiering import base as tiering

from hotset.adapter import compat
from hotset.adapter.compat import base
from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.cache import SsdCache
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.short_steps import ShortSteps
from hotset.adapter.ssd.vllm_spec import namespace_of
from hotset.policies.request import Request

T = TypeVar("T")

# What vLLM's factory passes beside the tier's own keys.
_FOREIGN = ("backpressure_detector", "backpressure")
_MOST_REQUESTS = 4096  # that are known: vLLM up to 0.26 stores for ended ones


class HotsetSsdTier(tiering.SecondaryTierManager):  # type: ignore[misc]
    """A bounded, durable tier on SSD under one of hotset's policies.

    Parameters
    ----------
    offloading_spec : TieringOffloadingSpec
        Whose tier it is.
    primary_kv_view : memoryview
        The CPU tier, of (chunks, bytes).
    tier_type : str
        Its name.
    **given
        The configuration, and what this vLLM adds.

    Raises
    ------
    AdapterError
        If the configuration is wrong, or the path cannot be served.
    """

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        **given: Any,
    ) -> None:
        foreign = {name: given.pop(name) for name in _FOREIGN if name in given}
        foreign.pop("backpressure", None)
        super().__init__(offloading_spec, primary_kv_view, tier_type, **foreign)
        faults: list[str] = []
        config = SsdConfig.read(given, f'"secondary_tiers": "{tier_type}"', faults)
        if config is None:
            raise AdapterError("\n".join(faults))
        count = primary_kv_view.shape[0] if primary_kv_view.shape else 0
        self._row_bytes = primary_kv_view.nbytes // max(1, count)
        namespace = namespace_of(offloading_spec, self._row_bytes)
        self._memory = primary_kv_view.cast("B")
        self._drain_s = config.store_deadline_s + config.load_deadline_s
        self.cache = SsdCache.open(config, namespace, self._row_bytes)
        self._requests: dict[str, tuple[Request, set[Any]]] = {}
        self._done: list[Any] = []
        self._left: dict[int, int] = {}
        self._loaded: dict[int, list[Any]] = {}
        self._failed: set[int] = set()
        self._short_steps = ShortSteps()
        self._close_s = config.close_deadline_s
        self._is_broken = False
        compat.LOG.info("hotset: SSD tier, %s", config.describe())

    def lookup(self, key: Any, req_context: Any) -> Any:
        """Return whether a chunk can be promoted."""
        found = self._try(self.cache.lookup, bytes(key))
        return compat.HIT if found else compat.MISS

    def submit_store(self, job_metadata: Any) -> None:
        """Write chunks that are not here; what is not taken is done with."""
        self._left[job_metadata.job_id] = 1  # as long as nobody knows how many
        self._try(self._store, job_metadata)

    def _store(self, job_metadata: Any) -> None:
        rows = dict(zip(job_metadata.keys, _rows(job_metadata), strict=True))
        new = [key for key in rows if key not in self.cache]
        job, request = job_metadata.job_id, self._hear(job_metadata.req_context, rows)
        views = [self._view(rows[key]) for key in new]
        taken = self.cache.store(
            job, new, views, list(range(len(new))), request, time.monotonic()
        )
        self._begin(job, sum(taken))

    def submit_load(self, job_metadata: Any) -> None:
        """Read chunks into the CPU tier."""
        self._left[job_metadata.job_id] = 1
        self._loaded[job_metadata.job_id] = []
        self._try(self._load, job_metadata)

    def _load(self, job_metadata: Any) -> None:
        job, keys = job_metadata.job_id, list(job_metadata.keys)
        views = [self._view(row) for row in _rows(job_metadata)]
        if not self.cache.load(job, keys, views):
            self._failed.add(job)
            keys = []
        self._begin(job, len(keys))

    def get_finished_jobs(self) -> Iterable[Any]:
        """Return the jobs that are over since the last call; each step has one."""
        self._try(self._take)
        if self._is_broken and self._left and self.cache.stop(0.0):
            for job in list(self._left):
                self._failed.add(job)
                self._loaded.get(job, []).clear()
                self._end(job)
        self._short_steps.end_step(is_waiting=bool(self._loaded))
        done, self._done = self._done, []
        return done

    def _take(self) -> None:
        for report in self.cache.finished():
            job = report.job
            if job not in self._left:
                continue
            self._left[job] -= len(report.done) + len(report.failed)
            if job in self._loaded:
                self._loaded[job] += report.done
            if report.failed:
                self._failed.add(job)
            if self._left[job] <= 0:
                self._end(job)

    get_finished = get_finished_jobs  # up to 0.22

    def touch(self, keys: Collection[Any], req_context: Any) -> None:
        """Tell the policy what a request uses; vLLM up to 0.30 calls this."""
        self._try(self._hear, req_context, keys)

    def on_new_request(self, req_context: Any) -> Any:
        """Ask for no more than each chunk as it is stored."""
        return base.RequestOffloadingContext()

    def on_request_finished(self, req_context: Any) -> None:
        """Forget a request."""
        self._requests.pop(req_context.req_id, None)

    def drain_jobs(self) -> None:
        """Wait for what is under way, as vLLM wants it before it resets its tier."""
        self._try(self.cache.drain, self._drain_s)

    def shutdown(self) -> None:
        """Make durable what is under way, for so long at most, and end."""
        self._is_broken = False  # its threads and files are to end all the same
        self._try(self.cache.close)
        self._memory.release()

    def _try(self, call: Callable[..., T], *what: Any) -> T | None:
        """Call what may fail; nothing is called after the first failure."""
        if self._is_broken:
            return None
        try:
            return call(*what)
        except Exception as error:
            self._is_broken = True
            compat.LOG.error("hotset: the SSD tier failed: %r", error, exc_info=error)
            self.cache.stop(self._close_s)
            return None

    def _begin(self, job: int, count: int) -> None:
        self._left[job] = count
        if not count:
            self._end(job)

    def _end(self, job: int) -> None:
        del self._left[job]
        loaded = self._loaded.pop(job, None)
        is_whole = job not in self._failed
        self._failed.discard(job)
        result = tiering.JobResult(job_id=job, success=is_whole)
        if loaded and not is_whole and hasattr(result, "successful_keys"):
            result.successful_keys = loaded
        self._done.append(result)

    def _hear(self, req_context: Any, keys: Iterable[Any]) -> Request:
        """Tell the policy of a request's keys, each once."""
        request, told = self._requests.setdefault(
            req_context.req_id, (Request.of(), set())
        )
        if len(self._requests) > _MOST_REQUESTS:
            del self._requests[next(iter(self._requests))]
        new = [key for key in dict.fromkeys(keys) if key not in told]
        told.update(new)
        self.cache.on_request(request, new, time.monotonic())
        return request

    def _view(self, row: int) -> memoryview:
        return self._memory[row * self._row_bytes : (row + 1) * self._row_bytes]


def _rows(job: Any) -> list[int]:
    found = getattr(job, "chunk_ids", None)
    return [int(row) for row in (job.block_ids if found is None else found)]
