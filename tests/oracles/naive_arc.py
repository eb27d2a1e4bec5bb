"""Pure Python twins of ARC: the paper's, and those of vLLM's versions.

Four lists of keys, oldest to newest, written from the modules' docstrings.
"""

import math


class NaiveArcLists:
    """T1, T2, B1, B2 and the target."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.t1, self.t2, self.b1, self.b2 = [], [], [], []
        self.target = 0.0

    def adapt(self, key):
        if key in self.b1:
            step = max(1, len(self.b2) / len(self.b1))
            self.target = min(self.target + step, self.capacity)
            self.renew(self.b1, key)
        elif key in self.b2:
            step = max(1, len(self.b1) / len(self.b2))
            self.target = max(self.target - step, 0)
            self.renew(self.b2, key)

    def renew(self, where, key):
        where.remove(key)
        where.append(key)

    def move(self, key, where):
        self.forget(key)
        where.append(key)

    def forget(self, key):
        for where in (self.t1, self.t2):
            if key in where:
                where.remove(key)

    def take(self, candidates, n, least, falls_back):
        """The next n victims: T1 gives while it has ``least`` keys, or None."""
        first = [key for key in self.t1 if key in candidates]
        second = [key for key in self.t2 if key in candidates]
        length, taken = len(self.t1), []
        while len(taken) < n:
            if first and length >= least:
                source = first
            elif second:
                source = second
            elif first and falls_back:
                source = first
            else:
                return None
            taken.append(source.pop(0))
            length -= source is first
        return taken

    def bury(self, keys):
        for key in keys:
            ghosts = self.b1 if key in self.t1 else self.b2
            self.forget(key)
            ghosts.append(key)
            del ghosts[: max(len(ghosts) - self.capacity, 0)]

    def unbury(self, key):
        """Forget a ghost; was there one?"""
        for ghosts in (self.b1, self.b2):
            if key in ghosts:
                ghosts.remove(key)
                return True
        return False


class NaiveArc:
    """Megiddo and Modha's, with a request's keys used at one moment."""

    unit = "request"

    def __init__(self, capacity):
        self.lists = NaiveArcLists(capacity)
        self.begins_in_b2 = False

    def start(self, r, keys, tags):
        pass

    def ready(self, keys):
        pass

    def see(self, keys, resident, now):
        for key in reversed(keys):
            if key not in resident:
                self.lists.adapt(key)

    def admit(self, wanted, num_free, candidates, now):
        self.begins_in_b2 = bool(wanted) and wanted[0][0] in self.lists.b2
        return len(wanted)

    def victims(self, candidates, n, now):
        target = self.lists.target
        least = math.floor(target) + 1
        if self.begins_in_b2:
            least = max(1, math.ceil(target))
        return self.lists.take(candidates, n, least, True)

    def evict(self, keys):
        self.lists.bury(keys)

    def insert(self, pairs, now):
        lists = self.lists
        for key, _ in reversed(pairs):
            (lists.t2 if lists.unbury(key) else lists.t1).append(key)
        while len(lists.t1) + len(lists.b1) > lists.capacity:
            lists.b1.pop(0)
        four = (lists.t1, lists.t2, lists.b1, lists.b2)
        while sum(map(len, four)) > 2 * lists.capacity:
            lists.b2.pop(0)

    def use(self, keys, now):
        for key in reversed(keys):
            self.lists.move(key, self.lists.t2)

    def finish(self, keys, now):
        for key in reversed(keys):
            lists = self.lists
            lists.renew(lists.t1 if key in lists.t1 else lists.t2, key)


class NaiveArc24(NaiveArc):
    """vLLM 0.24: everything happens in touches; T1 is not asked twice."""

    falls_back = False

    def __init__(self, capacity):
        super().__init__(capacity)
        self.pending = set()

    def ready(self, keys):
        self.pending.difference_update(keys)

    def admit(self, wanted, num_free, candidates, now):
        return len(wanted)

    def victims(self, candidates, n, now):
        return self.lists.take(candidates, n, int(self.lists.target), self.falls_back)

    def insert(self, pairs, now):
        for key, _ in pairs:
            self.lists.unbury(key)
            self.lists.t1.append(key)
            self.pending.add(key)

    def use(self, keys, now):
        for key in reversed(keys):
            where = self.lists.t1 if key in self.pending else self.lists.t2
            self.lists.move(key, where)

    def finish(self, keys, now):
        pass


class NaiveArc30(NaiveArc24):
    """vLLM 0.30: T1 gives where T2 cannot."""

    falls_back = True


class NaiveArc32(NaiveArc30):
    """vLLM 0.32: adapts once a request, at the offer; moves blocks at its end."""

    def start(self, r, keys, tags):
        self.adapted_to, self.found = set(), set()

    def see(self, keys, resident, now):
        pass

    def admit(self, wanted, num_free, candidates, now):
        for key, _ in reversed(wanted):
            if key not in self.adapted_to:
                self.lists.adapt(key)
        self.adapted_to.update(key for key, _ in wanted)
        return len(wanted)

    def use(self, keys, now):
        self.found.update(keys)

    def finish(self, keys, now):
        lists = self.lists
        for key in reversed(keys):
            stays = key not in self.found and key in lists.t1
            lists.move(key, lists.t1 if stays else lists.t2)


ARC_ORDERS = {
    "paper": NaiveArc,
    "vllm-0.24": NaiveArc24,
    "vllm-0.30": NaiveArc30,
    "vllm-0.32": NaiveArc32,
    "vllm-0.33": NaiveArc32,
}
