"""Every fault of disk, files and neighbours is a miss or a refusal, and passes."""

import errno
import logging
import os
import shutil
import sqlite3
import stat
import threading

import pytest
from support.ssd import (
    NAMESPACE,
    PAYLOAD_BYTES,
    Player,
    count,
    key_of,
    make_player,
    open_cache,
    payload_of,
)
from support.ssd_faults import FaultyFiles

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd import checksum, counts
from hotset.adapter.ssd.index import Index
from hotset.adapter.ssd.namespace import Namespace
from hotset.policies.request import Request

OTHER = Namespace.of({**NAMESPACE.fields, "model": "other"})
SLOT_BYTES = 4096


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def files():
    made = FaultyFiles()
    yield made
    for gate in made.gates.values():
        gate.set()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def player(tmp_path, files, clock):
    made = make_player(tmp_path / "ssd", files=files, clock=clock)
    yield made
    for gate in files.gates.values():
        gate.set()
    files.faults.clear()
    made.cache.close(10)


def folder_of(tmp_path):
    (folder,) = (tmp_path / "ssd").glob("hotset-*")
    return folder


def slot_of(player, number):
    return player.cache._blocks.at(key_of(number))[0]


def place_of(tmp_path, player, number):
    """Return file and offset of a block."""
    per_file = player.cache._machine.slots.slots_per_file
    file, place = divmod(slot_of(player, number), per_file)
    return folder_of(tmp_path) / f"slots-{file:05d}.bin", place * SLOT_BYTES


def store(player, *numbers):
    player.store(*numbers)
    player.settle()


# Full disks


def test_t61_a_full_disk_refuses_stores_and_serving_goes_on(player, files):
    store(player, 1, 2)
    capacity = player.cache.driver.capacity
    files.faults["allocate"] = errno.ENOSPC
    for number in range(10, 10 + 2 * capacity, 20):
        store(player, *range(number, number + 20))
    assert count(player.cache, "stores", "no_room") > 0
    resident = player.cache.gauges()["resident"]
    slots = player.cache._machine.slots
    assert 0 < resident <= len(slots.numbers()) * slots.slots_per_file < capacity
    last = 10 + 2 * capacity
    store(player, *range(last, last + 5))  # takes the place of others
    assert player.found(range(last, last + 5)) == list(range(last, last + 5))


def test_t61_a_disk_that_is_full_again_has_room_later(player, files, clock):
    files.faults["allocate"] = errno.ENOSPC
    store(player, 1)
    assert player.failed == {1}
    files.faults.clear()
    store(player, 2)
    assert not player.found([2])  # it waits before it tries again
    clock.now_s += 11
    player.wait(lambda: player.cache._machine.care.limit > 0)
    store(player, 3)
    assert player.found([3]) == [3]


def test_t61_writes_that_find_no_room_fail(player, files):
    files.faults["write"] = errno.ENOSPC
    store(player, 1)
    assert player.failed == {1}
    assert count(player.cache, "stores", "full") == 1
    files.faults.clear()
    store(player, 1)
    assert player.found([1]) == [1]


def test_t63_more_on_disk_than_the_cap_is_trimmed_before_serving(tmp_path):
    first = make_player(tmp_path / "ssd")
    capacity = first.cache.driver.capacity
    for number in range(0, capacity, 20):
        store(first, *range(number, min(capacity, number + 20)))
    first.cache.close()
    cap = 2 << 20
    second = make_player(tmp_path / "ssd", max_bytes=cap)
    used = sum(f.stat().st_blocks * 512 for f in folder_of(tmp_path).iterdir())
    assert used <= cap
    found = second.found(range(capacity))
    assert 0 < len(found) == second.cache.gauges()["resident"]
    # The one that was used longest ago went first.
    assert found == list(range(found[0], capacity))
    second.cache.close()


def test_the_floor_of_free_bytes_is_kept_by_refusing(tmp_path):
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    with pytest.raises(AdapterError, match="min_free_bytes"):
        open_cache(tmp_path / "ssd", min_free_bytes=free + (1 << 30))
    assert [path.name for path in (tmp_path / "ssd").iterdir()] == ["hotset.lock"]


# Files that change under our feet


def test_t64_files_removed_by_others_are_made_anew(player, tmp_path):
    store(player, *range(60))
    gone = sorted(folder_of(tmp_path).glob("slots-*"))
    for file in gone:
        file.unlink()
    player.wait(lambda: player.cache.gauges()["slot_file_bytes"] == 0)
    assert player.found(range(60)) == []
    store(player, 100, 101)
    assert player.found([100, 101]) == [100, 101]
    assert count(player.cache, "evictions", "lost") == 60


