"""An SSD cache on real files, with keys and payloads that follow from numbers."""

import time

from hotset.adapter.ssd.cache import SsdCache
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.namespace import Namespace
from hotset.policies.request import Request

NAMESPACE = Namespace.of({"model": "m", "dtype": "bf16", "hash_seed": "0"})
PAYLOAD_BYTES = 3000


def key_of(number):
    """Return a key as vLLM's: a hash and a group; policies see both its ends."""
    return number.to_bytes(8, "big") + bytes(24) + (0).to_bytes(4, "big")


def number_of(key):
    return int.from_bytes(key[:8], "big")


def payload_of(number, size=PAYLOAD_BYTES):
    """Return the only right bytes of a block."""
    return (number.to_bytes(8, "little") * (size // 8 + 1))[:size]


def make_config(path, **given):
    faults = []
    value = {"path": str(path), "max_bytes": "4MiB", "min_free_bytes": 0, "threads": 4}
    config = SsdConfig.read({**value, **given}, '"ssd"', faults)
    assert not faults, faults
    return config


def open_cache(path, files=None, namespace=NAMESPACE, size=PAYLOAD_BYTES, **given):
    clock = given.pop("clock", time.monotonic)
    wall = given.pop("wall", time.time)
    config = make_config(path, **given)
    return SsdCache.open(config, namespace, size, clock, files, wall)


class Player:
    """Stores and loads numbers through a cache, and checks every byte."""

    def __init__(self, cache, size=PAYLOAD_BYTES):
        self.cache = cache
        self.size = size
        self.stored, self.loaded, self.failed = set(), set(), set()
        self._job = 0
        self._loads = {}
        self._stores = {}

    def store(self, *numbers, now_s=0.0):
        """Offer blocks of one request; return which were taken."""
        keys = [key_of(number) for number in numbers]
        request = Request.of()
        self.cache.on_request(request, keys, now_s)
        missing = [i for i in range(len(keys)) if not self.cache.lookup(keys[i])]
        self._job += 1
        taken = self.cache.store(
            self._job,
            [keys[i] for i in missing],
            [memoryview(payload_of(numbers[i], self.size)) for i in missing],
            missing,
            request,
            now_s,
        )
        mine = [numbers[i] for i, was in zip(missing, taken, strict=True) if was]
        if mine:
            self._stores[self._job] = mine
        return mine

    def load(self, *numbers):
        self._job += 1
        buffers = [bytearray(self.size) for _ in numbers]
        keys = [key_of(number) for number in numbers]
        views = [memoryview(buffer) for buffer in buffers]
        if self.cache.load(self._job, keys, views):
            self._loads[self._job] = dict(zip(numbers, buffers, strict=True))
            return True
        return False

    def step(self):
        """Take the reports; every loaded byte must be right."""
        for report in self.cache.finished():
            is_load = report.job in self._loads
            mine = self._loads.pop(report.job, None) or self._stores.pop(report.job)
            named = [number_of(k) for k in report.done]
            lost = [number_of(k) for k in report.failed]
            assert sorted(named + lost) == sorted(mine)
            if is_load:
                for number in named:
                    assert bytes(mine[number]) == payload_of(number, self.size)
                self.loaded.update(named)
            else:
                self.stored.update(named)
            self.failed.update(lost)

    def settle(self, timeout_s=30.0):
        assert self.cache.drain(timeout_s)
        self.step()
        # What was let go by the reports is to be durable too.
        assert self.cache.drain(timeout_s)

    def found(self, numbers):
        """Load blocks one after another; return those that gave their bytes."""
        found = []
        for number in numbers:
            if self.cache.lookup(key_of(number)) and self.load(number):
                self.settle()
                if number in self.loaded:
                    found.append(number)
                    self.loaded.discard(number)
        return found

    def wait(self, is_so, timeout_s=20.0):
        until_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < until_s, "it never came to be"
            self.step()
            time.sleep(0.002)


def make_player(path, **given):
    size = given.get("size", PAYLOAD_BYTES)
    return Player(open_cache(path, **given), size)


def count(cache, name, label):
    return cache.statistics().get((name, label), 0)
