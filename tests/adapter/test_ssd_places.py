"""Odd folders, limits and leftovers: a clear line, or a cache that works."""

import json
import os
import sqlite3
from pathlib import Path

import pytest
from support.ssd import make_config, make_player

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.committer import _MOST_USES, Committer
from hotset.adapter.ssd.config import SsdConfig
from hotset.adapter.ssd.files import OsFiles, try_lock
from hotset.adapter.ssd.index import FILES
from hotset.adapter.ssd.namespace import Namespace
from hotset.adapter.ssd.quota import Quota
from hotset.adapter.ssd.short_steps import ShortSteps
from hotset.adapter.ssd.slot import PAGE


@pytest.fixture
def path(tmp_path):
    """A tier of five blocks that nobody serves."""
    player = make_player(tmp_path / "ssd")
    player.store(*range(5))
    player.settle()
    player.cache.close()
    return tmp_path / "ssd"


def folder_of(path):
    (found,) = path.glob("hotset-*")
    return found


def found_later(path, numbers, **given):
    """What another process finds, and that it can store."""
    player = make_player(path, **given)
    try:
        found = player.found(numbers)
        player.store(1000)  # it may be there already
        player.settle()
        assert player.found([1000]) == [1000]
        return found
    finally:
        player.cache.close()


# The path


def test_a_path_is_the_same_wherever_the_process_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make_config("ssd").path == str(tmp_path / "ssd")
    assert make_config("./a//b/./").path == str(tmp_path / "a" / "b")
    assert make_config("/").path == "/"
    player = make_player("ssd")
    monkeypatch.chdir("/")
    player.store(1)
    player.settle()
    player.cache._machine.care.look()
    assert player.found([1]) == [1]
    player.cache.close()


@pytest.mark.parametrize("ending", ["", "/", "/.", "//"])
def test_a_link_is_not_followed_however_it_is_written(tmp_path, ending):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(AdapterError, match="no symbolic link"):
        make_player(f"{tmp_path}/link{ending}")
    assert not list((tmp_path / "real").iterdir())


def test_names_that_are_odd_but_allowed(tmp_path):
    player = make_player(tmp_path / "a\nb?#%41 ")
    player.store(1)
    player.settle()
    assert player.found([1]) == [1]
    player.cache.close()


@pytest.mark.parametrize("value", ["", "a\0b", "a\ud800", 7, None])
def test_names_that_are_none(value):
    faults = []
    assert SsdConfig.read({"path": value, "max_bytes": "1GiB"}, "ssd", faults) is None
    (fault,) = faults
    assert fault.endswith("a folder is needed")


# Caps and limits


def test_a_cap_far_below_the_last_one_is_served(path):
    """The files of the larger cap would not fit: it begins anew in smaller ones."""
    large = path.parent / "large"
    player = make_player(large, max_bytes="64MiB")
    player.store(*range(5))
    player.settle()
    player.cache.close()
    assert found_later(large, range(5), max_bytes="1MiB") == []
    used = sum(each.stat().st_blocks * 512 for each in large.rglob("*"))
    assert used <= 1 << 20


def test_a_cap_far_above_the_last_one_keeps_few_files_open(path):
    player = make_player(path, max_bytes="1GiB")
    assert player.cache._machine.care._max_files <= 256
    player.cache.close()


def test_a_cap_that_changes_a_little_keeps_the_blocks(path):
    for cap in ("2MiB", "16MiB", "4MiB"):
        assert found_later(path, range(5), max_bytes=cap) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("key", ["queue_bytes", "writes_per_day_bytes"])
def test_a_limit_below_one_chunk_is_said_at_the_start(tmp_path, key):
    """Nothing would ever be stored, without a word."""
    least = 4096 if key == "queue_bytes" else 24 * 4096
    with pytest.raises(AdapterError, match=f"{key}.*a chunk takes 4096") as raised:
        make_player(tmp_path / "ssd", **{key: least - 24})
    assert len(str(raised.value).splitlines()) == 1
    assert found_later(tmp_path / "ssd", [], **{key: least}) == []


# What lies there already


def test_a_deleted_index_is_made_anew_from_the_slots(path):
    for name in FILES:
        (folder_of(path) / name).unlink(missing_ok=True)
    assert found_later(path, range(5)) == [0, 1, 2, 3, 4]


