"""Faults of the disk under a serving engine's SSD tier, planted between prompts."""

import errno
import os
import time
from pathlib import Path

from hotset.adapter.ssd.files import OsFiles

WAIT_S = 60.0
PLANTED = ("read", "write", "sync_data")


class SsdFaults:
    """Plants faults, each before the prompt that it is named with.

    Parameters
    ----------
    manager : SsdManager
        The engine's.
    plan : dict
        Names of faults by the number of a prompt, as text.
    """

    def __init__(self, manager, plan):
        self.cache = manager.ssd.cache
        self.before = {name: getattr(OsFiles, name) for name in PLANTED}
        self.folder = Path(self.cache.config.path)
        self.plan = plan

    def begin(self, number):
        """Wait until the tier is idle, so that runs are alike; then plant."""
        assert self.cache.drain(WAIT_S)
        fault = self.plan.get(str(number))
        if fault is not None:
            getattr(self, fault)()

    def heal(self):
        """Take back what was planted in the system's calls; wait until it is seen.

        A thousand prompts of a small model could pass while it lets the disk be.
        """
        for name, function in self.before.items():
            setattr(OsFiles, name, function)
        until_s = time.monotonic() + WAIT_S
        while self._paused() and time.monotonic() < until_s:
            time.sleep(0.01)
        assert not self._paused()

    def _paused(self):
        gauges = self.cache.gauges()
        return gauges["reads_paused"] or gauges["writes_paused"]

    def no_reads(self):
        """EIO at each read."""
        OsFiles.read = _failing(errno.EIO)

    def no_writes(self):
        """ENOSPC at each write."""
        OsFiles.write = _failing(errno.ENOSPC)

    def no_syncs(self):
        """EIO when written data are to be made durable."""
        OsFiles.sync_data = _failing(errno.EIO)

    def wrong_bytes(self):
        """One byte of each page of each file of slots is another."""
        for path in self._slot_files():
            with path.open("r+b") as file:
                for at in range(1000, path.stat().st_size, 4096):
                    file.seek(at)
                    (old,) = file.read(1)
                    file.seek(at)
                    file.write(bytes([old ^ 0x10]))

    def cut_files(self):
        """Files of slots end in their middle."""
        for path in self._slot_files():
            os.truncate(path, path.stat().st_size // 2)

    def _slot_files(self):
        found = [p for p in self.folder.rglob("*") if p.is_file() and _is_slots(p)]
        assert found, sorted(self.folder.rglob("*"))
        return found


def _is_slots(path):
    return "slots" in path.name


def _failing(number):
    def fail(*args):
        raise OSError(number, os.strerror(number))

    return fail