def test_a_block_that_is_read_and_lost_goes_after_the_read(player, files, tmp_path):
    store(player, 1)
    gate = files.gates["read"] = threading.Event()
    player.load(1)
    for file in folder_of(tmp_path).glob("slots-*"):
        file.unlink()
    player.wait(lambda: not player.cache.lookup(key_of(1)))
    assert len(player.cache.driver) == 1
    gate.set()
    player.settle()
    assert len(player.cache.driver) == 0


def test_t66_a_block_being_read_is_no_victim(tmp_path, files):
    player = make_player(tmp_path / "ssd", files=files, max_bytes="448KiB")
    capacity = player.cache.driver.capacity
    store(player, *range(capacity))
    gate = files.gates["read"] = threading.Event()
    player.load(0, 1)
    more = range(1000, 1000 + capacity - 2)
    player.store(*more)
    player.wait(lambda: player.stored >= set(more))
    assert player.cache.lookup(key_of(0)) and player.cache.lookup(key_of(1))
    gate.set()
    player.settle()
    assert player.loaded == {0, 1}
    player.cache.close()


@pytest.mark.parametrize("size", [0, 100, SLOT_BYTES + 1])
def test_t67_a_file_of_another_size_is_a_miss_and_goes(player, tmp_path, size):
    store(player, *range(40))
    file, _ = place_of(tmp_path, player, 3)
    os.truncate(file, size)
    player.load(3)
    player.settle()
    assert 3 in player.loaded | player.failed
    player.cache.close()
    again = make_player(tmp_path / "ssd")
    assert not file.exists()
    found = again.found(range(40))
    assert 0 < len(found) < 40 and 3 not in found
    again.cache.close()


def test_t68_a_flipped_bit_is_a_miss_and_is_counted(player, tmp_path):
    store(player, 1, 2)
    file, offset = place_of(tmp_path, player, 1)
    with open(file, "r+b") as out:
        out.seek(offset + 512 + 100)
        byte = out.read(1)[0] ^ 1
        out.seek(offset + 512 + 100)
        out.write(bytes([byte]))
    player.load(1, 2)
    player.settle()
    assert (player.loaded, player.failed) == ({2}, {1})
    assert not player.cache.lookup(key_of(1))
    assert count(player.cache, "loads", "checksum") == 1
    assert count(player.cache, "evictions", "checksum") == 1
    store(player, 1)
    assert player.found([1]) == [1]


def test_t69_a_torn_index_is_made_anew_from_the_slots(player, tmp_path, caplog):
    store(player, *range(30))
    player.cache.close()
    index = folder_of(tmp_path) / "index.db"
    os.truncate(index, index.stat().st_size - 1000)
    with caplog.at_level(logging.WARNING):
        again = make_player(tmp_path / "ssd")
    assert "made anew" in caplog.text
    assert again.found(range(30)) == list(range(30))
    again.cache.close()


def test_t69_a_stale_index_is_disproved_by_the_slots(tmp_path):
    """A killed process's slots under an index from before they were used again."""
    given = {"max_bytes": "448KiB"}
    player = make_player(tmp_path / "ssd", **given)
    capacity = player.cache.driver.capacity
    store(player, *range(capacity))
    player.cache.close()
    before = (folder_of(tmp_path) / "index.db").read_bytes()
    player = make_player(tmp_path / "ssd", **given)
    store(player, *range(1000, 1000 + capacity))
    player.cache.close()
    (folder_of(tmp_path) / "index.db").write_bytes(before)
    again = make_player(tmp_path / "ssd", **given)
    again.load(*range(capacity))
    again.settle()
    assert again.loaded == set()
    again.cache.close()


# Disks that fail


def test_a_read_error_is_a_miss(player, files):
    store(player, 1, 2)
    files.faults["read"] = errno.EIO
    player.load(1)
    player.settle()
    assert player.failed == {1}
    files.faults.clear()
    assert player.found([1, 2]) == [2]


@pytest.mark.parametrize("call", ["write", "sync_data"])
def test_a_write_error_fails_the_store(player, files, call):
    files.faults[call] = errno.EIO
    store(player, 1)
    assert player.failed == {1}
    assert player.found([1]) == []
    files.faults.clear()
    store(player, 1)
    assert player.found([1]) == [1]