def damage(path, *statements):
    database = sqlite3.connect(folder_of(path) / "index.db")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize("number", [1 << 47, 1 << 61, -1])
def test_one_wrong_row_costs_one_block(path, number):
    """And no later one: blocks are numbered on from the others."""
    damage(
        path,
        f"UPDATE slots SET generation = {number} WHERE slot = 0",
        f"UPDATE meta SET value = {number}.0 WHERE name = 'generation'",
    )
    for _ in range(2):
        assert len(found_later(path, range(5))) == 4
    player = make_player(path)
    assert player.found([1000]) == [1000]
    player.cache.close()


@pytest.mark.parametrize("value", ["9e999", "-9e999", "'text'", "1e300", "-1e300"])
def test_numbers_that_are_none_do_not_stop_the_start(path, value):
    damage(path, f"UPDATE meta SET value = {value}")
    assert found_later(path, range(5)) == [0, 1, 2, 3, 4]


def test_an_index_that_another_process_uses_is_left_alone(path):
    """Its lock was removed, or somebody looks into it: no second server, no damage."""
    player = make_player(path)
    (folder_of(path) / "lock").unlink()
    with pytest.raises(AdapterError, match="another process uses the index"):
        make_player(path)
    assert player.found(range(5)) == [0, 1, 2, 3, 4]
    player.cache.close()


def test_a_lock_that_was_removed_is_made_again(path):
    files = OsFiles()
    one, other = (Quota(files, str(path), 1 << 30, 0) for _ in range(2))
    (path / "hotset.lock").unlink()
    with one.held():
        fd = files.open(other.folder, "hotset.lock")
        assert not try_lock(fd)
        files.close(fd)
    with other.held():
        pass
    one.close()
    other.close()


def test_a_folder_replaced_by_another_is_gone(path):
    player = make_player(path)
    here = folder_of(path)
    here.rename(path.parent / "away")
    second = make_player(path)
    player.cache._machine.care.look()
    assert player.cache.gauges()["reads_paused"] == 1
    assert player.store(7) == []
    assert second.found(range(5)) == []
    player.cache.close()
    second.cache.close()


def test_files_named_like_an_index_stay(path):
    here, other = folder_of(path), path.parent / "other"
    other.write_text("mine")
    mine = ("index.db-backup", "index.db.bak", "slots-1.bin", "slots-00000.bin\n")
    for name in mine:
        (here / name).write_text("mine")
    (here / "index.db-link").symlink_to(other)
    assert found_later(path, range(5)) == [0, 1, 2, 3, 4]
    quota = Quota(OsFiles(), str(path), 0, 0)
    assert quota.remove(here.name)
    quota.close()
    assert sorted(each.name for each in here.iterdir()) == sorted(
        (*mine, "index.db-link")
    )
    assert other.read_text() == "mine"


class ShortWrites(OsFiles):
    """A disk that is full within a small file."""

    def write(self, fd, page, offset):
        return super().write(fd, page[:100], offset)


def test_a_disk_that_is_full_at_the_start_is_one_line(tmp_path):
    with pytest.raises(AdapterError, match="No space left"):
        make_player(tmp_path / "ssd", files=ShortWrites())
    assert not list((tmp_path / "ssd").glob("hotset-*"))
    assert found_later(tmp_path / "ssd", []) == []


@pytest.mark.parametrize(
    "change",
    [
        {"slots_per_file": 1 << 47},
        {"slot_bytes": 1 << 47},
        {"payload_bytes": 1 << 47},
        {"slots_per_file": 3},
        {"fields": {"model": "\ud800"}},
        {"index_bytes": 1 << 47},
    ],
)
def test_what_a_folder_says_of_itself_may_be_wrong(path, change):
    about = folder_of(path) / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **change}))
    found_later(path, range(5))


def test_a_start_that_was_cut_off_leaves_nothing_that_counts(path):
    """A process that was killed between any two files of a new namespace."""
    here = folder_of(path)
    for kept in ((), ("lock",), ("lock", "about.json.new"), ("lock", "about.json")):
        for each in here.iterdir():
            if each.name not in kept:
                each.unlink()
        if "about.json.new" in kept:
            Path(here, "about.json.new").write_text('{"form')
        assert found_later(path, range(5)) == []


