"""Pure Python twin of `leader`: a naive cache for each member, lists of keys."""

from oracles.naive import NaiveCache, NaiveRequest
from oracles.naive_adaptive import NaiveAdaptive
from oracles.naive_admission import NaiveAlways
from oracles.naive_policies import NaiveLru, NaivePolicy, NaiveRelevance


class NaiveLeader(NaivePolicy):
    """What the leader's cache does not hold goes first; then the least recent.

    A list of strays for each member: resident keys that its cache does not hold, by
    when it let go of them or they were last used.
    """

    def __init__(self, capacity, half_life=1000.0, window=25):
        super().__init__()
        self.members = [
            NaiveCache(policy, NaiveAlways(), capacity, block_tokens=1)
            for policy in (
                NaiveLru(),
                NaiveAdaptive(capacity),
                NaiveRelevance(half_life=capacity),
                NaiveRelevance(half_life=max(1, capacity / 10), w_reuse=1.0),
            )
        ]
        self.window, self.fade = window, 0.5 ** (window / half_life)
        self.record = [0.0] * len(self.members)
        self.hits = [0] * len(self.members)
        self.strays = [[] for _ in self.members]
        self.served = self.leader = 0
        self.request = (None, 1.0)
        self.first = self.cut = False

    def start(self, r, keys, tags):
        self.request = tags
        self.first, self.cut = True, False

    def see(self, keys, resident, now):
        source, priority = self.request
        told = NaiveRequest(keys, len(keys), source=source, priority=priority)
        for m, cache in enumerate(self.members):
            before = set(cache.resident)
            cache.r = now - 1
            hits = cache.step(told)
            self.strays[m] += [key for key in cache.gone if key in self.age]
            for key in cache.resident - before:
                if key in self.strays[m]:
                    self.strays[m].remove(key)
            self.hits[m] += hits if self.first else 0
        if self.first:
            self.first = False
            self.served += 1
            if self.served % self.window == 0:
                self.choose()

    def choose(self):
        for m, hits in enumerate(self.hits):
            self.record[m] = self.record[m] * self.fade + hits
        self.hits = [0] * len(self.members)
        self.leader = self.record.index(max(self.record))

    def admit(self, wanted, num_free, candidates, now):
        if self.first:
            return len(wanted)
        if self.cut:
            return 0
        held = self.members[self.leader].resident
        for i, (key, _) in enumerate(wanted):
            if i >= num_free and key not in held:
                self.cut = True
                return i
        return len(wanted)

    def victims(self, candidates, n, now):
        strays = [key for key in self.strays[self.leader] if key in candidates]
        rest = [key for key in candidates if key not in strays]
        return (strays + sorted(rest, key=self.age.get))[:n]

    def insert(self, pairs, now):
        keys = [key for key, _ in reversed(pairs)]
        self.newest(keys)
        for m, cache in enumerate(self.members):
            self.strays[m] += [key for key in keys if key not in cache.resident]

    def use(self, keys, now):
        self.newest(reversed(keys))
        for strays in self.strays:
            used = [key for key in reversed(keys) if key in strays]
            strays[:] = [key for key in strays if key not in used] + used

    finish = use

    def evict(self, keys):
        super().evict(keys)
        for strays in self.strays:
            strays[:] = [key for key in strays if key not in keys]
