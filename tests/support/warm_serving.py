"""Serves a mixed workload; says how much compiled, and what serving added to it.

Usage: warm_serving.py POLICY ADMISSION. Prints how many kernels were compiled, not
read from the cache, before serving, and how many forms of kernels serving added.
"""

import gc
import hashlib
import logging
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from contract.serving import make_driver
from numba.core import event
from numba.core.dispatcher import Dispatcher
from support.tier_player import TierPlayer


def num_forms():
    """Compiled forms of kernels in this process."""
    kernels = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
    return sum(len(found.signatures) for found in kernels)


def vllm_key(number):
    return hashlib.sha256(b"%d" % number).digest() + b"\0\0\0\0"


def main():
    logging.basicConfig(format="%(message)s")
    text, admission = sys.argv[1:]
    admits_all = admission == "always"
    with event.install_recorder("numba:compile") as compiled:
        driver = make_driver(text, 24, admission)
        driver.warm_up()
        before = num_forms(), len(compiled.buffer)
        for make_key in (int, vllm_key):
            player = TierPlayer(driver, random.Random(1), make_key, admits_all)
            for _step in range(300):
                player.step()
            driver.reset()
        assert len(driver) == 0
        driver._cache.fall_back()
        player = TierPlayer(driver, random.Random(2), int, admits_all)
        for _step in range(300):
            player.step()
        after = num_forms(), len(compiled.buffer)
    print(before[1], after[0] - before[0] + after[1] - before[1])


if __name__ == "__main__":
    main()
