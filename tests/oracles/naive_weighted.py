"""Pure Python twin of `weighted`."""

import math

from oracles.naive_policies import SOURCES, NaiveMarconi


class NaiveWeighted(NaiveMarconi):
    """The sum of the module's docstring, without the part that all blocks share."""

    def __init__(
        self, recency=0.01, reuse="linear", reuse_weight=1.0, depth_weight=1.0, **more
    ):
        limits = {"tracker_size": more.pop("tracker_size", 100_000)}
        super().__init__(reuse, recency, depth_weight, **limits)
        self.reuse_weight, self.more = reuse_weight, more
        self.forgets = more.get("count") == "resident"
        self.request_part = 0.0
        self.part = {}

    def weight(self, name):
        return self.more.get(name, 0.0)

    def start(self, r, keys, tags):
        source, priority = tags
        turn, hits, blocks = self.told
        if math.isnan(priority):
            priority = 1.0
        part = self.weight("length") * math.log(max(blocks, 1))
        part += self.weight("hit") * hits / max(blocks, 1)
        part += self.weight("turn") * math.log(max(turn, 1))
        part += self.weight("priority") * math.log(min(max(priority, 1 / 8), 8.0))
        if source in SOURCES:
            part += self.weight(f"source_{source}")
        self.request_part = part

    def log_worth(self, key):
        worth = self.decay * self.last_use[key]
        worth -= self.depth_weight * math.log(self.depth[key] + 1.0)
        if self.reuse == "linear":
            worth += self.reuse_weight * math.log(self.count[key])
        elif self.reuse == "log":
            worth += self.reuse_weight * math.log(math.log1p(self.count[key]))
        return worth + self.part[key]

    def see(self, keys, resident, now):
        if not self.forgets:
            super().see(keys, resident, now)
        for key in keys:
            if self.forgets and key in resident:
                self.count[key] += 1

    def tell(self, keys):
        blocks = self.told[2]
        for key in keys:
            behind = max(max(blocks, 1) - 1 - self.depth[key], 0)
            self.part[key] = self.request_part + self.weight("end") / (1 + behind)

    def insert(self, pairs, now):
        for key, depth in pairs:
            self.depth[key] = depth
        self.tell([key for key, _ in pairs])
        super().insert(pairs, now)

    def use(self, keys, now):
        self.tell(keys)
        super().use(keys, now)

    def finish(self, keys, now):
        super().use(keys, now)
