"""Scores and admission answers of vllm-marconi-offload, one by one."""

import numpy as np
import pytest
from golden.scripts import load

from hotset.policies import POLICIES
from hotset.policies.request import REQUEST_FIELDS
from hotset.policies.verbs import (
    admit,
    on_hit,
    on_insert,
    on_remove,
    on_request,
    scores,
)


class Tier:
    """One cache; the script names the slots itself."""

    def __init__(self, text):
        spec, params = POLICIES.parse(text)
        self.state = spec.make(params, 1000, None)
        self.request = np.zeros(REQUEST_FIELDS)
        self.slot_of = {}


def keys_of(*keys):
    return np.array(keys, np.int64)


def slots_of(*slots):
    return np.array(slots, np.int32)


class Player:
    """Plays a score script on the kernels.

    The original holds a hash in RAM and on SSD at once, so a hash that is stored
    twice goes into a second tier, whose counts are the same.
    """

    def __init__(self, config):
        self.text = (
            f"marconi:reuse={config['eviction_reuse_mode']},"
            f"decay={config['eviction_decay']},"
            f"admission_threshold={config['admission_threshold']},"
            f"tracker_size={config['tracker_max_size']}"
        )
        self.tiers = [Tier(self.text) for _ in range(4)]
        self.tier_of = {}
        self.now = 0.0

    def observe(self, hashes):
        for tier in self.tiers:
            slots = slots_of(*(tier.slot_of.get(h, -1) for h in hashes))
            on_request(tier.state, keys_of(*hashes), slots, self.now, tier.request)

    def admits(self, key):
        tier = self.tiers[0]
        arguments = (keys_of(key), keys_of(0), 1000, np.zeros(1000, np.int32))
        return admit(tier.state, *arguments, self.now, tier.request) == 1

    def store(self, block, key, depth):
        tier = next(t for t in self.tiers if key not in t.slot_of)
        arguments = (slots_of(block), keys_of(key), keys_of(depth))
        on_insert(tier.state, *arguments, self.now, tier.request)
        tier.slot_of[key] = block
        self.tier_of[block] = tier

    def access(self, block):
        tier = self.tier_of[block]
        on_hit(tier.state, slots_of(block), self.now, tier.request)

    def forget(self, block):
        tier = self.tier_of.pop(block)
        on_remove(tier.state, slots_of(block))
        tier.slot_of = {k: b for k, b in tier.slot_of.items() if b != block}

    def scores(self, blocks):
        out = np.zeros(len(blocks))
        for i, block in enumerate(blocks):
            scores(self.tier_of[block].state, slots_of(block), self.now, out[i : i + 1])
        return out


@pytest.mark.parametrize("i", range(30))
def test_marconi_scores_and_admission(i):
    script = load("marconi")[i]
    player = Player(script["config"])
    checked = 0
    for number, (verb, *arguments) in enumerate(script["ops"]):
        where = f"op {number} {verb} {arguments}"
        if verb == "tick":
            player.now += arguments[0]
        elif verb == "admit?":
            assert player.admits(arguments[0]) == arguments[1], where
            checked += 1
        elif verb == "scores":
            blocks = [block for block, _ in arguments[0]]
            expected = [score for _, score in arguments[0]]
            got = player.scores(blocks)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12, err_msg=where)
            np.testing.assert_allclose(got, expected, rtol=1e-12, err_msg=where)
            checked += len(blocks)
        else:
            getattr(player, verb)(*arguments)
    assert checked > 20
