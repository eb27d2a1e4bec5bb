"""Counts without vLLM: each event once, gauges, the line in the log, the warning."""

import logging
from collections import Counter

import pytest

from hotset.adapter.tally import SOURCES, WARN_REQUESTS, WARN_STORES, Tally
from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.driver import PolicyDriver
from hotset.traces.metric_names import METRICS, PREFIX, TOKENS


class Stats:
    """What vLLM collects of a step."""

    def __init__(self):
        self.counters, self.gauges, self.observed = Counter(), {}, []

    def increase_counter(self, name, value, labels=()):
        assert value > 0
        self.counters[name.removeprefix(PREFIX), labels] += value

    def set_gauge(self, name, value, labels=()):
        self.gauges[name.removeprefix(PREFIX)] = value

    def observe_histogram(self, name, value, labels=()):
        assert name == PREFIX + "reuse_age_s"
        self.observed.append(value)


class Tier:
    """A driver and its tally, at a time that the test sets."""

    def __init__(self, capacity=4, policy="lru", admission="always", **settings):
        rule = ADMISSIONS.parse(admission)
        self.driver = PolicyDriver(*POLICIES.parse(policy), capacity, *rule)
        self.now_s = 0.0
        self.tally = Tally(self.driver, clock=lambda: self.now_s, **settings)

    def offer(self, keys, source=-1):
        """Offer chunks; return the keys that are being written."""
        request = self.driver.begin()
        self.driver.observe(request, keys)
        stored = self.driver.offer(request, keys)
        if stored is None:
            self.tally.note_refused_offer()
            return []
        self.tally.note_store(source, stored)
        return stored.keys

    def written(self, keys, success=True):
        done = self.driver.complete(keys, success)
        self.tally.note_written(len(done), success)

    def store(self, keys, source=-1):
        self.written(self.offer(keys, source))

    def load(self, keys):
        self.driver.hit(self.driver.begin(), keys)
        self.tally.note_load(self.driver.pin(keys))

    def drained(self):
        stats = Stats()
        self.tally.drain(stats)
        return stats


def test_each_event_counts_once_by_source():
    tier = Tier()
    user, none = 1, -1
    tier.store([1, 2], user)
    tier.now_s = 10.0
    tier.store([3, 4], none)
    tier.now_s = 25.0
    tier.load([1, 2])
    tier.driver.unpin([1, 2])
    tier.now_s = 30.0
    tier.store([5, 6, 7], user)  # 4, 3 and then 2 go
    first = tier.drained()
    assert first.counters == {
        ("stores", ("user",)): 5,
        ("stores", ("none",)): 2,
        ("loaded", ("user",)): 2,
        ("evictions", ("user", "policy")): 1,
        ("evictions", ("none", "policy")): 2,
        ("dropped_unused", ("none",)): 2,
    }
    assert first.observed == [25.0]
    assert tier.drained().counters == {}
    assert tier.tally.total("stores") == 7
    # A slot that is used again is unused again, and of its new source.
    tier.store([8, 9, 10, 11], none)
    assert tier.drained().counters["dropped_unused", ("user",)] == 3


def test_gauges_tell_reading_from_writing_and_come_when_they_change():
    tier = Tier()
    tier.store([1, 2])
    held = tier.offer([3])
    tier.load([1])
    gauges = tier.drained().gauges
    assert gauges == {
        "capacity": 4,
        "resident": 3,
        "pinned": 1,
        "pending": 1,
        "fallen_back": 0,
    }
    assert tier.drained().gauges == {}
    tier.written(held)
    assert tier.drained().gauges == {"pending": 0}
    tier.driver.unpin([1])
    assert tier.drained().gauges == {"pinned": 0}


def test_refusals_by_reason():
    tier = Tier(admission="threshold:2")
    tier.offer([1, 2, 3])
    assert tier.drained().counters == {("refused_chunks", ("admission",)): 3}
    tier.offer([1, 2, 3])
    tier.offer([1, 2, 3, 4, 5])
    tier.drained()
    tier.offer([4, 5])  # wants two places, and all others are being written
    assert tier.drained().counters == {("refused_offers", ()): 1}


def test_what_a_policy_refuses_is_the_policys():
    """`guard` keeps what is protected and leaves out what does not fit beside it."""
    tier = Tier(policy="guard")
    for turn in range(30):
        tier.store([100 * (turn % 5) + i for i in range(3)])
    counters = tier.drained().counters
    refused = counters["refused_chunks", ("policy",)]
    assert refused > 0
    stores = counters["stores", ("none",)]
    seen = tier.tally.total("evictions")
    assert stores - seen == len(tier.driver)


def test_failed_stores_and_a_reset():
    tier = Tier()
    tier.written(tier.offer([1, 2]), success=False)
    tier.store([3, 4, 5], source=0)
    tier.load([4])
    tier.tally.note_reset(tier.driver.resident_slots())
    tier.driver.reset()
    stats = tier.drained()
    assert stats.counters["failed_stores", ()] == 2
    assert stats.counters["evictions", ("system", "reset")] == 3
    assert not any(name == "dropped_unused" for name, _ in stats.counters)
    assert (stats.gauges["resident"], stats.gauges["pending"]) == (0, 0)


