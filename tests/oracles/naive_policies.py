"""Pure Python twins of the eviction policies.

Plain lists and dicts, slow and obvious; written from the modules' docstrings. A policy
ranks keys: the lowest rank goes first.
"""

import math

from oracles.naive_admission import HotTracker, RecentTracker, plain_options
from oracles.naive_arc import ARC_ORDERS

NEVER = math.inf
SOURCES = ("system", "user", "assistant", "document")


class NaivePolicy:
    """Ranks resident keys by an age that grows with every use; hooks do nothing."""

    unit = "request"
    told = (0, 0, 0)  # of the request: its turn, its leading resident keys, its keys

    def __init__(self):
        self.age = {}
        self.steps = 0

    def newest(self, keys):
        """Make keys the newest ones, the last one newest of all."""
        for key in keys:
            self.steps += 1
            self.age[key] = self.steps

    def rank(self, key, now):
        return self.age[key]

    def victims(self, candidates, n, now):
        return sorted(candidates, key=lambda key: self.rank(key, now))[:n]

    def start(self, r, keys, tags):
        """A request begins; tags are its source (or None) and its priority."""

    def see(self, keys, resident, now):
        """All keys of a request."""

    def admit(self, wanted, num_free, candidates, now):
        """How many of the missing (key, depth) pairs to store."""
        return len(wanted)

    def insert(self, pairs, now):
        """New (key, depth) pairs, head first."""

    def ready(self, keys):
        """Keys can be evicted now, in the order given."""

    def use(self, keys, now):
        """Resident keys are used, head first."""

    def finish(self, keys, now):
        """The request's resident keys, head first."""

    def evict(self, keys):
        for key in keys:
            self.age.pop(key, None)


class NaiveLru(NaivePolicy):
    """Blocks of a request are used at one moment; among them the tail goes first."""

    def insert(self, pairs, now):
        self.newest(key for key, _ in reversed(pairs))

    def use(self, keys, now):
        self.newest(reversed(keys))

    finish = use


class NaiveLru24(NaivePolicy):
    """A list of evictable keys; a key turns newest when it becomes evictable."""

    def ready(self, keys):
        self.newest(keys)

    def use(self, keys, now):
        self.newest(key for key in reversed(keys) if key in self.age)


class NaiveLru32(NaivePolicy):
    """Newest when inserted, head first, and at the request's end, tail first."""

    def insert(self, pairs, now):
        self.newest(key for key, _ in pairs)

    def finish(self, keys, now):
        self.newest(reversed(keys))


class NaiveLru33(NaivePolicy):
    """Ranked by (request, -depth) while it runs; by end order once it is over."""

    def __init__(self):
        super().__init__()
        self.depth = {}
        self.request = 0

    def start(self, r, keys, tags):
        self.steps += 1
        self.request = self.steps

    def insert(self, pairs, now):
        for key, depth in pairs:
            self.depth[key] = depth
            self.age[key] = (self.request, -depth)

    def use(self, keys, now):
        for key in keys:
            self.age[key] = (self.request, -self.depth[key])

    def finish(self, keys, now):
        for key in reversed(keys):
            self.steps += 1
            self.age[key] = (self.steps, 0)


class NaiveFifo(NaivePolicy):
    """By insertion; blocks stored together tail first, or head first."""

    def __init__(self, order="tail-first"):
        super().__init__()
        self.tail_first = order == "tail-first"

    def insert(self, pairs, now):
        keys = [key for key, _ in pairs]
        self.newest(reversed(keys) if self.tail_first else keys)


class NaiveUnbounded(NaivePolicy):
    """Never asked for a victim."""


class NaiveMarconi(NaivePolicy):
    """``reuse(count) * exp(-decay * age) / (depth + 1) ** b``, as its logarithm.

    The part of the age that all share is left out, as in the policy, so that equal
    scores are equal here as well. Equal ones fall to the block used longest ago.
    """

    def __init__(self, reuse="linear", decay=0.0, depth_weight=1.0, **limits):
        super().__init__()
        self.reuse, self.decay, self.depth_weight = reuse, decay, depth_weight
        self.threshold = limits.get("admission_threshold", 1)
        self.tracker = HotTracker(limits.get("tracker_size", 100_000))
        self.depth = {}
        self.last_use = {}
        self.count = {}

    def see(self, keys, resident, now):
        for key in keys:
            self.tracker.see(key)
            if key in resident:
                # A key that fell out of the tracker counts as seen once.
                self.count[key] = self.tracker.counts.get(key, 1)

    def admit(self, wanted, num_free, candidates, now):
        for i, (key, _) in enumerate(wanted):
            if self.threshold > 1 and (
                self.tracker.counts.get(key, 0) < self.threshold
            ):
                return i
        return len(wanted)

    def log_worth(self, key):
        worth = self.decay * self.last_use[key]
        worth -= self.depth_weight * math.log(self.depth[key] + 1.0)
        if self.reuse == "linear":
            worth += math.log(self.count[key])
        elif self.reuse == "log":
            worth += math.log(math.log1p(self.count[key]))
        return worth

    def worth(self, key, now):
        count = self.count[key]
        reuse = {"none": 1.0, "linear": count, "log": math.log1p(count)}[self.reuse]
        age = now - self.last_use[key]
        depth = self.depth[key] + 1.0
        return reuse * math.exp(-self.decay * age) / depth**self.depth_weight

    def rank(self, key, now):
        return self.log_worth(key), self.age[key]

    def insert(self, pairs, now):
        for key, depth in pairs:
            self.depth[key] = depth
            self.count[key] = self.tracker.counts.get(key, 1)
        self.use([key for key, _ in pairs], now)

    def use(self, keys, now):
        for key in keys:
            self.last_use[key] = now
        self.newest(reversed(keys))

    finish = use


