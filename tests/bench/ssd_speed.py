"""How fast the SSD cache moves blocks, beside fio's bare reads and writes of the same.

Run by `make bench`. Both use slots of the same size in preallocated files of the same
file system, at random, with O_DIRECT where the file system takes it, 16 at once, and
writes are synced. The cache checks and copies every byte besides, and commits rows.
Exits with 1 if it moves less than 80 % of what fio moves, as medians of runs that take
turns.

Look-ups are timed beside those of a plain dict of as many keys.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.ssd import key_of, open_cache

from hotset.adapter.ssd.slot import slot_bytes
from hotset.policies.request import Request

MIB = 1 << 20
BLOCK = MIB
DEPTH = 16
SYNC_EVERY = 32  # writes of fio; about as many as the cache commits at once
IN_A_JOB = 8
BUFFERS = 240  # blocks between their offer and the report that they are durable
BLOCKS = 768
CAP_BLOCKS = 4 * BLOCKS  # so many fit, about: what is written evicts as much
ROUNDS = 9
BAR = 0.8
LOOKUPS = 100
KEYS = 100_000


def fio(folder, kind, seconds_of):
    """Return MiB/s of blocks that fio moves."""
    slot = slot_bytes(BLOCK)
    command = [
        "fio",
        "--name=hotset",
        f"--filename={folder / 'fio'}",
        f"--size={BLOCKS * slot}",
        f"--bs={slot}",
        f"--rw=rand{kind}",
        "--direct=1",
        "--ioengine=libaio",
        f"--iodepth={DEPTH}",
        "--fallocate=posix",
        "--randrepeat=0",
        f"--fdatasync={SYNC_EVERY}",
        "--output-format=json",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(shown.stdout[shown.stdout.index("{") :])["jobs"][0][kind]
    seconds_of.append(job["runtime"] / 1000)
    return BLOCKS * BLOCK / MIB / (job["runtime"] / 1000)


class Mover:
    """Keeps so many blocks moving through a cache."""

    def __init__(self, folder):
        cap = CAP_BLOCKS * slot_bytes(BLOCK)
        given = {"max_bytes": cap, "threads": DEPTH + 1}
        self.cache = open_cache(folder / "ssd", size=BLOCK, **given)
        self.buffers = [
            memoryview(bytearray(os.urandom(BLOCK))) for _ in range(BUFFERS)
        ]
        self._job = self._next = 0

    def write(self):
        """Return MiB/s of new blocks, each stored when it is reported as durable."""
        self._next += BLOCKS
        return self._move(self._store)

    def read(self):
        return self._move(self._load)

    def _store(self, numbers, buffers):
        keys, request = [key_of(self._next + n) for n in numbers], Request.of()
        now_s, depths = time.monotonic(), list(range(len(keys)))
        self.cache.on_request(request, keys, now_s)
        taken = self.cache.store(self._job, keys, buffers, depths, request, now_s)
        assert all(taken), self.cache.statistics()

    def _load(self, numbers, buffers):
        # As far apart as fio's random places.
        keys = [key_of(self._next + n * 331 % BLOCKS) for n in numbers]
        assert self.cache.load(self._job, keys, buffers)

    def _move(self, start):
        free, busy, done, begun = list(self.buffers), {}, 0, 0
        started = time.perf_counter()
        while done < BLOCKS:
            while len(free) >= IN_A_JOB and begun < BLOCKS:
                self._job += 1
                busy[self._job] = [free.pop() for _ in range(IN_A_JOB)]
                start(range(begun, begun + IN_A_JOB), busy[self._job])
                begun += IN_A_JOB
            reports = self.cache.finished()
            for report in reports:
                assert not report.failed, self.cache.statistics()
                free += busy.pop(report.job)
            done += IN_A_JOB * len(reports)
            if not reports:
                time.sleep(0.0005)
        return BLOCKS * BLOCK / MIB / (time.perf_counter() - started)


def throughput(folder):
    """Print figures of both; return whether the bar is met."""
    speeds = {("fio", kind): [] for kind in ("write", "read")}
    speeds |= {("hotset", kind): [] for kind in ("write", "read")}
    seconds = []
    for kind in ("write", "read"):
        fio(folder, kind, seconds)  # lays the file out
    mover = Mover(folder)
    for _ in range(CAP_BLOCKS // BLOCKS):
        mover.write()  # so do these slots
    for _ in range(ROUNDS):
        for kind in ("write", "read"):
            speeds["fio", kind].append(fio(folder, kind, seconds))
            speeds["hotset", kind].append(getattr(mover, kind)())
    direct = mover.cache._machine.slots.is_direct
    mover.cache.close()
    print(f"{BLOCKS} blocks of 1 MiB, {DEPTH} at once, O_DIRECT: {direct}")
    met = True
    for kind in ("write", "read"):
        ours, raw = median(speeds["hotset", kind]), median(speeds["fio", kind])
        ratios = [
            a / b
            for a, b in zip(speeds["hotset", kind], speeds["fio", kind], strict=True)
        ]
        share = median(ratios)
        met = met and share >= BAR
        print(
            f"  {kind:5}: fio {raw:6.0f} MiB/s, hotset {ours:6.0f} MiB/s: "
            f"{share:.0%} (bar {BAR:.0%})"
        )
    return met


def look_ups(folder):
    """Print the time of 100 look-ups beside a plain dict's."""
    cache = open_cache(folder / "small", size=3000, max_bytes=64 * MIB)
    keys = [key_of(number) for number in range(KEYS)]
    plain = dict.fromkeys(keys, 1)
    cache._blocks.place.update(plain)
    asked = keys[:: KEYS // LOOKUPS][:LOOKUPS]
    figures = {}
    for name, look in (("dict", plain.__contains__), ("hotset", cache.lookup)):
        times = []
        for _ in range(2000):
            started = time.perf_counter_ns()
            for key in asked:
                look(key)
            times.append(time.perf_counter_ns() - started)
        figures[name] = median(times) / 1000
    cache._blocks.place.clear()
    cache.close()
    print(
        f"100 look-ups among {KEYS} blocks: dict {figures['dict']:.1f} us, "
        f"hotset {figures['hotset']:.1f} us"
    )


def main():
    if shutil.which("fio") is None:
        print("fio is not installed: make bench installs it from Debian's packages")
        return 1
    base = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        look_ups(folder)
        return 0 if throughput(folder) else 1


if __name__ == "__main__":
    sys.exit(main())