# A disk that hangs


def test_what_waits_for_a_disk_that_hangs_is_bounded():
    committer = Committer(None, None, None, None, None, None)
    for _ in range(3 * _MOST_USES // 1000):
        committer.add(uses=[(0, 0.0, 0, 0)] * 1000)
    assert len(committer._uses) <= _MOST_USES + 1000


def test_short_steps_pause_while_reads_are_waited_for():
    now, pauses = [0.0], []
    steps = ShortSteps(lambda: now[0], pauses.append)
    for is_waiting, later_s, paused in (
        (True, 0.0, 0),  # the first has no length
        (True, 0.0001, 1),
        (False, 0.0001, 1),
        (True, 0.5, 1),
        (True, 0.0001, 2),
    ):
        now[0] += later_s
        steps.end_step(is_waiting)
        assert len(pauses) == paused


def test_a_process_leaves_no_file_open(path):
    before = len(os.listdir("/proc/self/fd"))
    assert found_later(path, range(5)) == [0, 1, 2, 3, 4]
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_index_that_cannot_be_written_at_the_start_is_one_line(path, monkeypatch):
    """A full disk; the next start has all it needs, and nothing is left open."""
    before = len(os.listdir("/proc/self/fd"))

    def full(index, *changes, **named):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("hotset.adapter.ssd.index.Index.commit", full)
        for damaged in (False, True):
            if damaged:
                (folder_of(path) / "index.db").write_bytes(b"no database" * 100)
            with pytest.raises(AdapterError, match="disk is full") as raised:
                make_player(path)
            assert len(str(raised.value).splitlines()) == 1
            del raised
    assert len(os.listdir("/proc/self/fd")) == before
    assert found_later(path, range(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("length", [9_000, 100_000])
def test_a_namespace_that_has_much_to_say_is_found_again_under_its_cap(
    tmp_path, length
):
    """Layers by name: what the folder says of itself takes several pages."""
    given = {
        "namespace": Namespace.of({"hash_seed": "0", "groups": "x" * length}),
        "max_bytes": 800_000,
    }
    first = make_player(tmp_path / "ssd", **given)
    capacity = first.cache.driver.capacity
    for number in range(0, capacity, 10):
        first.store(*range(number, min(number + 10, capacity)))
        first.settle()
    stored = first.cache.gauges()["resident"]
    first.cache.close()
    second = make_player(tmp_path / "ssd", **given)
    assert second.cache.driver.capacity == capacity
    assert second.cache.gauges()["resident"] == stored == capacity
    second.cache.close()
    used = sum(each.stat().st_blocks * 512 for each in (tmp_path / "ssd").rglob("*"))
    assert used <= 800_000


def test_a_stopped_cache_moves_nothing_and_ends_at_once(path, monkeypatch):
    player = make_player(path)
    cache = player.cache
    monkeypatch.setattr(cache._machine.pool, "_most_writing", 0)  # all of them wait
    player.store(*range(20, 24))
    assert cache.stop(10.0)
    player.settle()
    assert player.failed == {20, 21, 22, 23}
    assert cache.close(10.0)
    assert found_later(path, range(30)) == [0, 1, 2, 3, 4]


def test_where_the_parts_of_files_lie_was_counted_before(tmp_path):
    """Pages written here and there split a file into parts, which take room too."""
    player = make_player(tmp_path / "ssd")
    player.store(*range(20))
    assert player.cache.drain(30)
    quota = Quota(OsFiles(), str(tmp_path / "ssd"), 1 << 40, 0)
    (before,) = quota.folders()
    for path in (tmp_path / "ssd").glob("hotset-*/slots-*"):
        with path.open("r+b") as file:
            for at in range(0, path.stat().st_size, 2 * PAGE):
                os.pwrite(file.fileno(), bytes(PAGE), at)
                os.fdatasync(file.fileno())
    (after,) = quota.folders()
    grown = after.used_bytes - before.used_bytes
    assert grown == before.reserved_bytes - after.reserved_bytes
    print(f"files took {grown} bytes more")
    player.cache.close()
    quota.close()
