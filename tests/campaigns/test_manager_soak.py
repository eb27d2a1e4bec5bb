"""Ten thousand disturbed requests through the manager, at 1 % capacity.

The calls are those that vLLM's scheduler makes (`support.loose_scheduler`); none of
them may raise, no policy may fall back, no kernel may compile, and no pin may stay.
"""

import gc
import logging

import pytest
from contract.serving import online_names

from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.driver import PolicyDriver

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

REQUESTS = 10_000
FAULTY_RUNS = 100
DISTURBANCES = {
    "aborted",
    "decoded",
    "deferred",
    "evicted",
    "failed",
    "loaded",
    "looked up in vain",
    "offered again",
    "preempted",
    "refused",
    "stored",
}


def served(spec, params, chance, count, admission="always"):
    """Serve requests; return the driver and what happened."""
    from support.loose_scheduler import LooseScheduler, grown_prompts

    from hotset.adapter.manager import HotsetManager

    prompts, distinct = grown_prompts(chance, count)
    rule, rule_params = ADMISSIONS.parse(admission)
    capacity = max(distinct // 100, 24)
    driver = PolicyDriver(spec, params, capacity, rule, rule_params)
    driver.warm_up()
    compiled = num_compiled()
    manager = HotsetManager(driver, enable_events=True)
    # So many that now and then nothing can be evicted.
    scheduler = LooseScheduler(manager, chance, prompts, max(8, capacity // 6))
    scheduler.run()
    manager.take_events()
    assert num_compiled() == compiled
    assert not driver._slots.blocked.any()
    assert driver.num_evictable == len(driver) == len(scheduler.slot_of)
    assert manager.num_requests == 0
    return driver, scheduler.seen


def num_compiled():
    """Return how many forms of kernels there are in this process."""
    from numba.core.dispatcher import Dispatcher

    kernels = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
    return sum(len(found.signatures) for found in kernels)


@pytest.mark.parametrize("admission", ["always", "threshold:2"])
@pytest.mark.parametrize("name", online_names())
def test_disturbed_requests(name, admission, campaign, caplog):
    spec, params = POLICIES.parse(name)
    chance = campaign.chance("soak", name, admission)
    with caplog.at_level(logging.WARNING):
        driver, seen = served(spec, params, chance, campaign.share(REQUESTS), admission)
    assert not driver.fallen_back
    assert driver.num_faults == 0
    assert not [record for record in caplog.records if "hotset" in record.name]
    assert {"aborted", "preempted", "looked up in vain", "stored"} <= set(seen)
    if not spec.refuses(params) and admission == "always":
        assert set(seen) >= DISTURBANCES
        if campaign.is_full:
            assert "reset under transfers" in seen


def test_disturbed_requests_and_a_fault(campaign, caplog):
    """The same with one fault in each run: nothing escapes, LRU goes on."""
    from support.faulty_states import faults, has_fired, plant

    chance = campaign.chance("faulty soak")
    names = online_names() if campaign.is_full else [chance.choice(online_names())]
    # The manager never asks for scores.
    every = [
        (name, *fault) for name in names for fault in faults() if fault[0] != "scores"
    ]
    reached = 0
    for name, verb, kind in chance.sample(every, campaign.share(FAULTY_RUNS)):
        inner = POLICIES.get(name)
        spec, made = plant(inner, verb, kind, chance.randint(1, 30))
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            driver, _ = served(spec, inner.params(), chance, 60)
        fired = has_fired(made[0])
        may_pass = inner.refuses(inner.params()) and kind == "too few"
        reached += fired
        assert driver.num_faults == (fired and not may_pass), (name, verb, kind)
        assert len(caplog.records) == driver.num_faults
    assert reached