def test_a_read_only_disk_pauses_stores_and_serves_loads(player, files, clock):
    store(player, 1)
    files.faults["write"] = errno.EROFS
    store(player, 2)
    assert player.cache.gauges()["writes_paused"] == 1
    assert player.store(3) == []
    assert count(player.cache, "stores", "paused") == 1
    assert player.found([1]) == [1]
    files.faults.clear()
    clock.now_s += 2
    player.wait(lambda: not player.cache.gauges()["writes_paused"])
    store(player, 3)
    assert player.found([1, 3]) == [1, 3]


def test_a_vanished_folder_is_a_miss(player, tmp_path):
    store(player, 1)
    shutil.rmtree(tmp_path / "ssd")
    player.wait(lambda: not player.cache.lookup(key_of(1)))
    assert player.store(2) == []
    assert not player.load(1)
    assert player.cache.close()


def test_a_slow_disk_pauses_and_goes_on_by_itself(tmp_path, files, clock, caplog):
    player = make_player(tmp_path / "ssd", files=files, clock=clock, slow_s=0.02)
    store(player, *range(8))
    files.delay_s["read"] = 0.1
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            player.load(number)
            player.settle()
        assert player.cache.gauges()["reads_paused"] == 1
        assert not player.cache.lookup(key_of(5))
        assert not player.load(5)
        assert player.loaded == {0, 1, 2}  # slow, and right
        files.delay_s.clear()
        clock.now_s += 2
        player.wait(lambda: not player.cache.gauges()["reads_paused"])
    assert "reads of the SSD tier pause" in caplog.text
    assert "reads of the SSD tier go on" in caplog.text
    assert player.found([5]) == [5]
    player.cache.close()


def test_an_index_that_cannot_be_written_fails_stores(player, clock, monkeypatch):
    store(player, 1)

    def refuse(*arguments, **given):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(Index, "commit", refuse)
        store(player, 2)
        assert player.failed == {2}
        assert player.cache.gauges()["writes_paused"] == 1
        assert player.found([1]) == [1]
    clock.now_s += 2
    player.wait(lambda: not player.cache.gauges()["writes_paused"])
    store(player, 2, 3)
    assert player.found([1, 2, 3]) == [1, 2, 3]


def test_a_failure_of_our_own_fails_stores_and_passes(player, clock, monkeypatch):
    store(player, 1)

    def fail(number):
        raise RuntimeError("a mistake")

    with monkeypatch.context() as patch:
        patch.setattr(player.cache._machine.slots, "sync", fail)
        store(player, 2)
    assert player.failed == {2}
    assert player.cache.gauges()["writes_paused"] == 1
    assert player.found([1]) == [1]
    clock.now_s += 2
    player.wait(lambda: not player.cache.gauges()["writes_paused"])
    store(player, 2, 3)
    assert player.found([1, 2, 3]) == [1, 2, 3]


def test_t73_o_direct_refused_is_one_warning(tmp_path, files, caplog):
    files.refuses_direct = True
    with caplog.at_level(logging.WARNING):
        player = make_player(tmp_path / "ssd", files=files)
        for number in range(0, 200, 20):
            store(player, *range(number, number + 20))
    assert caplog.text.count("O_DIRECT") == 1
    assert player.found(range(200)) == list(range(200))
    assert "sync_data" in files.calls
    player.cache.close()


# Deadlines, queues, order


def test_t74_a_store_that_hangs_fails_once_and_late_reports_do_no_harm(
    player, files, clock
):
    gate = files.gates["write"] = threading.Event()
    player.store(1)
    player.wait(lambda: "write" in files.calls)
    clock.now_s += 31
    player.wait(lambda: player.failed == {1})
    assert not player.cache.lookup(key_of(1))
    gate.set()
    player.settle()
    assert (player.stored, player.failed) == (set(), {1})
    assert not player.cache.lookup(key_of(1))
    store(player, 1)
    assert player.found([1]) == [1]


def test_t74_a_load_that_hangs_leaves_the_buffer_alone(player, files, clock):
    store(player, 1)
    gate = files.gates["read"] = threading.Event()
    buffer = bytearray(PAYLOAD_BYTES)
    assert player.cache.load(99, [key_of(1)], [memoryview(buffer)])
    player.wait(lambda: "read" in files.calls)
    clock.now_s += 6
    (report,) = player.cache.finished()
    assert (report.job, report.failed) == (99, [key_of(1)])
    buffer[:] = b"x" * PAYLOAD_BYTES  # it has another use now
    gate.set()
    assert player.cache.drain(10)
    assert player.cache.finished() == []
    assert bytes(buffer) == b"x" * PAYLOAD_BYTES
    assert player.found([1]) == [1]


