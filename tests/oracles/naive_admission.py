"""Pure Python twins of the admission rules and of the trackers of sights."""

from collections import OrderedDict


class HotTracker:
    """Counts of at most ``bound`` keys; passing it drops every key seen once."""

    def __init__(self, bound):
        self.bound = bound
        self.counts = {}

    def see(self, key):
        self.counts[key] = self.counts.get(key, 0) + 1
        if len(self.counts) > self.bound:
            self.counts = {k: n for k, n in self.counts.items() if n > 1}


class RecentTracker:
    """Counts of at most ``bound`` keys; the least recently counted makes room."""

    def __init__(self, bound):
        self.bound = bound
        self.counts = OrderedDict()

    def of(self, key):
        return self.counts.get(key, 0)

    def see(self, key):
        if key not in self.counts and len(self.counts) >= self.bound:
            self.counts.popitem(last=False)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.counts.move_to_end(key)

    def offer(self, keys):
        """Count each key once; keys of one offer do not push each other out."""
        for key in [key for key in keys if key in self.counts]:
            self.see(key)
        for key in [key for key in keys if key not in self.counts]:
            if len(self.counts) >= self.bound:
                others = [old for old in self.counts if old not in keys]
                if not others:
                    continue
                del self.counts[others[0]]
            self.counts[key] = 1


class NaiveAlways:
    """Everything may be stored."""

    def lookup(self, keys):
        pass

    def offer(self, keys):
        pass

    def allows(self, key):
        return True


class NaiveThreshold:
    """A block may be stored once it was seen often enough, at look-up or at offer."""

    def __init__(self, min_count=2, max_tracker_size=64_000, count="offer"):
        self.min_count = min_count
        self.count = count
        self.tracker = RecentTracker(max_tracker_size)

    def lookup(self, keys):
        if self.count == "lookup":
            for key in keys:
                self.tracker.see(key)

    def offer(self, keys):
        if self.count == "offer":
            self.tracker.offer(keys)

    def allows(self, key):
        return self.min_count < 2 or self.tracker.of(key) >= self.min_count


def plain_options(options):
    """Twin options from the text form of a parameter's value."""
    words = {"true": True, "false": False}
    out = {}
    for part in options.split(",") if options else []:
        key, _, text = part.partition("=")
        try:
            out[key] = int(text)
        except ValueError:
            try:
                out[key] = float(text)
            except ValueError:
                out[key] = words.get(text, text)
    return out


def naive_admission(text, count="offer"):
    """The twin of ``always`` or ``threshold:key=value,...``."""
    name, _, rest = text.partition(":")
    if name == "always":
        return NaiveAlways()
    return NaiveThreshold(**{"count": count, **plain_options(rest)})
