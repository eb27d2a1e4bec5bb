"""Cap and floor at every step of a random run with two namespaces on one small disk.

A step is every write, truncation, allocation and removal of a slot file or of one of
SQLite's files: after each of them the bytes under the path are counted.
"""

import contextlib
import os
import subprocess
import time

import pytest
from support.sqlite_recorder import NAME, RecordingVfs
from support.ssd import NAMESPACE, Player, key_of, open_cache

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.namespace import Namespace

pytestmark = pytest.mark.slow

DISK_BYTES = 8 << 20
MAX_BYTES = 5 << 20
FLOOR_BYTES = 1 << 20
STEPS = 2000
NUMBERS = range(3000)
SIZE = 3000
OTHER = Namespace.of({**NAMESPACE.fields, "model": "other"})


class Watch(OsFiles):
    """The operating system, with the bounds checked after whatever changes the disk.

    Where ``size`` is given the disk has that many bytes, else as many as it has.
    """

    def __init__(self, path, size=None):
        self.path, self.size = path, size
        self.num_checks = 0
        self.is_floor_ours = True
        self.faults = []
        self.vfs = RecordingVfs(_Log(self))

    def used(self):
        names = {self.path}
        for folder in (self.path, *self.path.glob("hotset-*")):
            with contextlib.suppress(FileNotFoundError):  # a thread removes it
                names.update(folder.iterdir())
        total = 0
        for item in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(item).st_blocks * 512
        return total

    def free(self):
        if self.size is None:
            found = os.statvfs(self.path.parent)  # there before the tier is
            return found.f_bavail * found.f_frsize
        foreign = self.path.parent / "foreign"
        taken = os.stat(foreign).st_size if foreign.exists() else 0
        return self.size - self.used() - taken

    def free_bytes(self, folder):
        return self.free() if self.path.exists() else self.size or DISK_BYTES

    def check(self):
        self.num_checks += 1
        used, free = self.used(), self.free()
        if used > MAX_BYTES:
            self.faults.append(f"{used} bytes used")
        if free < FLOOR_BYTES and self.is_floor_ours:
            self.faults.append(f"{free} bytes free")

    @contextlib.contextmanager
    def checked(self):
        yield
        self.check()

    def allocate(self, fd, size):
        with self.checked():
            super().allocate(fd, size)

    def write(self, fd, page, offset):
        with self.checked():
            return super().write(fd, page, offset)

    def unlink(self, folder, name):
        with self.checked():
            super().unlink(folder, name)

    def index_uri(self, path):
        return super().index_uri(path) + f"&vfs={NAME.decode()}"

    # What SQLite does

    def created(self, path, folder_is_synced):
        self.check()

    def removed(self, path, is_synced):
        self.check()

    def around(self, path, *what):
        return self.checked()


class _Log:
    """What SQLite does, told to a watch."""

    def __init__(self, watch):
        self.created, self.removed = watch.created, watch.removed
        self.write = self.truncate = self.sync = watch.around


@pytest.fixture(params=["mounted", "counted"])
def watch(request, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    is_mounted = request.param == "mounted"
    if is_mounted:
        options = f"size={DISK_BYTES}"
        mount = ["mount", "-t", "tmpfs", "-o", options, "hotset-test", str(disk)]
        made = subprocess.run(mount, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"no tmpfs can be mounted here: {made.stderr.strip()}")
    made = Watch(disk / "ssd", None if is_mounted else DISK_BYTES)
    yield made
    made.vfs.close()
    if is_mounted:
        subprocess.run(["umount", str(disk)], check=True)


class Run:
    """Two processes on one path, as far as locks can tell, and a foreign file."""

    def __init__(self, watch, chance):
        self.watch, self.chance = watch, chance
        self.players = {}
        self.num_refused = self.num_stored = 0
        self.foreign = watch.path.parent / "foreign"

    def step(self):
        name = self.chance.choice(("a", "b"))
        kind = self.chance.choices(
            (self.play, self.restart, self.change_foreign), (30, 1, 1)
        )[0]
        kind(name)
        assert not self.watch.faults, self.watch.faults[:3]

    def player(self, name):
        if name not in self.players:
            namespace = NAMESPACE if name == "a" else OTHER
            try:
                cache = open_cache(
                    self.watch.path,
                    files=self.watch,
                    namespace=namespace,
                    size=SIZE,
                    max_bytes=MAX_BYTES,
                    min_free_bytes=FLOOR_BYTES,
                )
            except AdapterError as error:
                assert "no room" in str(error)
                self.num_refused += 1
                return None
            self.players[name] = Player(cache, SIZE)
        return self.players[name]

    def play(self, name):
        player = self.player(name)
        if player is None:
            return
        first = self.chance.choice(NUMBERS)
        player.store(*range(first, first + self.chance.randint(1, 40)))
        known = [n for n in range(first, first + 60) if player.cache.lookup(key_of(n))]
        if known:
            player.load(*known)
        if self.chance.random() < 0.5:
            assert player.cache.drain(30)
        player.step()
        self.num_stored += len(player.stored)
        player.stored.clear()

    def restart(self, name):
        player = self.players.pop(name, None)
        if player is not None:
            player.settle()
            player.cache.close()

    def change_foreign(self, name):
        """Another program writes a file, or removes it; then the tiers make room."""
        if self.foreign.exists():
            self.foreign.unlink()
            return
        for player in self.players.values():
            assert player.cache.drain(30)
        room = self.watch.free() - FLOOR_BYTES
        size = self.chance.randrange(max(1, room + (2 << 20))) & ~4095
        self.watch.is_floor_ours = False
        with contextlib.suppress(OSError), open(self.foreign, "wb") as out:
            out.write(bytes(size))
        until_s = time.monotonic() + 20
        while self.watch.free() < FLOOR_BYTES and self.holds_slots():
            assert time.monotonic() < until_s, "the tiers made no room"
            for player in self.players.values():
                player.step()
            time.sleep(0.01)
        if self.watch.free() < FLOOR_BYTES:
            self.foreign.unlink()  # all of it is somebody else's
        self.watch.is_floor_ours = True

    def holds_slots(self):
        return any(p.cache.gauges()["slot_file_bytes"] for p in self.players.values())


def test_cap_and_floor_hold_at_every_step(campaign, watch):
    run = Run(watch, campaign.chance("ssd bounds"))
    for _ in range(campaign.share(STEPS)):
        run.step()
    for name in ("a", "b"):
        run.restart(name)
    watch.check()
    assert not watch.faults
    print(
        f"{watch.num_checks} checks, {run.num_stored} blocks stored, "
        f"{run.num_refused} starts refused"
    )
    # Some runs have no room for long: what is foreign takes it.
    assert run.num_stored > campaign.share(2000)
    assert watch.num_checks > campaign.share(5000)
