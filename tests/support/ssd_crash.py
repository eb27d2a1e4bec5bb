"""Processes that serve one SSD path one after another and are killed at any moment.

This runs as a subprocess that imports and compiles once, then forks a process for each
life. A life opens the path, loads everything that it finds, says what it found, then
stores, evicts and loads as fast as it can, and says which stores were reported as
complete and which blocks the policy let go, until it is killed.

    python ssd_crash.py PATH MAX_BYTES

reads lines ``SEED`` from its standard input; for each a life begins. The life writes
lines to standard output: ``found N...``, ``usage BYTES``, ``ready PID``, ``done N...``,
``gone N...``, and ``wrong ...`` where a byte was not right.
"""

import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.ssd import Player, key_of, number_of, open_cache

NUMBERS = 4000
PAYLOAD_BYTES = 3500
QUEUE_BYTES = 64 * 4096


def say(word, numbers=()):
    line = " ".join([word, *map(str, numbers)]) + "\n"
    os.write(1, line.encode())


def usage_of(path):
    folders = [path, *path.glob("hotset-*")]
    every = [*folders, *(item for folder in folders for item in folder.iterdir())]
    return sum(os.lstat(item).st_blocks * 512 for item in set(every))


def numbers_in(keys):
    return [number_of(key) for key in keys]


def live(path, max_bytes, seed):
    chance = random.Random(seed)
    given = {"size": PAYLOAD_BYTES, "max_bytes": max_bytes, "threads": 4}
    cache = open_cache(path, queue_bytes=QUEUE_BYTES, **given)
    say("usage", [usage_of(path)])
    player = Player(cache, PAYLOAD_BYTES)
    known = numbers_in(cache._place)
    for start in range(0, len(known), 64):
        player.load(*known[start : start + 64])
    player.settle()
    say("found", sorted(player.loaded))
    evicted = cache._blocks.evicted

    def note_evicted(keys, why):
        say("gone", numbers_in(keys))
        evicted(keys, why)

    cache._blocks.evicted = note_evicted
    say("ready", [os.getpid()])
    while True:
        first = chance.randrange(NUMBERS)
        player.store(*range(first, first + chance.randint(1, 24)))
        known = [n for n in chance.sample(range(NUMBERS), 8) if cache.lookup(key_of(n))]
        if known:
            player.load(*known)
        player.stored.clear()
        player.step()
        # A job's first blocks may have been let go before its last one was stored.
        done = [n for n in sorted(player.stored) if cache.lookup(key_of(n))]
        if done:
            say("done", done)
        player.loaded.clear()


def main():
    path, max_bytes = Path(sys.argv[1]), int(sys.argv[2])
    open_cache(path / "warm", size=PAYLOAD_BYTES).close()  # kernels; its threads end
    say("warm")
    for line in sys.stdin:
        if os.fork() == 0:
            try:
                live(path / "ssd", max_bytes, int(line))
            except BaseException as error:
                say("wrong", [repr(error).replace("\n", " ")])
                os._exit(1)
        os.wait()
        say("dead")


if __name__ == "__main__":
    main()
