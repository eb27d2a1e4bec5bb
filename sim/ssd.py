"""The SSD tier behind the CPU tier: which chunks it holds, and what is written to it.

A `PolicyDriver` of its own under a policy and an admission rule of its own. A chunk
that is being written is no hit, one that is being read is pinned. What is written keeps
to a budget of bytes a day and to a bound of bytes that wait; what does not is left out
and counted. The policy hears once of each request, of all its chunks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hotset.policies.admission import ThresholdParams
from hotset.policies.arrays import Float64Array
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.driver import PolicyDriver, Status
from hotset.policies.errors import PolicyError
from hotset.policies.lru import SPEC as LRU
from hotset.policies.lru import LruParams
from hotset.policies.request import Request
from hotset.sim.engines import ENGINES
from hotset.sim.job import Job
from hotset.sim.replay import RunConfig, resolve
from hotset.sim.workload import Workload

Mode = Literal["write-through", "demote"]
MODES: tuple[Mode, ...] = ("write-through", "demote")

DAY_S = 86_400.0
_BURST_DAYS = 1 / 24  # what may be written at once after a pause


@dataclass(frozen=True)
class SsdConfig:
    """An SSD tier.

    Parameters
    ----------
    policy, params : PolicySpec, Params
        The eviction policy.
    admission, admission_params : AdmissionSpec, Params
        What is worth being written; a sight of a chunk is a request that names it.
    capacity_blocks : int
        Trace blocks that fit, at least one chunk.
    mode : "write-through" or "demote"
        Whether chunks are written once the CPU tier has them, or when it evicts them.
    bytes_per_day : float, optional
        Bytes that may be written in any 24 hours.
    queue_bytes : float, optional
        Bytes that may wait to be written, or be under way.
    spare_chunks : int, optional
        Chunks that can have left the CPU tier and not be written yet.

    Raises
    ------
    PolicyError
        If a value is out of range.
    """

    policy: PolicySpec
    params: Params
    admission: AdmissionSpec
    admission_params: Params
    capacity_blocks: int
    mode: Mode = "write-through"
    bytes_per_day: float | None = None
    queue_bytes: float | None = None
    spare_chunks: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PolicyError(f"an SSD tier's mode is {self.mode!r}: {MODES}")

    def as_json(self) -> dict[str, Any]:
        """Return the tier as JSON values."""
        return {
            "policy": self.policy.name,
            "params": dataclasses.asdict(self.params),
            "admission": {
                "name": self.admission.name,
                **dataclasses.asdict(self.admission_params),
            },
            "capacity_blocks": self.capacity_blocks,
            "mode": self.mode,
            "bytes_per_day": self.bytes_per_day,
            "queue_bytes": self.queue_bytes,
            "spare_chunks": self.spare_chunks,
        }


@dataclass
class SsdCounts:
    """What an SSD tier did, in chunks."""

    stores: int = 0
    loaded: int = 0
    evictions: int = 0
    dropped_unused: int = 0  # evicted without ever having been loaded
    refused_by_rule: int = 0  # by the admission rule or the policy
    refused_by_budget: int = 0
    refused_by_queue: int = 0
    unstaged: int = 0  # no room in the CPU tier while they would be written


class WriteBudget:
    """Bytes that may be written: so many in any 24 hours.

    A bucket that holds an hour's share and fills in a day with the rest.

    Parameters
    ----------
    bytes_per_day : float, optional
        Bytes in any 24 hours; without a limit where None.
    """

    def __init__(self, bytes_per_day: float | None) -> None:
        whole = float("inf") if bytes_per_day is None else bytes_per_day
        self.burst_bytes = whole * _BURST_DAYS
        self._bytes_per_s = whole * (1 - _BURST_DAYS) / DAY_S
        self._left = self.burst_bytes
        self._at_s = 0.0

    def left_bytes(self, now_s: float) -> float:
        """Return what may be written now."""
        if now_s > self._at_s:
            grown = self._left + (now_s - self._at_s) * self._bytes_per_s
            self._left = min(grown, self.burst_bytes)
            self._at_s = now_s
        return self._left

    def spend(self, num_bytes: float) -> None:
        """Take off what is written."""
        self._left -= num_bytes


class SsdTier:
    """An SSD tier.

    Parameters
    ----------
    workload : Workload
        The requests.
    config : SsdConfig
        Policy, admission, capacity and limits.
    chunk_bytes : int
        Bytes of a chunk.

    Raises
    ------
    PolicyError
        If a policy cannot run on line, or a limit holds no chunk.
    """

    def __init__(
        self, workload: Workload, config: SsdConfig, chunk_bytes: int = 1
    ) -> None:
        self.config = config
        self.chunk_bytes = chunk_bytes
        self.demotes = config.mode == "demote"
        distinct = max(workload.chunks.num_distinct, 1)
        slots = min(config.capacity_blocks // workload.blocks_per_chunk, distinct)
        if slots < 1:
            raise PolicyError(
                f"an SSD tier of {config.capacity_blocks} blocks holds no chunk of "
                f"{workload.blocks_per_chunk} blocks"
            )
        spec, params, rule_params = _resolved(config)
        if spec.unbounded:  # any order will do where nothing is evicted
            spec, params, slots = LRU, LruParams(order="tail-first"), distinct
        self.driver: PolicyDriver[int] = PolicyDriver(
            spec, params, slots, config.admission, rule_params
        )
        self.counts = SsdCounts()
        self.budget = WriteBudget(config.bytes_per_day)
        for name, limit in (
            ("write budget", self.budget.burst_bytes),
            ("queue", _limit(config.queue_bytes)),
        ):
            if limit < chunk_bytes:
                raise PolicyError(
                    f"an SSD tier's {name} lets {limit:,.0f} bytes through at once: a "
                    f"chunk has {chunk_bytes:,}"
                )
        self._queue_left = _limit(config.queue_bytes)
        # Chunks that are being written, or wait to be; the CPU tier may allow fewer.
        self.most_staged = distinct
        if config.spare_chunks is not None:
            self.most_staged = config.spare_chunks
        self._num_staged = 0
        self._features = workload.stream.features
        self._unused: set[int] = set()  # written and not read since

    @property
    def num_resident(self) -> int:
        """Chunks that are here, those being written included."""
        return len(self.driver)

    def holds(self, key: int) -> bool:
        """Return whether a chunk can be read."""
        return self.driver.lookup(key) is Status.HIT

    def hear(self, job: Job, now_s: float) -> None:
        """Tell admission and policy of a request: all its chunks, once."""
        driver, chunks = self.driver, job.chunks
        driver.now_s = now_s
        request = job.ssd_request = driver.begin()
        fields: Float64Array = request.fields
        fields[:] = self._features[job.index]
        driver.note_lookup(chunks)
        driver.observe(request, chunks)
        driver.hit(request, chunks)

    def begin_read(self, keys: Sequence[int]) -> None:
        """Pin chunks that are read from now on."""
        self.driver.pin(keys)

    def end_read(self, keys: Sequence[int], num_read: int) -> None:
        """Unpin chunks of which the first ``num_read`` were read."""
        self.driver.unpin(keys)
        self.counts.loaded += num_read
        self._unused.difference_update(keys[:num_read])

    def store(
        self, request: Request, keys: Sequence[int], depths: Sequence[int], now_s: float
    ) -> list[int]:
        """Offer chunks, head first; return those to be written.

        Parameters
        ----------
        request : Request
            Whose they are.
        keys, depths : sequence of int
            Chunks and their depths.
        now_s : float
            The time.
        """
        driver, counts, size = self.driver, self.counts, self.chunk_bytes
        driver.now_s = now_s
        missing = [i for i, key in enumerate(keys) if key not in driver]
        room = max(self.most_staged - self._num_staged, 0)
        counts.unstaged += max(len(missing) - room, 0)
        missing = missing[:room]
        most = len(missing)
        budget = _whole(self.budget.left_bytes(now_s), size, most)
        queue = _whole(self._queue_left, size, most)
        left, at = min(budget, queue), 0
        taken: list[int] = []
        # What the rule or the policy refuses takes nothing of the limits.
        while at < most and left > 0:
            part = missing[at : at + left]
            stored = self._offer(request, keys, depths, part)
            at += len(part)
            left -= len(stored)
            taken += stored
        if queue < budget:
            counts.refused_by_queue += most - at
        else:
            counts.refused_by_budget += most - at
        if taken:
            counts.stores += len(taken)
            self._num_staged += len(taken)
            self.budget.spend(len(taken) * size)
            self._queue_left -= len(taken) * size
            # A request's own blocks are put in order as a whole, at its end.
            if not request.is_observed:
                driver.finish(request, [keys[i] for i in missing])
        return taken

    def _offer(
        self,
        request: Request,
        keys: Sequence[int],
        depths: Sequence[int],
        part: list[int],
    ) -> list[int]:
        """Offer the chunks at some places; return what the rule and the policy take."""
        counts = self.counts
        stored = self.driver.offer(
            request,
            [keys[i] for i in part],
            [depths[i] for i in part],
            whole=False,
            protected=keys,
        )
        assert stored is not None, "only whole offers are refused as a whole"
        counts.refused_by_rule += len(part) - len(stored.keys)
        counts.evictions += len(stored.evicted)
        before = len(self._unused)
        self._unused.difference_update(stored.evicted)
        counts.dropped_unused += before - len(self._unused)
        self._unused.update(stored.keys)
        return stored.keys

    def end_store(self, keys: Sequence[int]) -> None:
        """Make written chunks readable."""
        self.driver.complete(keys)
        self._num_staged -= len(keys)
        self._queue_left += len(keys) * self.chunk_bytes

    def finish(self, job: Job) -> None:
        """Put a request's chunks in order at its end."""
        if job.ssd_request is not None:
            self.driver.finish(job.ssd_request, job.chunks)


def _limit(num_bytes: float | None) -> float:
    return float("inf") if num_bytes is None else num_bytes


def _whole(num_bytes: float, size: int, most: int) -> int:
    """Return how many chunks so many bytes are, at most ``most``."""
    return most if num_bytes >= most * size else max(int(num_bytes // size), 0)


def _resolved(config: SsdConfig) -> tuple[PolicySpec, Params, Params]:
    """Return policy and parameters with what was left open filled in.

    No engine's own order applies to this tier, and a sight is a request.
    """
    rule_params = config.admission_params
    if isinstance(rule_params, ThresholdParams) and rule_params.count == "auto":
        rule_params = dataclasses.replace(rule_params, count="lookup")
    run = resolve(
        RunConfig(
            config.policy,
            config.params,
            config.admission,
            rule_params,
            config.capacity_blocks,
            ENGINES["none"],
        )
    )
    return run.policy, run.params, run.admission_params
