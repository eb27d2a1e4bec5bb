"""Pure Python twins of LFU, GDSF, SIEVE, S3-FIFO and W-TinyLFU.

Lists of keys, oldest to newest; written from the modules' docstrings.
"""

from oracles.naive_admission import RecentTracker


class Hooks:
    """What a policy may be told; does nothing."""

    unit = "request"

    def start(self, r, keys, tags):
        """A request begins."""

    def see(self, keys, resident, now):
        """All keys of a request."""

    def admit(self, wanted, num_free, candidates, now):
        return len(wanted)

    def ready(self, keys):
        """Keys can be evicted now."""

    def use(self, keys, now):
        """Resident keys are used, head first."""

    def finish(self, keys, now):
        """The request's resident keys, head first."""


def renew(where, key):
    where.remove(key)
    where.append(key)


class NaiveLfu(Hooks):
    """Fewest uses since it was stored, then longest unused."""

    def __init__(self):
        self.order = []
        self.count = {}

    def victims(self, candidates, n, now):
        rank = {key: i for i, key in enumerate(self.order)}
        worth = self.worth
        return sorted(candidates, key=lambda key: (worth(key), rank[key]))[:n]

    def worth(self, key):
        return self.count[key]

    def evict(self, keys):
        for key in keys:
            self.order.remove(key)
            del self.count[key]

    def insert(self, pairs, now):
        for key, _ in reversed(pairs):
            self.order.append(key)
            self.count[key] = 1

    def use(self, keys, now):
        for key in reversed(keys):
            renew(self.order, key)
            self.count[key] += 1

    def finish(self, keys, now):
        for key in reversed(keys):
            renew(self.order, key)


class NaiveGdsf(NaiveLfu):
    """Uses, plus the highest worth evicted so far when it was last used."""

    def __init__(self):
        super().__init__()
        self.inflation = 0
        self.base = {}

    def worth(self, key):
        return self.base[key] + self.count[key]

    def evict(self, keys):
        self.inflation = max([self.inflation, *map(self.worth, keys)])
        super().evict(keys)

    def insert(self, pairs, now):
        super().insert(pairs, now)
        self.base.update((key, self.inflation) for key, _ in pairs)

    def use(self, keys, now):
        super().use(keys, now)
        self.base.update((key, self.inflation) for key in keys)


class NaiveSieve(Hooks):
    """A queue, a bit for each key, and how many keys the hand has behind it."""

    def __init__(self):
        self.queue, self.visited, self.mine = [], set(), []
        self.hand = 0

    def start(self, r, keys, tags):
        self.mine = []

    def victims(self, candidates, n, now):
        self.gone = []
        while len(self.gone) < n:
            if self.hand >= len(self.queue):
                self.hand = 0
            key = self.queue[self.hand]
            if key not in candidates:
                self.hand += 1
            elif key in self.visited:
                self.visited.remove(key)
                self.hand += 1
            else:
                del self.queue[self.hand]
                self.gone.append(key)
        return self.gone

    def evict(self, keys):
        assert keys == self.gone

    def insert(self, pairs, now):
        # At the end of the queue the hand starts anew, whatever comes behind it.
        if self.hand >= len(self.queue):
            self.hand = 0
        self.queue += [key for key, _ in reversed(pairs)]
        self.mine += [key for key, _ in pairs]

    def use(self, keys, now):
        self.visited.update(keys)

    def finish(self, keys, now):
        """What this request stored stands together, its head newest."""
        pointed = self.queue[self.hand :]
        moved = [key for key in reversed(keys) if key in self.mine]
        if not moved:
            return
        rest = [key for key in self.queue if key not in moved]
        self.queue = rest + moved
        still = [key for key in pointed if key not in moved]
        self.hand = self.queue.index(still[0] if still else self.queue[0])


