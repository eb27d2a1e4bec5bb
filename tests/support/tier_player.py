"""Plays random requests on a `PolicyDriver` and keeps its books by hand.

The books know what is resident, written and pinned from the driver's answers alone, and
the order in which a plain LRU would evict. They hold under any policy, sane or not.
"""

from hotset.policies.driver import Status
from hotset.policies.keys import KeyBatch, fold


class Books:
    """What must be true of a tier, and the victims of a plain LRU."""

    def __init__(self, capacity, are_distinct=True):
        self.capacity = capacity
        self.are_distinct = are_distinct
        self.order = []  # resident keys, oldest first
        self.writing = set()
        self.pins = {}

    def evictable(self, protected=()):
        held = self.writing | set(self.pins) | set(protected)
        return [key for key in self.order if key not in held]

    def insert(self, keys):
        self.order += reversed(keys)
        self.writing |= set(keys)

    def use(self, keys):
        mine = [key for key in keys if key in self.order]
        for key in reversed(mine):
            self.order.remove(key)
            self.order.append(key)

    def drop(self, keys):
        for key in keys:
            self.order.remove(key)
            self.writing.discard(key)
            self.pins.pop(key, None)

    def check(self, driver):
        """Compare all that the driver holds with the books."""
        held = self.writing | set(self.pins)
        assert len(driver) == len(self.order) <= self.capacity
        assert driver.num_free == self.capacity - len(self.order)
        assert driver.num_evictable == len(self.order) - len(held)
        slots = [driver.slot(key) for key in self.order]
        assert len(set(slots)) == len(slots)
        assert all(0 <= slot < self.capacity for slot in slots)
        assert len({int(driver._slots.key[slot]) for slot in slots}) == len(slots)
        identities = fold(self.order).tolist()
        for key, slot, identity in zip(self.order, slots, identities, strict=True):
            status = Status.PENDING if key in self.writing else Status.HIT
            assert driver.lookup(key) is status, key
            assert not self.are_distinct or driver._slots.key[slot] == identity
            pins = self.pins.get(key, 0) + (key in self.writing)
            assert driver._slots.blocked[slot] == pins, key
            assert driver._map.keys_in(driver._map.find([key])) == [key]


