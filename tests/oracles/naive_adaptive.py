"""Pure Python twins of `guard` and `adaptive`: dicts and lists, slow and obvious.

Lists run from oldest to newest. Blocks of one request are put into a list head first,
each just older than the one before it, so that the head is the newest.
"""

import math

from oracles.naive_policies import NaivePolicy

NUM_CLASSES = 4
LEARN_EVERY, WINDOW, DOUBT = 50, 10, 10


def class_of(seen):
    return {0: 0, 1: 0, 2: 1, 3: 2, 4: 2}.get(seen, 3)


class Batch:
    """Puts the blocks of one request into lists, head first."""

    def __init__(self):
        self.last_put = {}

    def put(self, where, name, key):
        if name in self.last_put:
            where.insert(where.index(self.last_put[name]), key)
        else:
            where.append(key)
        self.last_put[name] = key


class Memory:
    """A bounded memory of keys: how often seen, when last; oldest forgotten first.

    ``needed(key)`` says whether a key must not be forgotten.
    """

    def __init__(self, size, needed):
        self.size, self.needed = size, needed
        self.seen, self.last = {}, {}
        self.order = []  # keys that may be forgotten

    def enter(self, key, now):
        """Remember a key; return whether there is room, and the key forgotten."""
        if key in self.seen:
            return True, None
        gone = None
        if len(self.seen) == self.size:
            if not self.order or self.last[self.order[0]] == now:
                return False, None
            gone = self.order.pop(0)
            del self.seen[gone], self.last[gone]
        self.seen[key], self.last[key] = 0, now
        return True, gone

    def use(self, key, now):
        self.seen[key] += 1
        self.last[key] = now

    def keep(self, key):
        if key in self.order:
            self.order.remove(key)

    def let_go(self, key, batch=None):
        """A key may be forgotten from now on, last of all."""
        self.keep(key)
        if key in self.seen and not self.needed(key):
            if batch is None:
                self.order.append(key)
            else:
                batch.put(self.order, "memory", key)

    def class_of(self, key):
        return class_of(self.seen.get(key, 0))


class NaiveClassified(NaivePolicy):
    """Resident keys in one list a class; the least worthy list head goes first."""

    def __init__(self, capacity, memory):
        super().__init__()
        self.capacity = capacity
        self.lists = [[] for _ in range(NUM_CLASSES)]
        self.used = {}
        self.old_class = {}  # of keys that the memory had no room for
        self.memory = Memory((1 + memory) * capacity, self.needed)
        # Resident keys whose entry in the memory is known to the cache.
        self.bound = set()
        self.cut = False

    def needed(self, key):
        return key in self.bound

    def start(self, r, keys, tags):
        self.cut = False

    def worth(self, k, key, now):
        raise NotImplementedError

    def newcomer(self, k, now):
        raise NotImplementedError

    def ranking(self, candidates, now):
        """Candidates, least worthy first; of a class only the oldest is compared."""
        candidates = set(candidates)
        rest = [[key for key in keys if key in candidates] for keys in self.lists]
        ranked = []
        while any(rest):
            heads = [
                (self.worth(k, keys[0], now), self.used[keys[0]], k)
                for k, keys in enumerate(rest)
                if keys
            ]
            worth, _, k = min(heads)
            ranked.append((rest[k].pop(0), worth))
        return ranked

    def victims(self, candidates, n, now):
        return [key for key, _ in self.ranking(candidates, now)[:n]]

    def admit(self, wanted, num_free, candidates, now):
        if wanted and self.cut:
            return 0
        displaced = self.ranking(candidates, now)
        for i, (key, _) in enumerate(wanted[num_free:]):
            if i >= len(displaced):
                break
            if displaced[i][1] > self.newcomer(self.memory.class_of(key), now):
                self.cut = True
                return num_free + i
        return len(wanted)

    def place(self, keys, now):
        batch = Batch()
        for key in keys:
            for members in self.lists:
                if key in members:
                    members.remove(key)
        for key in keys:
            k = self.memory.class_of(key) if key in self.bound else self.old_class[key]
            self.old_class[key] = k
            batch.put(self.lists[k], k, key)
            self.used[key] = now

    def insert(self, pairs, now):
        for key, _ in pairs:
            self.old_class[key] = 0
            if key in self.memory.seen:
                self.bound.add(key)
                self.memory.keep(key)
        self.place([key for key, _ in pairs], now)

    def use(self, keys, now):
        self.place(keys, now)

    finish = use

    def evict(self, keys):
        for key in keys:
            for members in self.lists:
                if key in members:
                    members.remove(key)
            if key in self.bound:
                self.bound.remove(key)
                self.memory.let_go(key)


class NaiveGuard(NaiveClassified):
    """Protected for ``distance * growth ** class`` requests after the last use."""

    def __init__(self, capacity, distance=20, growth=2.0, memory=4):
        super().__init__(capacity, memory)
        self.span = [distance * growth**k for k in range(NUM_CLASSES)]

    def see(self, keys, resident, now):
        batch = Batch()
        for key in keys:
            room, _ = self.memory.enter(key, now)
            if not room:
                continue
            self.memory.use(key, now)
            if key in resident:
                self.bound.add(key)
                self.memory.keep(key)
            else:
                self.memory.let_go(key, batch)

    def worth(self, k, key, now):
        return self.used[key] + self.span[k]

    def newcomer(self, k, now):
        return now - 1


