"""The simulator's SSD tier with the real cache beside it, on real files.

Every decision of the simulated tier is made by the real one as well, and must be the
same; every block that the simulation reads is loaded from the disk and compared.
"""

import os
import threading

from support.ssd import NAMESPACE, key_of, payload_of

from hotset.adapter.ssd.cache import SsdCache
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.files import OsFiles
from hotset.policies.choice import Choice
from hotset.policies.request import Request
from hotset.sim.ssd import SsdTier

SIZE = 64
SLOT_BYTES = 4096


class CountingFiles(OsFiles):
    """The operating system, with the bytes of all writes to slot files counted."""

    def __init__(self):
        self.num_written = 0
        self.lock = threading.Lock()

    def write(self, fd, page, offset):
        done = super().write(fd, page, offset)
        if os.path.basename(os.readlink(f"/proc/self/fd/{fd}")).startswith("slots-"):
            with self.lock:
                self.num_written += done
        return done


class TwinTier(SsdTier):
    """A simulated tier, and an open cache that is told all that it is told."""

    def __init__(self, workload, config, path):
        super().__init__(workload, config, SLOT_BYTES)
        slots = self.driver.capacity
        rule = self.driver._rule_params
        choice = Choice(config.policy, config.params, config.admission, rule)
        real = SsdConfig(
            path=str(path),
            # Spare slots, the index, and room for both to be larger than slots.
            max_bytes=slots * SLOT_BYTES * 5 // 4 + (32 << 20),
            choice=choice,
            min_free_bytes=0,
            mode=config.mode,
            queue_bytes=1 << 40,
            store_deadline_s=3600.0,
            load_deadline_s=3600.0,
            threads=4,
        )
        self.files = CountingFiles()
        self.now_s = 0.0
        self.real = SsdCache.open(
            real, NAMESPACE, SIZE, lambda: self.now_s, self.files, lambda: 0.0
        )
        assert self.real.driver.capacity >= slots
        self.num_right = 0
        self._job = 0
        self._reading = {}
        self._requests = {}

    def hear(self, job, now_s):
        super().hear(job, now_s)
        request = Request(job.ssd_request.fields.copy())
        self._requests[id(job.ssd_request)] = job.ssd_request, request
        self.real.on_request(request, [key_of(k) for k in job.chunks], now_s)

    def store(self, request, keys, depths, now_s):
        room = max(self.most_staged - self._num_staged, 0)
        missing = [i for i, key in enumerate(keys) if key not in self.driver][:room]
        taken = super().store(request, keys, depths, now_s)
        self._job += 1
        names = [key_of(keys[i]) for i in missing]
        _, mine = self._requests.get(id(request), (None, Request.of()))
        was = self.real.store(
            self._job,
            names,
            [memoryview(payload_of(keys[i], SIZE)) for i in missing],
            [depths[i] for i in missing],
            mine,
            now_s,
        )
        chosen = [keys[i] for i, one in zip(missing, was, strict=True) if one]
        assert chosen == taken, self.real.statistics()
        self._collect()
        return taken

    def begin_read(self, keys):
        super().begin_read(keys)
        if not all(self.real.lookup(key_of(key)) for key in keys):
            self.settle()
        self._job += 1
        buffers = [bytearray(SIZE) for _ in keys]
        views = [memoryview(buffer) for buffer in buffers]
        assert self.real.load(self._job, [key_of(key) for key in keys], views)
        self._reading[self._job] = dict(zip(keys, buffers, strict=True))

    def settle(self):
        """Wait for the disk."""
        assert self.real.drain(300)
        self._collect()

    def close(self):
        self.settle()
        assert not self._reading
        assert self.real.close(60)

    def _collect(self):
        for report in self.real.finished():
            assert not report.failed, self.real.statistics()
            for key, buffer in self._reading.pop(report.job, {}).items():
                assert bytes(buffer) == payload_of(key, SIZE)
                self.num_right += 1