def test_evictions_after_a_fault_are_of_the_fallback():
    tier = Tier(capacity=2)
    tier.store([1, 2])
    tier.driver.fall_back()
    tier.store([3])
    tier.tally.note_total("policy_faults", 1)
    tier.tally.note_total("policy_faults", 1)
    stats = tier.drained()
    assert stats.counters["evictions", ("none", "fallback")] == 1
    assert stats.counters["policy_faults", ()] == 1
    assert stats.gauges["fallen_back"] == 1


def test_counts_of_others_are_taken_over_once():
    tier = Tier()
    tier.tally.note_counts("invalid_tags", {"priority": 2})
    tier.tally.note_counts("invalid_tags", {"priority": 5, "session": 1})
    assert tier.drained().counters == {
        ("invalid_tags", ("priority",)): 5,
        ("invalid_tags", ("session",)): 1,
    }


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ((100, 40, 30), (40, 30, 0, 30)),
        ((100, 40, 30, 20), (40, 30, 20, 10)),
        ((100, 40, 90), (40, 60, 0, 0)),
        ((100, 40, 30, 50), (40, 30, 30, 0)),
        ((100, 140, 9, 9), (100, 0, 0, 0)),
        ((100, 0, 0), (0, 0, 0, 100)),
        ((100, -3, -5, -7), (0, 0, 0, 100)),
    ],
)
def test_tokens_by_outcome_add_up_to_the_prompt(given, parts):
    tier = Tier()
    tier.tally.note_prompt(*given)
    counted = tier.drained().counters
    assert tuple(counted["tokens", (outcome,)] for outcome in TOKENS) == parts


def test_a_line_for_every_so_many_requests(caplog):
    caplog.set_level(logging.INFO)
    tier = Tier(log_every=3)
    for _ in range(7):
        tier.tally.note_prompt(100, 50, 25)
        tier.tally.note_end()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    for part in ("3 requests", "50.0 % from the GPU", "25.0 % from the CPU", "0 of 4"):
        assert part in lines[1]
    Tier(log_every=0).tally.note_end()
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("capacity", "misses", "said"),
    [
        (WARN_STORES, 0, "looked nothing up"),
        (WARN_STORES, 500, "no prompt began as a stored one"),
        (100, 500, "the tier of 100 chunks is too small"),
    ],
)
def test_many_stores_and_no_load_are_said_once_with_a_cause(
    capacity, misses, said, caplog
):
    tier = Tier(capacity, chunk_tokens=16)
    tier.tally.num_misses = misses
    for start in range(0, 2 * WARN_STORES, 100):
        if start == WARN_STORES - 100:
            assert not caplog.records
        tier.tally.note_end()
        tier.store(list(range(start, start + 100)))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert said in record.getMessage()


def test_a_few_long_requests_are_no_reason_to_warn(caplog):
    tier = Tier(2 * WARN_STORES)
    for start in range(0, 2 * WARN_STORES, 1000):
        tier.tally.note_end()
        tier.store(list(range(start, start + 1000)))
    assert not caplog.records


def test_after_a_load_nothing_is_said(caplog):
    tier = Tier(100)
    for _ in range(2 * WARN_REQUESTS):
        tier.tally.note_end()
    tier.store([1])
    tier.load([1])
    tier.driver.unpin([1])
    for start in range(0, 2 * WARN_STORES, 100):
        tier.store(list(range(start, start + 50)))
    assert not caplog.records


def test_what_is_counted_is_declared():
    """With as many labels; vLLM ends on anything else."""
    tier = Tier()
    tier.store([1, 2, 3, 4, 5][:4])
    tier.load([1])
    tier.driver.unpin([1])
    tier.store([6])
    tier.offer([7, 8, 9, 10])
    tier.offer([11])
    tier.tally.note_prompt(9, 4, 3)
    tier.tally.note_end()
    tier.tally.note_total("policy_faults", 2)
    tier.written([], success=False)
    tier.tally.note_reset(tier.driver.resident_slots())
    declared = {metric.name: metric for metric in METRICS}
    stats = tier.drained()
    for name, labels in stats.counters:
        assert declared[name].kind == "counter"
        assert len(labels) == len(declared[name].labels), name
    assert {declared[name].kind for name in stats.gauges} == {"gauge"}
    assert len(stats.observed) == 1
    assert len(SOURCES) == 5


def test_the_age_of_a_load_is_that_of_its_oldest_chunk():
    """A load needs all of its chunks; a chunk is as old as its last use."""
    tier = Tier()
    tier.store([1])
    tier.now_s = 10.0
    tier.store([2])
    tier.now_s = 25.0
    tier.load([1, 2])
    tier.now_s = 31.0
    tier.load([2])
    tier.now_s = 40.0
    tier.load([1])
    assert tier.drained().observed == [25.0, 6.0, 15.0]


def test_after_a_reset_nothing_is_pending():
    tier = Tier()
    tier.offer([1, 2])
    assert tier.tally.gauges()["pending"] == 2
    tier.tally.note_reset(tier.driver.resident_slots())
    tier.driver.reset()
    assert tier.tally.gauges()["pending"] == 0
    assert tier.tally.gauges()["pinned"] == 0


def test_a_line_is_of_its_own_requests(caplog):
    """Not only the shares: what is stored and evicted as well."""
    tier = Tier(log_every=2)
    with caplog.at_level(logging.INFO):
        for keys in ([1, 2, 3], [4, 5], [6], []):
            if keys:
                tier.store(keys)
            tier.tally.note_end()
    first, second = [record.getMessage() for record in caplog.records]
    assert "5 stored, 1 evicted" in first
    assert "1 stored, 1 evicted" in second