class NaiveAdaptive(NaiveClassified):
    """Learned worth, once its shadow cache has beaten the LRU shadow."""

    def __init__(
        self, capacity, half_life=1000.0, evidence=3.0, min_gain=0.005, memory=4
    ):
        super().__init__(capacity, memory)
        self.window_fade = 0.5 ** (WINDOW / half_life)
        self.model_fade = 0.5 ** (LEARN_EVERY / half_life)
        self.evidence, self.min_gain = evidence, min_gain
        self.edges = [0, 1, 2, 3, 4]
        while len(self.edges) < 65:
            self.edges.append(max(self.edges[-1] + 1, int(self.edges[-1] * 1.25)))
        self.entered = [0.0] * NUM_CLASSES
        self.reused = [[0.0] * 64 for _ in range(NUM_CLASSES)]
        self.table = [[0.0] * 64 for _ in range(NUM_CLASSES)]
        self.learned = False
        self.lru = []
        self.shadow = [[] for _ in range(NUM_CLASSES)]
        self.requests = 0
        self.gain = self.squares = self.accesses = 0.0
        self.window_gain = self.window_accesses = 0.0

    def needed(self, key):
        return key in self.bound or any(key in members for members in self.shadow)

    def bucket(self, age):
        return min(sum(edge <= age for edge in self.edges) - 1, 63)

    def see(self, keys, resident, now):
        batch = Batch()
        run = {"lru": True, "learned": True}
        hits = {"lru": 0, "learned": 0}
        storing = True
        for key in keys:
            if key in self.memory.seen:
                k = self.memory.class_of(key)
                self.reused[k][self.bucket(now - self.memory.last[key])] += 1
            room, gone = self.memory.enter(key, now)
            if gone in self.lru:
                self.lru.remove(gone)
            if not room:
                run = {"lru": False, "learned": False}
                continue
            if key in resident:
                self.bound.add(key)
                self.memory.keep(key)
            self.memory.use(key, now)
            k = self.memory.class_of(key)
            self.entered[k] += 1
            run["lru"] = self.use_lru(key, now, batch) and run["lru"]
            hit, storing = self.use_shadow(key, k, now, storing, batch)
            run["learned"] = hit and run["learned"]
            for name in hits:
                hits[name] += run[name]
        self.requests += 1
        self.window_gain += hits["learned"] - hits["lru"]
        self.window_accesses += len(keys)
        if self.requests % WINDOW == 0:
            self.judge()
        if self.requests % LEARN_EVERY == 0:
            self.learn()

    def use_lru(self, key, now, batch):
        """Return whether the LRU shadow holds a key; it does afterwards, if it can."""
        hit = key in self.lru
        if hit:
            self.lru.remove(key)
        elif len(self.lru) == self.capacity:
            if self.memory.last[self.lru[0]] == now:
                return False
            self.lru.pop(0)
        batch.put(self.lru, "lru", key)
        return hit

    def use_shadow(self, key, k, now, storing, batch):
        """Return whether the learned shadow holds a key, and whether it goes on
        storing this request."""
        hit = any(key in members for members in self.shadow)
        if hit:
            for members in self.shadow:
                if key in members:
                    members.remove(key)
        elif storing and sum(map(len, self.shadow)) == self.capacity:
            storing = self.make_room(k, now)
        if hit or storing:
            self.memory.keep(key)
            batch.put(self.shadow[k], ("shadow", k), key)
        elif key not in self.bound:
            self.memory.let_go(key, batch)
        return hit, storing

    def make_room(self, k, now):
        heads = [
            (self.table[c][self.bucket(now - self.memory.last[m[0]])],
             self.memory.last[m[0]], c)
            for c, m in enumerate(self.shadow)
            if m and self.memory.last[m[0]] != now
        ]  # fmt: skip
        if not heads or min(heads)[0] > self.table[k][0]:
            return False
        victim = self.shadow[min(heads)[2]].pop(0)
        self.memory.let_go(victim)
        return True

    def judge(self):
        fade = self.window_fade
        self.gain = self.gain * fade + self.window_gain
        self.squares = self.squares * fade * fade + self.window_gain**2
        self.accesses = self.accesses * fade + self.window_accesses
        self.window_gain = self.window_accesses = 0.0
        if self.learned:
            self.learned = self.gain >= 0
        else:
            noise = math.sqrt(self.squares)
            self.learned = (
                self.gain > self.min_gain * self.accesses
                and self.gain > self.evidence * noise
            )

    def learn(self):
        """The best ratio of hits to time of all spans that begin with a bucket."""
        for k in range(NUM_CLASSES):
            left = self.entered[k] + DOUBT
            hits, times = self.reused[k], []
            for b in range(64):
                after = max(left - hits[b], 0.0)
                width = self.edges[b + 1] - self.edges[b]
                times.append(width * (left + after) / 2)
                left = after
            for b in range(64):
                best = total = time = 0.0
                for end in range(b, 64):
                    total += hits[end]
                    time += times[end]
                    best = max(best, total / time if time else 0.0)
                self.table[k][b] = math.floor(best * 2.0**40 + 0.5) / 2.0**40
            self.entered[k] *= self.model_fade
            self.reused[k] = [count * self.model_fade for count in hits]

    def worth(self, k, key, now):
        if not self.learned:
            return self.used[key]
        return self.table[k][self.bucket(now - self.used[key])]

    def newcomer(self, k, now):
        return self.table[k][0] if self.learned else math.inf
