"""The simulated SSD tier and the real one, on real files, take and evict the same."""

import numpy as np
import pytest
from strategies import Forest
from support.simulated import ssd_config
from support.ssd import key_of, make_player, payload_of

from hotset.policies.request import Request
from hotset.sim.arrivals import JobSource
from hotset.sim.ssd import SsdTier
from hotset.sim.workload import Workload

# Blocks of which the least size of the real tier holds a dozen.
SIZE, NUM_REQUESTS, APART_S = 300_000, 80, 60.0


def paths(seed):
    """Requests that go on from earlier ones, at a random place."""
    rng = np.random.default_rng(seed)
    made, known = [], 0
    for _ in range(NUM_REQUESTS):
        back = made[-1 - int(rng.integers(0, min(len(made), 12)))] if made else []
        grow = int(rng.integers(1, 4))
        path = [*back[: int(rng.integers(0, 8))], *range(known, known + grow)]
        known += grow
        made.append(path)
    return made


class Pair:
    """Both tiers, told the same; a request of each for every job."""

    def __init__(self, folder, policy, admission, limits):
        self.now_s = 0.0
        self.player = make_player(
            folder,
            size=SIZE,
            policy=policy,
            admission=admission,
            clock=lambda: self.now_s,
            **limits,
        )
        self.cache = self.player.cache
        self.workload = Workload(Forest(paths(7)).trace())
        config = ssd_config(
            policy,
            self.cache.driver.capacity,
            admission,
            bytes_per_day=limits.get("writes_per_day_bytes"),
            queue_bytes=limits.get("queue_bytes"),
        )
        self.tier = SsdTier(self.workload, config, self.cache.slot_bytes)
        self.jobs = JobSource(self.workload)
        self.num_stores = 0

    def hear(self, r):
        job = self.jobs.job(r, self.now_s)
        self.tier.hear(job, self.now_s)
        request = Request(self.workload.stream.features[r].copy())
        self.cache.on_request(request, list(map(key_of, job.chunks)), self.now_s)
        return job, request

    def read(self, chunks):
        held = [chunk for chunk in chunks if self.tier.holds(chunk)]
        if held:
            self.tier.begin_read(held)
            self.tier.end_read(held, len(held))
            assert self.player.load(*held)
            self.player.settle()

    def store(self, chunks, ours, theirs):
        """Offer what is not there; both must take the same."""
        depths = [i for i, chunk in enumerate(chunks) if not self.tier.holds(chunk)]
        wanted = [chunks[i] for i in depths]
        expected = self.tier.store(ours, wanted, depths, self.now_s)
        self.num_stores += 1
        number = 10_000 + self.num_stores
        answers = self.cache.store(
            number,
            [key_of(chunk) for chunk in wanted],
            [memoryview(payload_of(chunk, SIZE)) for chunk in wanted],
            depths,
            theirs,
            self.now_s,
        )
        taken = [c for c, is_taken in zip(wanted, answers, strict=True) if is_taken]
        assert taken == expected
        if taken:
            self.player._stores[number] = taken
            self.player.settle()
        self.tier.end_store(taken)

    def finish(self, job, request):
        self.tier.finish(job)
        self.cache.finish_request(request, list(map(key_of, job.chunks)))

    def check(self, where):
        every = range(self.workload.chunks.num_distinct)
        held = [key_of(chunk) in self.cache.driver for chunk in every]
        assert held == [self.tier.holds(chunk) for chunk in every], where


@pytest.mark.parametrize(
    ("policy", "admission", "limits"),
    [
        ("lru", "always", {}),
        ("arc", "threshold:min_count=2", {}),
        ("guard:distance=10", "always", {}),
        ("lru", "always", {"writes_per_day_bytes": 100_000_000}),
        ("gdsf", "threshold:min_count=2", {"queue_bytes": 700_000}),
    ],
)
def test_both_tiers_do_the_same(tmp_path, policy, admission, limits):
    pair = Pair(tmp_path / "ssd", policy, admission, limits)
    rng = np.random.default_rng(3)
    for r in range(NUM_REQUESTS):
        pair.now_s = APART_S * r
        job, request = pair.hear(r)
        pair.read(job.chunks)
        if rng.random() < 0.7:
            pair.store(job.chunks, job.ssd_request, request)
        else:  # what a CPU tier evicts, of whoever
            gone = sorted(set(map(int, rng.integers(0, job.chunks[-1] + 1, 4))))
            pair.store(gone, Request.of(), Request.of())
        pair.finish(job, request)
        pair.check(f"request {r}")
    counts = pair.tier.counts
    assert counts.evictions > 0
    assert counts.loaded > 20
    assert (counts.refused_by_budget > 0) == ("writes_per_day_bytes" in limits)
    assert (counts.refused_by_queue > 0) == ("queue_bytes" in limits)
    if admission != "always":
        assert counts.refused_by_rule > 0
    written = pair.cache.statistics()["bytes", "written"]
    assert written == counts.stores * pair.cache.slot_bytes
    assert not pair.cache.driver.fallen_back
    pair.cache.close()
