"""Damage of every kind to slots, index and journal: a miss, never a wrong byte.

Each round lays out a namespace as a killed process left it, or keeps it served, does
damage to it, and loads every block that anything claims to be there.
"""

import os
import shutil
import sqlite3

import pytest
from support.ssd import NAMESPACE, Player, key_of, make_player, open_cache

from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.namespace import Namespace
from hotset.adapter.ssd.quota import folder_name

pytestmark = pytest.mark.slow

MUTATIONS = 10_000
IN_A_ROUND = 40
BLOCKS = 24
NUMBERS = range(240)
SIZE = 600
SLOT_BYTES = 4096
MAX_BYTES = 3 << 18
OTHER = Namespace.of({**NAMESPACE.fields, "dtype": "fp16"})
GIVEN = {"size": SIZE, "max_bytes": MAX_BYTES, "threads": 2}


def lay_out(path):
    """Make a namespace, states of it before, and another one with the same keys.

    Returns
    -------
    set of int
        The blocks in it. Its slots have held others before.
    """
    other = make_player(path / "other", namespace=OTHER, **GIVEN)
    other.store(*range(BLOCKS))
    other.settle()
    other.cache.close()
    player = make_player(path / "ssd", **GIVEN)
    capacity = player.cache.driver.capacity
    assert BLOCKS <= capacity <= len(NUMBERS) // 2
    for number in range(capacity):
        player.store(number)
        player.settle()
    shutil.copytree(path / "ssd", path / "old")
    for number in NUMBERS[capacity:]:
        player.store(number)
        player.settle()
    player.store(*range(BLOCKS))
    player.settle()
    shutil.copytree(path / "ssd", path / "killed")  # with a journal
    stored = {n for n in NUMBERS if player.cache.lookup(key_of(n))}
    assert len(stored) == capacity
    player.cache.close()
    return stored


class Damage:
    """Does damage to one namespace's files, by chance."""

    def __init__(self, chance, folder, old, other):
        self.chance = chance
        self.folder, self.old, self.other = folder, old, other

    def slots(self):
        """Return (file, offset) of every slot."""
        return [
            (file, offset)
            for file in sorted(self.folder.glob("slots-*"))
            for offset in range(0, file.stat().st_size - SLOT_BYTES + 1, SLOT_BYTES)
        ]

    def any_slot(self):
        slots = self.slots()
        return self.chance.choice(slots) if slots else None

    def to_slot(self):
        slot = self.any_slot()
        if slot is None:
            return
        kind = self.chance.choice(
            ["flip", "flip", "swap", "copy", "foreign", "stale", "fill", "shift"]
        )
        getattr(self, kind)(*slot)

    def at(self):
        """Return a place in a slot, half of them in its header."""
        return self.chance.randrange(self.chance.choice((144, 512 + SIZE)))

    def flip(self, file, offset):
        place = offset + self.at()
        with open(file, "r+b") as out:
            out.seek(place)
            byte = out.read(1)[0] ^ self.chance.randint(1, 255)
            out.seek(place)
            out.write(bytes([byte]))

    def fill(self, file, offset):
        begin = self.at()
        with open(file, "r+b") as out:
            out.seek(offset + begin)
            length = self.chance.randint(1, SLOT_BYTES - begin)
            out.write(bytes([self.chance.choice((0, 255))]) * length)

    def shift(self, file, offset):
        """Move bytes within a slot."""
        source, to = self.at(), self.at()
        length = self.chance.randint(1, 200)
        data = read(file, offset + source, length)
        write(file, offset + to, data[: SLOT_BYTES - to])

    def swap(self, file, offset):
        other_file, other_offset = self.any_slot()
        one, two = read(file, offset), read(other_file, other_offset)
        write(file, offset, two)
        write(other_file, other_offset, one)

    def copy(self, file, offset):
        other_file, other_offset = self.any_slot()
        write(file, offset, read(other_file, other_offset))

    def foreign(self, file, offset):
        there = self.other / file.name
        if there.exists():
            write(file, offset, read(there, offset))

    def stale(self, file, offset):
        there = self.old / file.name
        if there.exists():
            write(file, offset, read(there, offset))

    def to_file(self):
        """Cut, lengthen, remove or exchange a slot file."""
        files = sorted(self.folder.glob("slots-*"))
        if not files:
            return
        file = self.chance.choice(files)
        kind = self.chance.randrange(4)
        if kind == 0:
            os.truncate(file, self.chance.randrange(file.stat().st_size + 1))
        elif kind == 1:
            os.truncate(file, file.stat().st_size + self.chance.randint(1, 9000))
        elif kind == 2:
            file.unlink()
        else:
            other = self.chance.choice(files)
            file.rename(file.with_name("aside"))
            if other != file:
                other.rename(file)
            file.with_name("aside").rename(other)

    def to_index(self):
        kinds = ("flip_index", "cut_index", "change_rows", "exchange_index")
        kind = self.chance.choice((*kinds, "flip_about"))
        getattr(self, kind)()

    def index_file(self):
        files = [f for f in sorted(self.folder.glob("index.db*")) if f.stat().st_size]
        return self.chance.choice(files) if files else None

    def flip_index(self):
        file = self.index_file()
        if file is not None:
            place = self.chance.randrange(file.stat().st_size)
            old = read(file, place, 1)[0]
            write(file, place, bytes([old ^ self.chance.randint(1, 255)]))

    def cut_index(self):
        file = self.index_file()
        if file is not None:
            os.truncate(file, self.chance.randrange(file.stat().st_size))

    def change_rows(self):
        """Change rows with SQLite's own means: a whole index that lies."""
        statement = self.chance.choice(
            (
                "UPDATE slots SET generation = generation + ?",
                "UPDATE slots SET key = (SELECT key FROM slots ORDER BY random())",
                "UPDATE slots SET slot = slot + 1000 + ?",
                "UPDATE slots SET slot = -slot - ?",
                "UPDATE slots SET key = 'text' || ?",
                "UPDATE slots SET depth = 1e9 * ?",
                "UPDATE slots SET used = -?",
                "DELETE FROM slots WHERE slot % 3 = ?",
                "CREATE TABLE IF NOT EXISTS stranger (a)",
                "CREATE TRIGGER IF NOT EXISTS t AFTER DELETE ON slots "
                "BEGIN DELETE FROM slots; END",
                "INSERT OR REPLACE INTO slots SELECT slot + 1, key, generation, depth, "
                "used, uses, stored_s, used_s FROM slots WHERE slot % 5 <> ?",
            )
        )
        database = sqlite3.connect(self.folder / "index.db", isolation_level=None)
        try:
            number = (self.chance.randint(0, 3),) if "?" in statement else ()
            database.execute(statement, number)
        except sqlite3.Error:
            pass  # damaged already
        finally:
            database.close()

    def exchange_index(self):
        """Put the index, or its journal, of before or of another namespace here."""
        source = self.chance.choice((self.old, self.other))
        name = self.chance.choice(("index.db", "index.db-wal"))
        if (source / name).exists():
            shutil.copy(source / name, self.folder / name)

    def flip_about(self):
        file = self.folder / "about.json"
        place = self.chance.randrange(file.stat().st_size)
        old = read(file, place, 1)[0]
        write(file, place, bytes([old ^ self.chance.randint(1, 255)]))


