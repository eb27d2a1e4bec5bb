"""Power loss at any moment: right bytes or a miss, and what was reported is there."""

import shutil

import pytest
from support.power_loss import Disk, RecordingFiles, moments
from support.ssd import Player, key_of, make_player, number_of, open_cache

pytestmark = pytest.mark.slow

PREFIXES = 1000
STORES = 120
NUMBERS = range(400)
SIZE = 600
GIVEN = {"size": SIZE, "max_bytes": 480 << 10, "threads": 3, "queue_bytes": 40 << 12}


def record(path, chance):
    """Store, evict and load for a while, with a restart; return the steps."""
    files = RecordingFiles()
    try:
        for _life in range(2):
            cache = open_cache(path, files=files, **GIVEN)
            player = Player(cache, SIZE)
            evicted = cache._blocks.evicted

            def note_evicted(keys, why, evicted=evicted):
                files.log.mark("gone", numbers_in(keys))
                evicted(keys, why)

            cache._blocks.evicted = note_evicted
            for _ in range(STORES):
                play(player, chance, files.log)
            player.settle()
            note_done(player, files.log)
            cache.close()
    finally:
        files.vfs.close()
    return files.log.steps


def play(player, chance, log):
    first = chance.choice(NUMBERS)
    player.store(*range(first, min(first + chance.randint(1, 8), NUMBERS.stop)))
    known = [n for n in NUMBERS if player.cache.lookup(key_of(n))]
    if known:
        player.load(*chance.sample(known, min(3, len(known))))
    if chance.random() < 0.3:
        player.settle()
    player.step()
    note_done(player, log)


def note_done(player, log):
    done = [n for n in player.stored if player.cache.lookup(key_of(n))]
    player.stored.clear()
    if done:
        log.mark("done", done)


def numbers_in(keys):
    return [number_of(key) for key in keys]


def test_what_was_reported_survives_a_power_loss(campaign, tmp_path):
    chance = campaign.chance("ssd power loss")
    path = tmp_path / "ssd"
    steps = record(path, chance)
    happened = list(moments(steps))
    first = next(i for i, (_, step) in enumerate(happened) if step.kind == "done")
    count = campaign.share(PREFIXES)
    cuts = sorted(
        # Most while it serves, some while it starts.
        chance.randrange(len(happened) if i % 10 else first)
        for i in range(count)
    )
    disk, at, needed, found = Disk(tmp_path), 0, 0, 0
    for cut in cuts:
        for what, step in happened[at:cut]:
            (disk.synced if what == "synced" else disk.apply)(step)
        at = cut
        left = tmp_path / "left"
        left.mkdir()
        disk.lay_out(left, chance)
        player = make_player(left / "ssd", **GIVEN)
        known = [n for n in NUMBERS if player.cache.lookup(key_of(n))]
        if known:
            assert player.load(*known)
            player.settle()  # the player checks every byte
        missing = disk.done - player.loaded
        assert not missing, f"cut {cut} of {len(happened)}: {sorted(missing)}"
        needed += len(disk.done)
        found += len(player.loaded)
        player.cache.close()
        shutil.rmtree(left)
    print(f"{count} prefixes of {len(happened)} steps: {needed} blocks had to be found")
    assert needed > 10 * count
