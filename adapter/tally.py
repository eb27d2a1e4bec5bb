"""What a tier did, counted: for vLLM's metrics, for a line in the log, for a warning.

Names are those of `hotset.traces.metric_names`. The counts of a step are collected with
one call for each batch of chunks and drained when vLLM asks. Ten bytes are kept for
each chunk of the tier: the kind of request that stored it, whether it was loaded since,
when it was used last.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hotset.policies.arrays import Int32Array
from hotset.policies.driver import PolicyDriver
from hotset.policies.outcomes import Stored
from hotset.policies.request import SOURCE_TYPES
from hotset.traces.metric_names import METRICS, PREFIX, TOKENS

_LOG = logging.getLogger(__name__)

SOURCES = (*SOURCE_TYPES, "none")  # by index into SOURCE_TYPES, -1 is the last
# So many chunks stored for so many requests without a load, and that is said.
WARN_STORES, WARN_REQUESTS = 10_000, 100
_NO_LABELS: tuple[str, ...] = ()
_IN_LINE = ("stores", "evictions", "dropped_unused")
_GAUGES = tuple(metric.name for metric in METRICS if metric.kind == "gauge")


class Tally:
    """Counts of one tier.

    Parameters
    ----------
    driver : PolicyDriver
        The tier.
    log_every : int
        Requests to a line in the log; 0 for none.
    chunk_tokens : int
        Tokens of a chunk, for the warning.
    log : Logger, optional
        Where lines go.
    clock : callable, optional
        Seconds by a clock that nobody sets.

    Attributes
    ----------
    totals : Counter
        Sums by (name, label values) since the start.
    num_misses : int
        Look-ups of chunks that could not be loaded.
    more_gauges : dict
        How things stand with somebody else, shown as well.
    """

    def __init__(
        self,
        driver: PolicyDriver[Any],
        log_every: int = 0,
        chunk_tokens: int = 0,
        log: logging.Logger = _LOG,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.driver = driver
        self.totals: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.num_misses = 0
        self._new: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._ages_s: list[float] = []
        self._shown: dict[str, float] = {}
        self._polled: dict[tuple[str, tuple[str, ...]], int] = {}
        self._num_pending = 0
        self._log_every = log_every
        self._chunk_tokens = chunk_tokens
        self._log = log
        self._clock = clock
        self.more_gauges: dict[str, float] = {}
        self._line: Counter[str] = Counter()
        self._may_warn = True  # until the first load
        capacity = driver.capacity
        self._source = np.zeros(capacity, np.int8)
        self._is_unused = np.zeros(capacity, np.bool_)
        self._used_s = np.zeros(capacity, np.float64)

    def total(self, name: str) -> int:
        """Return a counter's sum over its labels."""
        return sum(count for (of, _), count in self.totals.items() if of == name)

    # What happens to chunks

    def note_store(self, source_type: int, stored: Stored[Any]) -> None:
        """Count what an offer led to."""
        self._add("refused_chunks", stored.refused_by_admission, ("admission",))
        self._add("refused_chunks", stored.refused_by_policy, ("policy",))
        self._note_taken(source_type, stored)
        if stored.slots:
            self._add("stores", len(stored.slots), (SOURCES[source_type],))
            self._warn_of_no_loads()

    def note_promotion(self, source_type: int, stored: Stored[Any]) -> None:
        """Count chunks that are read from SSD, and what was evicted for them."""
        self._note_taken(source_type, stored)
        self._add("promotions", len(stored.slots))

    def note_arrival(self, count: int, success: bool) -> None:
        """Count chunks that were read from SSD, or not."""
        self._num_pending -= count
        if not success:
            self._add("failed_promotions", count)

    def note_refused_offer(self) -> None:
        """Count an offer that did not fit."""
        self._add("refused_offers", 1)

    def note_written(self, count: int, success: bool) -> None:
        """Count chunks whose writing has ended."""
        self._num_pending -= count
        if not success:
            self._add("failed_stores", count)

    def note_load(self, slots: Sequence[int]) -> None:
        """Count chunks that are loaded for a request."""
        if not slots:
            return
        self._may_warn = False
        at, now_s = np.array(slots, np.int32), self._clock()
        self._by_source("loaded", at)
        self._ages_s.append(float(now_s - self._used_s[at].min()))
        self._used_s[at] = now_s
        self._is_unused[at] = False

    def note_reset(self, slots: Int32Array) -> None:
        """Count that the tier is emptied of what is in these slots."""
        self._num_pending = 0
        self._by_source("evictions", slots, "reset")

    # What happens to requests

    def note_end(self) -> None:
        """Count a request at its end."""
        self._add("requests", 1)
        self._line["requests"] += 1
        if self._log_every and self._line["requests"] >= self._log_every:
            self._say_line()

    def note_prompt(
        self, input_tokens: int, gpu_tokens: int, cpu_tokens: int, ssd_tokens: int = 0
    ) -> None:
        """Count a prompt's tokens by where their KV came from."""
        rest, parts = input_tokens, []
        for tokens in (gpu_tokens, cpu_tokens, ssd_tokens):
            parts.append(min(max(tokens, 0), rest))
            rest -= parts[-1]
        parts.append(rest)
        by_outcome = dict(zip(TOKENS, parts, strict=True))
        for outcome, count in by_outcome.items():
            self._add("tokens", count, (outcome,))
        self._line.update(by_outcome)

    # What vLLM asks for

    def note_counts(self, name: str, counts: Mapping[str, int]) -> None:
        """Take over counts that somebody else keeps, by one label."""
        for label, count in counts.items():
            self.note_total(name, count, (label,))

    def note_total(
        self, name: str, count: int, labels: tuple[str, ...] = _NO_LABELS
    ) -> None:
        """Take over a count that somebody else keeps."""
        self._add(name, count - self._polled.get((name, labels), 0), labels)
        self._polled[name, labels] = count

    def gauges(self) -> dict[str, float]:
        """Return how things stand."""
        resident = len(self.driver)
        held = resident - self.driver.num_evictable
        return {
            "capacity": self.driver.capacity,
            "resident": resident,
            "pinned": max(0, held - self._num_pending),
            "pending": self._num_pending,
            "fallen_back": int(self.driver.fallen_back),
            **self.more_gauges,
        }

    def drain(self, stats: Any) -> None:
        """Put what is new into vLLM's statistics of a step."""
        new, self._new = self._new, Counter()
        for (name, labels), count in new.items():
            stats.increase_counter(PREFIX + name, count, labels)
        ages_s, self._ages_s = self._ages_s, []
        for age_s in ages_s:
            stats.observe_histogram(PREFIX + "reuse_age_s", age_s)
        for name, value in self.gauges().items():
            if self._shown.get(name) != value:
                stats.set_gauge(PREFIX + name, value)
                self._shown[name] = value

    # Inside

    def _note_taken(self, source_type: int, stored: Stored[Any]) -> None:
        """Note what is in slots now, and count what left them."""
        if stored.freed:
            freed = np.array(stored.freed, np.int32)
            reason = "fallback" if self.driver.fallen_back else "policy"
            self._by_source("evictions", freed, reason)
            self._by_source("dropped_unused", freed[self._is_unused[freed]])
        if stored.slots:
            slots = np.array(stored.slots, np.int32)
            self._num_pending += len(slots)
            self._source[slots] = source_type
            self._is_unused[slots] = True
            self._used_s[slots] = self._clock()

    def _add(self, name: str, count: int, labels: tuple[str, ...] = _NO_LABELS) -> None:
        if count > 0:
            self._new[name, labels] += count
            self.totals[name, labels] += count
            if name in _IN_LINE:
                self._line[name] += count

    def _by_source(self, name: str, slots: Int32Array, *more: str) -> None:
        # The last source has index -1.
        counts = np.bincount(self._source[slots] % len(SOURCES), minlength=len(SOURCES))
        for source, count in zip(SOURCES, counts.tolist(), strict=True):
            self._add(name, count, (source, *more))

    def _say_line(self) -> None:
        line, self._line = self._line, Counter()
        tokens = max(sum(line[outcome] for outcome in TOKENS), 1)
        shares = [f"{100 * line[outcome] / tokens:.1f} %" for outcome in TOKENS]
        gauges = self.gauges()
        self._log.info(
            "hotset: %d requests: of their prompt tokens %s from the GPU cache, %s "
            "from the CPU tier, %s from SSD, %s computed; %d of %d chunks resident, %d "
            "stored, %d evicted, %d of these unused",
            line["requests"],
            *shares,
            gauges["resident"],
            gauges["capacity"],
            *(line[name] for name in _IN_LINE),
        )

    def _warn_of_no_loads(self) -> None:
        """Say once that much was stored and nothing loaded, and what that may mean."""
        if not self._may_warn:
            return
        stores = self.total("stores")
        if stores < WARN_STORES or self.total("requests") < WARN_REQUESTS:
            return
        self._may_warn = False
        dropped = self.total("dropped_unused")
        if self.num_misses == 0:
            cause = (
                "vLLM looked nothing up: the GPU cache holds all that comes again, or "
                f"prompts are shorter than a chunk of {self._chunk_tokens} tokens, or "
                "requests skip the prefix cache"
            )
        elif 2 * dropped > stores:
            cause = (
                f"{dropped} of them were evicted before anybody asked: the tier of "
                f"{self.driver.capacity} chunks is too small for the time between two "
                "uses, or no prompt comes twice"
            )
        else:
            cause = (
                "no prompt began as a stored one: a time or an id at the head of "
                "prompts, a cache_salt for each request, or a random PYTHONHASHSEED in "
                "several processes"
            )
        self._log.warning(
            "hotset: %d chunks were stored and none was ever loaded; likely: %s",
            stores,
            cause,
        )
