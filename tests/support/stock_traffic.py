"""Random traffic on managers of vLLM's interface; a program that reports what it saw.

``python -m support.stock_traffic OUT`` reads a job from standard input.
"""

import hashlib
import json
import random
import sys
from collections import Counter
from pathlib import Path

from support.stock import (
    SCHEDULER_TOUCHES,
    Calls,
    faults_of,
    key_of,
    make_manager,
    play_scripts,
    stock_policy_class,
)

from hotset.adapter.manager import HotsetManager
from hotset.adapter.policy import policy_class
from hotset.policies import POLICIES
from hotset.policies.driver import PolicyDriver


class Traffic:
    """Random requests over a forest, as the scheduler of this version runs them.

    Up to five at once: look-ups up to the first miss, loads, offers in batches that
    are repeated while refused, failed stores, resets. Every call goes to each of
    ``sides``, whose answers must be the same.
    """

    def __init__(self, seed, sides):
        self.draw = random.Random(seed)
        self.sides = sides
        self.victims = []
        self.count = Counter()
        self.paths = [[]]
        self.known = 0
        self.live = {}
        self.jobs = []
        self.serial = 0

    def ask(self, verb, *arguments):
        answers = [getattr(side, verb)(*arguments) for side in self.sides]
        self.count[verb] += 1
        if answers[0] != answers[-1]:
            raise AssertionError(f"{verb} {arguments}: {answers[0]} and {answers[-1]}")
        return answers[0]

    def start(self):
        trunk = self.draw.choice(self.paths[-30:])
        grown = self.draw.randrange(0, 7)
        kept = trunk[: self.draw.randrange(0, len(trunk) + 1)][:20]
        chain = [*kept, *range(self.known, self.known + grown)]
        self.known += grown
        if not chain:
            return
        self.paths.append(chain)
        name = f"r{self.serial}"
        self.serial += 1
        self.live[name] = [chain, 0]
        self.ask("new", name, chain)
        hits = 0
        while hits < len(chain):
            status = self.ask("lookup", name, chain[hits])
            if status != "hit":
                break
            hits += 1
        if SCHEDULER_TOUCHES:
            self.ask("touch", name, chain)
        if hits and self.draw.random() < 0.7:
            skipped = self.draw.randrange(0, hits)
            self.ask("load", name, chain[skipped:hits])
            self.jobs.append(("loaded", name, chain[skipped:hits]))
            self.live[name][1] = hits

    def offer(self):
        name = self.draw.choice(list(self.live))
        chain, done = self.live[name]
        part = chain[done : done + self.draw.randrange(1, 6)]
        if not part:
            return
        stored, evicted = self.ask("offer", name, part)
        if stored is None:
            self.count["refused"] += 1
            return
        self.count["evicted"] += len(evicted)
        self.victims += evicted
        self.live[name][1] += len(part)
        if stored:
            self.jobs.append(("stored", name, stored))
            if SCHEDULER_TOUCHES:
                self.ask("touch", name, chain)

    def complete(self):
        verb, name, keys = self.jobs.pop(self.draw.randrange(len(self.jobs)))
        more = [self.draw.random() < 0.9] if verb == "stored" else []
        self.ask(verb, name, keys, *more)

    def finish(self):
        name = self.draw.choice(list(self.live))
        del self.live[name]
        self.ask("finish", name)

    def step(self):
        chance = self.draw.random()
        if chance < 0.2 and len(self.live) < 5:
            self.start()
        elif chance < 0.6 and self.live:
            self.offer()
        elif chance < 0.85 and self.jobs:
            self.complete()
        elif chance < 0.995 and self.live:
            self.finish()
        elif chance > 0.998:
            self.jobs.clear()
            self.ask("reset")

    def drain(self):
        """Complete every job and finish every request."""
        while self.jobs:
            self.complete()
        while self.live:
            self.finish()


def run_beside(seed, theirs, ours, steps=600):
    """Run vLLM's manager with two policies; return counts and what differed."""
    draw = random.Random(seed)
    capacity = draw.choice([6, 12, 25, 60])
    sizes = (capacity, draw.choice([0, 0, 2]), draw.choice([16, 64_000]))
    managers = [make_manager(policy, *sizes) for policy in (theirs, ours)]
    traffic = Traffic(seed, [Calls(manager) for manager in managers])
    try:
        for _ in range(steps):
            traffic.step()
    except AssertionError as error:
        return traffic.count, f"seed {seed}: {error}"
    return traffic.count, faults_of(managers[1]._policy)