def test_a_full_queue_drops_stores_and_keeps_loads(tmp_path, files):
    player = make_player(tmp_path / "ssd", files=files, queue_bytes=4 * SLOT_BYTES)
    store(player, 1)
    gate = files.gates["write"] = threading.Event()
    assert player.store(*range(10, 20)) == [10, 11, 12, 13]
    assert player.store(30) == []
    assert count(player.cache, "stores", "queue") == 7
    assert player.load(1)
    player.wait(lambda: player.loaded == {1})  # while the writes hang
    gate.set()
    player.settle()
    assert player.found([10, 11, 12, 13]) == [10, 11, 12, 13]
    player.cache.close()


def test_reads_overtake_writes(player, files):
    store(player, 1)
    gate = files.gates["write"] = threading.Event()
    player.store(*range(10, 60))
    player.wait(lambda: files.calls.count("write") >= 4)
    player.load(1)
    player.wait(lambda: player.loaded == {1})
    assert len(player.stored) == 1
    gate.set()
    player.settle()


def test_the_shutdown_has_a_deadline(tmp_path, files, caplog):
    player = make_player(tmp_path / "ssd", files=files)
    gate = files.gates["write"] = threading.Event()
    player.store(1)
    player.wait(lambda: "write" in files.calls)
    with caplog.at_level(logging.WARNING):
        assert not player.cache.close(0.2)
    assert "did not answer" in caplog.text
    gate.set()


def test_a_budget_of_written_bytes(tmp_path, clock):
    wall = Clock()
    given = {"clock": clock, "wall": wall}
    given["writes_per_day_bytes"] = 24 * 5 * SLOT_BYTES  # 5 at once
    player = make_player(tmp_path / "ssd", **given)
    assert player.store(*range(8), now_s=clock()) == [0, 1, 2, 3, 4]
    assert count(player.cache, "stores", "budget") == 3
    player.settle()
    player.cache.close()
    player = make_player(tmp_path / "ssd", **given)
    assert player.store(5, now_s=clock()) == []  # a restart does not refill it
    clock.now_s += 3600
    assert len(player.store(*range(10, 20), now_s=clock())) == 4
    player.settle()
    player.cache.close()


def test_t75_each_look_up_has_one_outcome_and_counts_never_fall(player):
    seen = {}
    for number in range(0, 200, 7):
        player.store(*range(number, number + 10))
        player.cache.lookup(key_of(number))
        player.load(number)
        player.step()
        now = player.cache.statistics()
        assert all(now[name] >= value for name, value in seen.items())
        seen = now
    player.settle()
    # The player looks every block up once before it stores it.
    assert seen["lookups", "hit"] + seen["lookups", "miss"] == 29 * 11


def test_t76_stores_without_loads_are_said_once(player, monkeypatch, caplog):
    monkeypatch.setattr(counts, "WARN_STORES", 20)
    with caplog.at_level(logging.WARNING):
        for number in range(0, 60, 10):
            store(player, *range(number, number + 10))
    assert caplog.text.count("none was loaded") == 1


# Whose files


def test_files_are_the_owners_alone(player, tmp_path):
    store(player, 1)
    for file in folder_of(tmp_path).iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(folder_of(tmp_path).stat().st_mode) == 0o700


def test_symbolic_links_are_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "ssd").symlink_to(tmp_path / "real")
    with pytest.raises(AdapterError, match="symbolic link"):
        open_cache(tmp_path / "ssd")
    (tmp_path / "ssd").unlink()
    player = make_player(tmp_path / "ssd")
    store(player, *range(30))
    player.cache.close()
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    for name in ("slots-00000.bin", "index.db-wal", "about.json", "probe"):
        (folder_of(tmp_path) / name).unlink(missing_ok=True)
        (folder_of(tmp_path) / name).symlink_to(precious)
    again = make_player(tmp_path / "ssd")
    store(again, *range(100, 130))
    again.cache.close()
    assert precious.read_bytes() == b"precious"