class NaiveRelevance(NaivePolicy):
    """The score of every resident block, computed anew at every eviction."""

    unit = "key"

    def __init__(self, w_recency=0.5, w_reuse=0.5, half_life=64.0, **options):
        super().__init__()
        self.w_recency, self.w_reuse, self.half_life = w_recency, w_reuse, half_life
        defaults = {"system": 0.6, "user": 0.6, "assistant": 0.5, "document": 0.0}
        self.floors = {s: options.get(f"floor_{s}", defaults[s]) for s in SOURCES}
        self.clamp = options.get("floor_rule", "rescale") == "clamp"
        self.given = options.get("order", "tail-first") == "given"
        self.tracker = RecentTracker(options.get("tracker_size", 64_000))
        self.tags = {}
        self.count = {}
        self.used = {}
        self.born = {}
        self.num_born = 0
        self.request_tags = (None, 1.0)

    def start(self, r, keys, tags):
        source, priority = tags
        if math.isnan(priority):
            priority = 1.0
        # Rounded to eighths, from 1/8 to 8.
        priority = round(min(max(priority, 1 / 8), 8.0) * 8) / 8
        self.request_tags = source, priority

    def see(self, keys, resident, now):
        for key in keys:
            self.tracker.see(key)
            if key in resident:
                self.count[key] += 1

    def score(self, key, now):
        source, priority = self.tags[key]
        recency = 0.5 ** ((now - self.used[key]) / self.half_life)
        reuse = 1 - 0.5 ** min(self.count[key], 54)
        raw = self.w_recency * recency + self.w_reuse * reuse
        if source in self.floors:
            floor = self.floors[source]
            raw = max(floor, raw) if self.clamp else floor + (1 - floor) * raw
        return priority * raw

    def rank(self, key, now):
        return self.score(key, now), self.born[key]

    def in_turn(self, keys):
        return keys if self.given else list(reversed(keys))

    def insert(self, pairs, now):
        keys = [key for key, _ in pairs]
        for key in self.in_turn(keys):
            self.num_born += 1
            self.born[key] = self.num_born
            self.tags[key] = self.request_tags
            self.count[key] = self.tracker.of(key)
        self.use(keys, now)

    def use(self, keys, now):
        for i, key in enumerate(self.in_turn(keys)):
            self.used[key] = now + i + 1

    def finish(self, keys, now):
        """However they were used: the head last, each block one tick before it."""
        if not self.given and keys:
            latest = max(self.used[key] for key in keys)
            for i, key in enumerate(keys):
                self.used[key] = latest - i


class NaiveBelady(NaivePolicy):
    """Looks through the future: the block used furthest ahead, then the deepest.

    Of blocks never used again and equally deep, the one used longest ago.
    """

    def __init__(self, requests, bypass=True):
        super().__init__()
        self.requests = requests
        self.bypass = bypass
        self.r = 0
        self.depth = {}

    def start(self, r, keys, tags):
        self.r = r
        for depth, key in enumerate(keys):
            self.depth[key] = depth

    def next_use(self, key):
        later = range(self.r + 1, len(self.requests))
        return next((r for r in later if key in self.requests[r]), NEVER)

    def rank(self, key, now):
        return -self.next_use(key), -self.depth[key], self.age[key]

    def see(self, keys, resident, now):
        self.newest(key for key in keys if key in resident)

    def insert(self, pairs, now):
        self.newest(key for key, _ in pairs)

    def admit(self, wanted, num_free, candidates, now):
        if not self.bypass:
            return len(wanted)
        displaced = self.victims(candidates, len(wanted), now)
        for i, (key, _) in enumerate(wanted):
            mine = self.next_use(key)
            if mine == NEVER:
                return i
            if i >= num_free:
                at = i - num_free
                if at >= len(displaced) or mine >= self.next_use(displaced[at]):
                    return i
        return len(wanted)


LRU_ORDERS = {
    "tail-first": NaiveLru,
    "vllm-0.24": NaiveLru24,
    "vllm-0.32": NaiveLru32,
    "vllm-0.33": NaiveLru33,
}


def naive_policy(text, requests, orders=("tail-first", "paper"), capacity=0):
    """The twin of ``NAME:key=value,...``; ``requests`` are the keys of the future.

    ``orders`` are those that `lru` and `arc` have by themselves.
    """
    from oracles.naive_adaptive import NaiveAdaptive, NaiveGuard
    from oracles.naive_classic import (
        NaiveGdsf,
        NaiveLfu,
        NaiveS3Fifo,
        NaiveSieve,
        NaiveTinyLfu,
    )
    from oracles.naive_leader import NaiveLeader
    from oracles.naive_weighted import NaiveWeighted

    name, _, rest = text.partition(":")
    options = plain_options(rest)
    order = options.get("order", "auto")
    if name == "lru":
        return LRU_ORDERS[orders[0] if order == "auto" else order]()
    if name == "arc":
        return ARC_ORDERS[orders[1] if order == "auto" else order](capacity)
    if name == "belady":
        return NaiveBelady(requests, **options)
    sized = {
        "guard": NaiveGuard,
        "adaptive": NaiveAdaptive,
        "leader": NaiveLeader,
        "s3fifo": NaiveS3Fifo,
        "tinylfu": NaiveTinyLfu,
    }
    if name in sized:
        return sized[name](capacity, **options)
    made = {
        "fifo": NaiveFifo,
        "marconi": NaiveMarconi,
        "relevance": NaiveRelevance,
        "unbounded": NaiveUnbounded,
        "lfu": NaiveLfu,
        "gdsf": NaiveGdsf,
        "sieve": NaiveSieve,
        "weighted": NaiveWeighted,
    }
    return made[name](**options)