def beside(name, order, touched_order, version, num_random):
    """A policy of ours beside vLLM's own: recorded scripts, then random ones.

    In ``touched_order`` the policy's own touch does what vLLM's does; from 0.32 on its
    manager does not call it.
    """
    theirs = stock_policy_class(name)
    ours = policy_class(f"{name}:order={order}")
    touched = policy_class(f"{name}:order={touched_order}")
    wrong, num_scripts = play_scripts(name, version, ours, touched)
    of_theirs, _ = play_scripts(name, version, theirs, theirs)
    counts = Counter()
    differing = []
    for seed in range(num_random):
        count, what = run_beside(seed, theirs, ours)
        counts += count
        differing += [what] if what else []
    return {
        "num_scripts": num_scripts,
        "scripts_ours": wrong,
        "scripts_theirs": of_theirs,
        "random": differing,
        "counts": dict(counts),
    }


def run_alone(text, seed, steps=1000):
    """Run a policy of ours in vLLM's manager; check its books at the end."""
    capacity = (6, 25, 60)[seed % 3]
    manager = make_manager(policy_class(text), capacity)
    policy = manager._policy
    traffic = Traffic(seed, [Calls(manager, as_sets=True)])
    for _ in range(steps):
        traffic.step()
    traffic.drain()
    every = [key_of(n) for n in range(traffic.known)]
    resident = [key for key in every if policy.get(key) is not None]
    assert len(resident) <= capacity
    kept = set(resident[: len(resident) // 2])
    assert policy.evict(len(resident) - len(kept) + 1, kept) is None
    gone = policy.evict(len(resident) - len(kept), kept)
    assert {key for key, _ in gone} == set(resident) - kept
    assert {key for key, _ in policy.evict(len(kept), set())} == kept
    assert len(policy.driver) == 0
    assert faults_of(policy) is None
    return traffic


def run_hotset_manager(text, seed, steps=1000):
    """The same traffic on the spec's manager."""
    spec, params = POLICIES.parse(text)
    driver = PolicyDriver(spec, params, (6, 25, 60)[seed % 3])
    traffic = Traffic(seed, [Calls(HotsetManager(driver), as_sets=True)])
    for _ in range(steps):
        traffic.step()
    traffic.drain()
    assert driver.num_faults == 0
    return traffic


def run_stock(name, seed, steps=1000):
    """The same traffic on vLLM's own policy."""
    manager = make_manager(stock_policy_class(name), (6, 25, 60)[seed % 3])
    traffic = Traffic(seed, [Calls(manager, as_sets=True)])
    for _ in range(steps):
        traffic.step()
    return traffic


def digest(run, text, num_runs=3):
    """A fingerprint of all victims in order, and how many there were."""
    victims = [run(text, seed).victims for seed in range(num_runs)]
    return [
        hashlib.blake2b(json.dumps(victims).encode()).hexdigest(),
        sum(map(len, victims)),
    ]


def sights(text, num_requests=3):
    """How often a chunk was seen, by a score that is that number, after each request.

    Each request is reported over and over: look-ups, refused stores, batches.
    """
    manager = make_manager(policy_class(text), 4)
    calls = Calls(manager)
    seen = []
    for i in range(num_requests):
        name = f"r{i}"
        calls.new(name, [0, 1, 2])
        for _ in range(3):
            calls.lookup(name, 0)
            if SCHEDULER_TOUCHES:
                calls.touch(name, [0, 1, 2])
        if calls.lookup(name, 0) == "hit":
            calls.load(name, [0, 1])
            calls.loaded(name, [0, 1])
        for part in ([0, 1], [0, 1], [2]):
            stored, _ = calls.offer(name, part)
            calls.stored(name, stored, True)
            if SCHEDULER_TOUCHES:
                calls.touch(name, [0, 1, 2])
        calls.finish(name)
        manager._policy.evict(0, set())
        seen.append(float(manager._policy.driver.scores([key_of(0)])[0]))
    return seen


JOBS = {
    "beside": beside,
    "alone": lambda text: digest(run_alone, text),
    "manager": lambda text: digest(run_hotset_manager, text),
    "stock": lambda name: digest(run_stock, name),
    "sights": sights,
}


def main():
    jobs = json.load(sys.stdin)
    answers = [JOBS[verb](*arguments) for verb, *arguments in jobs]
    Path(sys.argv[1]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