class NaiveS3Fifo(Hooks):
    """Two queues and the ghosts of the small one."""

    def __init__(self, capacity, small=0.1):
        self.small = max(1, int(small * capacity))
        self.most_ghosts = max(1, capacity - self.small)
        self.s, self.m, self.ghosts, self.mine = [], [], [], []
        self.uses = {}

    def start(self, r, keys, tags):
        self.mine = []

    def evict_small(self, candidates):
        for key in list(self.s):
            if key in candidates:
                self.s.remove(key)
                if self.uses[key] < 2:
                    self.ghosts.append(key)
                    return key
                self.uses[key] = 0
                self.m.append(key)
        return None

    def evict_main(self, candidates):
        while any(key in candidates for key in self.m):
            key = next(key for key in self.m if key in candidates)
            self.m.remove(key)
            if self.uses[key] == 0:
                return key
            self.uses[key] -= 1
            self.m.append(key)
        return None

    def victims(self, candidates, n, now):
        candidates = set(candidates)
        gone = []
        while len(gone) < n:
            key = None
            if len(self.s) >= self.small:
                key = self.evict_small(candidates)
            if key is None:
                key = self.evict_main(candidates)
            if key is None:
                key = self.evict_small(candidates)
            if key is None:
                key = self.evict_main(candidates)
            candidates.remove(key)
            gone.append(key)
        del self.ghosts[: max(len(self.ghosts) - self.most_ghosts, 0)]
        return gone

    def evict(self, keys):
        for key in keys:
            del self.uses[key]

    def insert(self, pairs, now):
        for key, _ in reversed(pairs):
            (self.m if key in self.ghosts else self.s).append(key)
            if key in self.ghosts:
                self.ghosts.remove(key)
            self.uses[key] = 0
        self.mine += [key for key, _ in pairs]

    def use(self, keys, now):
        for key in keys:
            self.uses[key] = min(self.uses[key] + 1, 3)

    def finish(self, keys, now):
        for key in reversed(keys):
            if key in self.mine:
                renew(self.s if key in self.s else self.m, key)


class NaiveTinyLfu(Hooks):
    """Window, probation, protected, and counts of the 4 C keys counted last."""

    def __init__(self, capacity, window=0.01):
        self.window = max(1, int(window * capacity))
        self.most_protected = int(0.8 * (capacity - self.window))
        self.w, self.p, self.q = [], [], []
        self.tracker = RecentTracker(4 * capacity)
        self.period, self.seen = 10 * capacity, 0
        self.cut = False

    def start(self, r, keys, tags):
        self.cut = False

    def see(self, keys, resident, now):
        counts = self.tracker.counts
        for key in keys:
            self.tracker.see(key)
            counts[key] = min(counts[key], 15)
            self.seen += 1
            if self.seen == self.period:
                self.seen = 0
                for known in counts:
                    counts[known] //= 2

    def often(self, key):
        return self.tracker.counts.get(key, 0)

    def admit(self, wanted, num_free, candidates, now):
        """Plays the contests through: newcomers take part where the window is out."""
        self.num_free = num_free
        if self.cut:
            return 0
        contenders = [key for key in self.w if key in candidates]
        main = [key for key in self.p + self.q if key in candidates]
        for i, (key, _) in enumerate(wanted):
            if i < num_free:
                continue
            is_due = len(self.w) + i >= self.window
            if is_due and contenders:
                contender = contenders.pop(0)
                if not main or self.often(contender) <= self.often(main[0]):
                    continue
            elif is_due and main and self.often(key) <= self.often(main[0]):
                self.cut = True
                return i
            del main[:1]
        return len(wanted)

    def victims(self, candidates, n, now):
        contenders = [key for key in self.w if key in candidates]
        main = [key for key in self.p if key in candidates]
        behind = [key for key in self.q if key in candidates]
        before = len(self.w) + self.num_free
        gone = []
        for i in range(n):
            if not main:
                main, behind = behind, []
            if not main and not contenders:  # winners are left
                main = [key for key in self.p + self.q if key in candidates]
            loser = main[0] if main else None
            if contenders and (before + i >= self.window or not main):
                contender = contenders.pop(0)
                if not main or self.often(contender) <= self.often(main[0]):
                    loser = contender
                else:
                    self.w.remove(contender)
                    self.p.append(contender)
                    if main[0] in self.p:
                        main.append(contender)
            main = [key for key in main if key != loser]
            self.forget(loser)
            gone.append(loser)
        self.num_free = 0
        return gone

    def forget(self, key):
        for where in (self.w, self.p, self.q):
            if key in where:
                where.remove(key)

    def evict(self, keys):
        """They are gone already."""

    def insert(self, pairs, now):
        keys = [key for key, _ in reversed(pairs)]
        while self.w and len(self.w) + len(keys) > self.window:
            self.p.append(self.w.pop(0))
        (self.w if len(keys) <= self.window else self.p).extend(keys)

    def use(self, keys, now):
        for key in reversed(keys):
            if key in self.w:
                renew(self.w, key)
                continue
            self.forget(key)
            self.q.append(key)
            if len(self.q) > self.most_protected:
                self.p.append(self.q.pop(0))

    def finish(self, keys, now):
        on_probation = [key in self.p for key in keys]
        for i in reversed(range(len(keys))):
            key = keys[i]
            where = next(w for w in (self.w, self.p, self.q) if key in w)
            if where is self.w and any(on_probation[:i]):
                where = self.p
            self.forget(key)
            where.append(key)
