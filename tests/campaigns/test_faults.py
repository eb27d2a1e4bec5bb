"""One fault a run, in any verb of any policy: the tier ends in LRU, its books right.

The fault is planted in the compiled kernels (`support.faulty_states`), and a random
caller (`support.tier_player`) checks the books after each of its calls. Once the policy
has failed, the victims must be those of a plain LRU that has seen everything.

Kernels with a fault are compiled anew for each policy, which takes most of the time. So
every fault is planted in uncompiled ones each time, and a tenth in machine code.
"""

import logging
import os
import subprocess
import sys

import numba
import pytest
from contract.serving import make_driver, online_names
from support.faulty_states import VERBS, faults, has_fired, plant
from support.tier_player import TierPlayer

from hotset.policies import ADMISSIONS, POLICIES, admission
from hotset.policies.driver import PolicyDriver

pytestmark = pytest.mark.slow

RUNS = 200
POLICIES_OF_A_TENTH = 2  # kernels with a fault are compiled anew for each policy
MOST_STEPS, STEPS_AFTER = 4000, 60


def runs_of(campaign):
    """Return (policy, verb, kind): every one, or a tenth of the runs."""
    chance = campaign.chance("faults")
    names = online_names()
    if not campaign.is_full:
        names = chance.sample(names, POLICIES_OF_A_TENTH)
    every = [
        (name, verb, kind)
        for name in names
        for verb, kind in faults()
        # Fewer victims than were asked for are the right of a policy that refuses.
        if not (may_refuse(name) and (verb, kind) == ("select", "too few"))
    ]
    chance.shuffle(every)
    if not campaign.is_full:
        return every[: campaign.share(RUNS)]
    return every + every[: max(0, RUNS - len(every))]


def may_refuse(name):
    spec, params = POLICIES.parse(name)
    return spec.refuses(params)


def play(name, verb, kind, chance, caplog):
    """Play until the fault has happened, and on; return the player."""
    call = chance.randint(1, 3 if verb == "reset" else 12)
    spec, made = plant(POLICIES.get(name), verb, kind, call)
    driver = PolicyDriver(spec, spec.params(), chance.randint(4, 24))
    player = TierPlayer(driver, chance)
    (state,) = made
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        for _step in range(MOST_STEPS):
            assert not driver.fallen_back
            player.step()
            if has_fired(state):
                break
        assert has_fired(state), "the fault was never reached"
        assert driver.fallen_back
        for _step in range(STEPS_AFTER):
            player.step()
    assert driver.num_faults == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert f"policy {name} failed" in caplog.text
    return player


def test_every_fault_ends_in_lru(campaign, caplog):
    runs = runs_of(campaign)
    for number, (name, verb, kind) in enumerate(runs):
        where = f"run {number}: {name}, {verb}, {kind}, seed {campaign.seed}"
        chance = campaign.chance(number, name, verb, kind)
        try:
            player = play(name, verb, kind, chance, caplog)
            empty(player)
        except Exception as error:
            raise AssertionError(where) from error
    assert len(runs) >= campaign.share(RUNS)


def empty(player):
    """End what is under way: no pin is left, and everything can go."""
    while player.open:
        player.end_store()
    while player.books.pins:
        player.unpin()
    assert player.driver.num_evictable == len(player.driver)
    if len(player.driver):
        expected = list(player.books.order)
        assert player.driver.evict(len(expected)) == expected
    assert not player.driver._slots.blocked.any()


@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="this is the run without machine code"
)
def test_every_fault_without_machine_code(campaign):
    """All of them, in a process whose kernels are plain Python."""
    settings = {"NUMBA_DISABLE_JIT": "1", "HOTSET_CAMPAIGN": "full"}
    test = f"{__file__}::test_every_fault_ends_in_lru"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "slow", test],
        env={**os.environ, **settings, "HOTSET_SEED": str(campaign.seed)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "1 passed" in ran.stdout


def test_the_faults_are_those_of_every_verb():
    assert {verb for verb, _ in faults()} == set(VERBS)
    assert len(faults()) == 2 * len(VERBS) + 8 + 3 + 1


def refuse_to_work(*arguments):
    raise ValueError("a planted fault")


@pytest.mark.parametrize(
    ("verb", "spoilt"),
    [
        ("on_lookup", refuse_to_work),
        ("on_offer", refuse_to_work),
        ("keep", refuse_to_work),
        ("keep", lambda state, keys, depths, n: n + 1),
        ("keep", lambda state, keys, depths, n: -1),
    ],
)
def test_an_admission_rule_that_fails_is_left_out(
    verb, spoilt, campaign, caplog, monkeypatch
):
    """Nothing is refused from then on; the policy goes on."""
    kernels = dict(admission._KERNELS[admission.ThresholdState])
    rule, rule_params = ADMISSIONS.parse("threshold:3")
    spec, params = POLICIES.parse("marconi")
    driver = PolicyDriver(spec, params, 16, rule, rule_params)
    player = TierPlayer(driver, campaign.chance("admission", verb))
    for _step in range(30):
        player.step()
    assert driver.num_faults == 0
    monkeypatch.setitem(
        admission._KERNELS, admission.ThresholdState, {**kernels, verb: spoilt}
    )
    driver._admission._kernels = admission.admission_kernels(driver._admission._state)
    with caplog.at_level(logging.ERROR):
        for _step in range(60):
            player.step()
    assert driver.num_faults == 1
    assert not driver.fallen_back
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "admission threshold failed" in caplog.text
    player.driver.reset()
    strangers = list(range(10**6, 10**6 + 16))
    assert player.driver.offer(driver.begin(), strangers).keys == strangers


@pytest.mark.parametrize("name", online_names())
def test_without_a_fault_nothing_falls_back(name, campaign):
    for number in range(campaign.share(20)):
        chance = campaign.chance("sane", name, number)
        player = TierPlayer(make_driver(name, chance.randint(4, 24)), chance)
        for _step in range(200):
            player.step()
        assert player.driver.num_faults == 0
        assert not player.driver.fallen_back