def test_files_of_others_are_never_touched(tmp_path):
    player = make_player(tmp_path / "ssd", ephemeral=True)
    store(player, 1)
    (folder_of(tmp_path) / "notes.txt").write_text("mine")
    (tmp_path / "ssd" / "hotset-notes").mkdir()
    (tmp_path / "ssd" / "hotset-notes" / "slots-00000.bin").write_text("mine")
    player.cache.close()
    assert [f.name for f in folder_of_others(tmp_path)] == ["notes.txt"]
    kept = tmp_path / "ssd" / "hotset-notes" / "slots-00000.bin"
    assert kept.read_text() == "mine"


def folder_of_others(tmp_path):
    return [f for f in tmp_path.glob("ssd/hotset-*/*") if f.suffix == ".txt"]


def test_namespaces_that_nobody_serves_make_room_the_oldest_first(tmp_path):
    locks = {}
    for age in range(3):
        namespace = Namespace.of({"model": str(age)})
        player = make_player(tmp_path / "ssd", namespace=namespace)
        store(player, *range(100))
        player.cache.close()
        (new,) = set((tmp_path / "ssd").glob("hotset-*/lock")) - set(locks.values())
        os.utime(new, (1000 + age, 1000 + age))
        locks[age] = new
    player = make_player(tmp_path / "ssd")
    alive = []
    for number in range(0, 900, 20):
        store(player, *range(number, number + 20))
        alive.append(tuple(age for age, lock in locks.items() if lock.exists()))
    player.cache.close()
    states = list(dict.fromkeys(alive))
    assert states in ([(0, 1, 2), (1, 2), (2,), ()], [(0, 1, 2), (1, 2), (2,)])


def test_two_processes_share_a_path_under_one_cap(tmp_path):
    one = make_player(tmp_path / "ssd")
    two = make_player(tmp_path / "ssd", namespace=OTHER)
    for number in range(0, 1200, 20):
        for who in (one, two):
            who.store(*range(number, number + 20))
        one.settle()
        two.settle()
    used = sum(f.stat().st_blocks * 512 for f in (tmp_path / "ssd").rglob("*"))
    assert used <= 4 << 20
    assert one.found(range(1200)) and two.found(range(1200))
    one.cache.close()
    two.cache.close()


def test_without_the_library_slots_have_zlibs_checksum(tmp_path, monkeypatch):
    from hotset.adapter.ssd import slot

    first = make_player(tmp_path / "ssd")
    store(first, 1)
    first.cache.close()
    without = {checksum.CRC32: checksum.CHECKSUMS[checksum.CRC32]}
    monkeypatch.setattr(slot, "CHECKSUMS", without)
    monkeypatch.setattr(slot, "BEST", checksum.CRC32)
    second = make_player(tmp_path / "ssd")
    store(second, 2)
    assert second.found([2]) == [2]
    is_library = checksum.XXH3 in checksum.CHECKSUMS
    assert second.found([1]) == ([] if is_library else [1])
    second.cache.close()
    monkeypatch.undo()
    third = make_player(tmp_path / "ssd")
    assert third.found([2]) == [2]  # the header says which it is
    third.cache.close()


def test_a_buffer_of_another_size_is_a_fault_that_stays_inside(player, caplog):
    with caplog.at_level(logging.ERROR):
        taken = player.cache.store(
            7, [key_of(1)], [memoryview(payload_of(1)[:-8])], [0], Request.of(), 0.0
        )
        assert taken == [True]
        assert player.cache.drain(10)
        (report,) = player.cache.finished()
    assert report.failed == [key_of(1)]
    assert "the SSD tier failed" in caplog.text


def test_a_job_under_way_at_a_reset_is_never_committed(player, files):
    gate = files.gates["sync_data"] = threading.Event()
    player.store(1)
    player.wait(lambda: "sync_data" in files.calls)
    player.cache.reset()
    gate.set()
    player.settle()
    assert player.failed == {1}
    assert player.cache._machine.committer.is_idle


def test_players_catch_wrong_bytes(player, tmp_path, monkeypatch):
    """The oracle can fail: a cache that does not check gives it a wrong byte."""
    store(player, 1)
    file, offset = place_of(tmp_path, player, 1)
    with open(file, "r+b") as out:
        out.seek(offset + 600)
        out.write(b"wrong")
    form = player.cache._machine.pool._read.__self__._form
    monkeypatch.setattr(form, "fault", lambda *arguments: "")
    player.load(1)
    with pytest.raises(AssertionError):
        player.settle()
    assert isinstance(player, Player)