class TierPlayer:
    """A driver, its books, and a random caller.

    Parameters
    ----------
    driver : PolicyDriver
        A fresh tier of at least 4 slots.
    chance : random.Random
        Decides everything.
    make_key : callable
        Gives the key of a number.
    admits_all : bool
        Whether the admission rule lets every block in.
    are_distinct : bool
        Whether all keys have identities of their own.
    """

    def __init__(
        self, driver, chance, make_key=int, admits_all=True, are_distinct=True
    ):
        self.driver = driver
        self.admits_all = admits_all
        self.chance = chance
        self.books = Books(driver.capacity, are_distinct)
        self.make_key = make_key
        self.open = []
        # A forest of prompts: each keeps a prefix of another and goes on by itself.
        self.paths = []
        known = 0
        for _path in range(12):
            old = chance.choice(self.paths) if self.paths else []
            grown = chance.randint(1, max(2, driver.capacity // 2))
            new = [make_key(known + i) for i in range(grown)]
            known += grown
            self.paths.append(old[: chance.randint(0, len(old))] + new)

    def step(self):
        """Make one random call or a whole request, and check the books."""
        moves = (
            (self.serve, 8),
            (self.begin_store, 3),
            (self.end_store, 3),
            (self.pin, 2),
            (self.unpin, 3),
            (self.evict, 3),
            (self.remove, 1),
            (self.score, 1),
            (self.maybe_reset, 1),
        )
        (move,) = self.chance.choices(
            [move for move, _ in moves], [weight for _, weight in moves]
        )
        move()
        self.books.check(self.driver)

    # Moves

    def serve(self):
        path = self.chance.choice(self.paths)
        request, batch = self.start(path)
        at = 0
        while at < len(path):
            n = self.chance.randint(1, len(path))
            stored = self.offer(request, path[at : at + n], at)
            if stored:
                self.complete(stored, self.chance.random() < 0.9)
            at += n
        self.finish(request, batch)

    def begin_store(self):
        """Start a request that is ended later, if at all."""
        path = self.chance.choice(self.paths)
        request, batch = self.start(path)
        stored = self.offer(request, path, 0)
        self.open.append((request, batch, stored or []))

    def end_store(self):
        """End a request: well, failed, or aborted before its store has ended."""
        if not self.open:
            return
        request, batch, stored = self.open.pop(self.chance.randrange(len(self.open)))
        if self.chance.random() < 0.3:
            self.finish(request, batch)  # an abort: the store ends after the request
            self.complete(stored, self.chance.random() < 0.5)
        else:
            self.complete(stored, self.chance.random() < 0.7)
            self.finish(request, batch)

    def pin(self):
        readable = [k for k in self.books.order if k not in self.books.writing]
        if readable:
            keys = self.chance.sample(readable, 1)
            self.driver.pin(keys)
            for key in keys:
                self.books.pins[key] = self.books.pins.get(key, 0) + 1

    def unpin(self):
        if self.books.pins:
            key = self.chance.choice(sorted(self.books.pins))
            self.driver.unpin([key])
            self.books.pins[key] -= 1
            if not self.books.pins[key]:
                del self.books.pins[key]

    def evict(self):
        n = self.chance.randint(1, 3)
        order = self.books.order
        kept = set(
            self.chance.sample(order, min(len(order), self.chance.randint(0, 2)))
        )
        allowed = self.books.evictable(kept)
        was_lru = self.driver.fallen_back
        victims = self.driver.evict(n, kept)
        if n > len(allowed):
            assert victims is None
            return
        if was_lru:
            assert victims == allowed[:n]
        if victims is not None:
            self.check_victims(victims, allowed, n)
            self.books.drop(victims)

    def remove(self):
        idle = self.books.evictable()
        if idle:
            key = self.chance.choice(idle)
            self.driver.remove([key])
            self.books.drop([key])

    def score(self):
        scores = self.driver.scores(self.books.order)
        assert len(scores) == len(self.books.order)
        assert not any(scores != scores)

    def maybe_reset(self):
        if self.chance.random() < 0.3:
            self.driver.reset()
            self.books = Books(self.books.capacity, self.books.are_distinct)
            self.open = []

    # Parts of moves

    def start(self, path):
        request = self.driver.begin(
            num_blocks=len(path), source_type=self.chance.randint(-1, 3)
        )
        batch = KeyBatch.of(path) if self.chance.random() < 0.5 else path
        self.driver.observe(request, batch)
        self.driver.note_lookup(path)
        self.driver.hit(request, batch)
        self.books.use(path)
        return request, batch

    def offer(self, request, part, first):
        """Offer blocks; return what is to be written."""
        missing = [key for key in part if key not in self.books.order]
        allowed = self.books.evictable(part)
        need = len(missing) - self.driver.num_free
        was_lru = self.driver.fallen_back and self.admits_all
        depths = list(range(first, first + len(part)))
        stored = self.driver.offer(request, part, depths)
        if was_lru and need > len(allowed):
            assert stored is None
        if stored is None:
            return None
        assert stored.keys == [key for key in missing if key in stored.keys]
        self.check_victims(stored.evicted, allowed, len(stored.evicted))
        if was_lru:
            assert stored.keys == missing
            assert stored.evicted == allowed[: max(need, 0)]
        self.books.drop(stored.evicted)
        self.books.insert(stored.keys)
        assert stored.slots == [self.driver.slot(key) for key in stored.keys]
        return stored.keys

    def complete(self, keys, success):
        done = [key for key in keys if key in self.books.writing]
        assert self.driver.complete(keys, success) == done
        self.books.writing -= set(done)
        if not success:
            self.books.drop(done)

    def finish(self, request, batch):
        self.driver.finish(request, batch)
        self.books.use(batch.keys if isinstance(batch, KeyBatch) else batch)

    @staticmethod
    def check_victims(victims, allowed, n):
        assert len(victims) == len(set(victims)) == n, victims
        assert set(victims) <= set(allowed), (victims, allowed)
