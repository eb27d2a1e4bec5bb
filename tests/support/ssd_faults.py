"""A disk that fails as it is told to."""

import os
import threading
import time

from hotset.adapter.ssd.files import OsFiles


class FaultyFiles(OsFiles):
    """The operating system, with faults.

    ``faults[name]`` is what the call of that name raises, an error number, while it is
    there; ``delay_s[name]`` how long it takes, and ``gates[name]`` an event that it
    waits for.
    """

    def __init__(self):
        self.faults = {}
        self.delay_s = {}
        self.gates = {}
        self.calls = []
        self.refuses_direct = False
        self._lock = threading.Lock()

    def _meet(self, name):
        with self._lock:
            self.calls.append(name)
        gate = self.gates.get(name)
        if gate is not None:
            gate.wait(60)
        time.sleep(self.delay_s.get(name, 0))
        number = self.faults.get(name)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def open(self, folder, name, create=False, direct=False):
        if direct and self.refuses_direct:
            raise OSError(22, "Invalid argument", name)
        self._meet("open")
        return super().open(folder, name, create, direct)

    def allocate(self, fd, size):
        self._meet("allocate")
        super().allocate(fd, size)

    def read(self, fd, page, offset):
        self._meet("read")
        return super().read(fd, page, offset)

    def write(self, fd, page, offset):
        self._meet("write")
        return super().write(fd, page, offset)

    def sync_data(self, fd):
        self._meet("sync_data")
        super().sync_data(fd)