def read(file, offset, length=SLOT_BYTES):
    with open(file, "rb") as source:
        source.seek(offset)
        return source.read(length)


def write(file, offset, data):
    with open(file, "r+b") as out:
        out.seek(offset)
        out.write(data)


def load_all(player):
    """Load what can be found; the player checks every byte of it."""
    found = [number for number in NUMBERS if player.cache.lookup(key_of(number))]
    if found:
        assert player.load(*found)
        player.settle()
    return player.loaded & set(found)


def test_no_damage_gives_a_wrong_byte(campaign, tmp_path):
    lay_out(tmp_path)
    name, other = (folder_name(n.digest(SIZE)) for n in (NAMESPACE, OTHER))
    chance = campaign.chance("ssd mutations")
    done, found, misses, refused = 0, 0, 0, 0
    while done < campaign.share(MUTATIONS):
        served = tmp_path / "round"
        shutil.copytree(tmp_path / chance.choice(("killed", "ssd")), served)
        damage = Damage(
            chance, served / name, tmp_path / "old" / name, tmp_path / "other" / other
        )
        is_live = chance.random() < 0.4
        cache = open_cache(served, **GIVEN) if is_live else None
        for _ in range(chance.randint(1, 2 * IN_A_ROUND)):
            damage.to_slot()
            done += 1
        if chance.random() < 0.2:
            damage.to_file()
            done += 1
        for _ in range(chance.choice((0, 1, 1, 2)) if cache is None else 0):
            damage.to_index()
            done += 1
        try:
            cache = cache or open_cache(served, **GIVEN)
        except AdapterError:
            refused += 1
        else:
            player = Player(cache, SIZE)
            found += len(load_all(player))
            misses += len(player.failed)
            player.store(*chance.sample(NUMBERS, 6))  # goes on
            player.settle()
            load_all(player)
            cache.close()
        shutil.rmtree(served)
    print(f"{done} mutations: {found} blocks right, {misses} misses, {refused} refused")
    assert found > 0 and misses > 0
    assert refused < 0.01 * done


def test_the_loads_fail_where_there_is_no_damage_to_find(tmp_path):
    """The oracle can fail: without any damage every block is there."""
    stored = lay_out(tmp_path)
    for state in ("killed", "ssd"):
        player = make_player(tmp_path / state, **GIVEN)
        assert load_all(player) == stored
        assert not player.failed
        player.cache.close()
