"""Latencies in vLLM's scheduler at a million resident chunks, beside those of peers.

Every peer runs in this process, turn by turn with ours: the LRU and ARC of the vLLM
that is installed, evoke-vllm's policy, and vLLM's CPU offloading manager. Prints tables
and exits with code 1 only if a ratio between things that ran here is above its bar.

Run it with the Python of the environment that has vLLM. ``--evoke`` names the folder
with evoke-vllm, ``--policy`` measures some of the policies only.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager
from vllm.v1.kv_offload.cpu.policies import base as policy_base
from vllm.v1.kv_offload.cpu.policies.arc import ARCCachePolicy
from vllm.v1.kv_offload.cpu.policies.lru import LRUCachePolicy

from hotset.adapter.manager import HotsetManager
from hotset.policies import POLICIES
from hotset.policies.driver import PolicyDriver

RESIDENT = 1_000_000
REQUEST = 512  # chunks of a request
EVICTED = 64
ROUNDS = 60
SLOW_ROUNDS = 3  # of a peer that takes seconds
CHUNK_TOKENS = 256

EVICT, TOUCH = f"evict {EVICTED}", f"touch {REQUEST}"
STORE, LOOKUP = f"prepare_store {EVICTED}", f"{REQUEST} x lookup"
LOAD, FINISH = f"prepare_load {REQUEST}", f"on_request_finished {REQUEST}"
NEW, HIT = f"request, {EVICTED} new", f"request, {REQUEST} hits"

Times = dict[str, float]
Samples = dict[str, dict[str, list[float]]]


class Draws:
    """Keys as vLLM makes them, a 32-byte hash and a 4-byte group; seeded."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.stored: list[list[bytes]] = []

    def new(self, n: int) -> list[bytes]:
        """Return keys that nobody has seen."""
        raw = self.rng.bytes(32 * n)
        return [base.make_offload_key(raw[i : i + 32], 0) for i in range(0, 32 * n, 32)]

    def fill(self) -> Iterable[list[bytes]]:
        """Yield the requests that fill a tier."""
        for first in range(0, RESIDENT, REQUEST):
            keys = self.new(min(REQUEST, RESIDENT - first))
            self.stored.append(keys)
            yield keys

    def resident(self, has: Callable[[bytes], Any]) -> list[bytes]:
        """Return resident keys of a request or two, as new objects, hashed."""
        keys: list[bytes] = []
        while len(keys) < REQUEST:
            some = self.stored[int(self.rng.integers(len(self.stored)))]
            keys += [bytes(bytearray(key)) for key in some if has(key)]
        keys = list(dict.fromkeys(keys))[:REQUEST]
        return keys if len(keys) == REQUEST else self.resident(has)


def timed_s(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


class Ours:
    """The driver of a policy, without vLLM's calls around it."""

    def __init__(self, text: str) -> None:
        self.driver = made_driver(text)

    def has(self, key: bytes) -> bool:
        """Return whether a key is resident."""
        return key in self.driver

    def store(self, keys: list[bytes]) -> None:
        """Serve a request of new chunks."""
        request = self.driver.begin()
        self.driver.observe(request, keys)
        stored = self.driver.offer(request, keys)
        if stored is not None:
            self.driver.complete(stored.keys)
        self.driver.finish(request, keys)

    def round(self, draws: Draws) -> Times:
        """Time an eviction and the use of a request's chunks."""
        evict_s = timed_s(self.driver.evict, EVICTED)
        assert self.driver.num_free >= EVICTED
        self.store(draws.new(EVICTED))
        keys = draws.resident(self.has)
        request = self.driver.begin()
        touch_s = timed_s(self.driver.hit, request, keys)
        self.driver.finish(request, keys)
        return {EVICT: evict_s, TOUCH: touch_s}


class Peer:
    """A cache policy of vLLM's interface."""

    def __init__(self, policy: Any, context: tuple[Any, ...]) -> None:
        self.policy = policy
        self.context = context  # what follows the keys in its calls

    def has(self, key: bytes) -> bool:
        """Return whether a key is resident."""
        return self.policy.get(key) is not None

    def store(self, keys: list[bytes]) -> None:
        """Put new chunks in as the manager does, and end their request."""
        for i, key in enumerate(keys):
            status = policy_base.ChunkStatus(i)
            self.policy.insert(key, status)
            status.ref_cnt = 0
            self.policy.mark_evictable(key)
        self.policy.touch(keys, *self.context)

    def round(self, draws: Draws) -> Times:
        """Time an eviction and the use of a request's chunks."""
        new = draws.new(EVICTED)
        evict_s = timed_s(self.policy.evict, EVICTED, set(new))
        self.store(new)
        keys = draws.resident(self.has)
        return {EVICT: evict_s, TOUCH: timed_s(self.policy.touch, keys, *self.context)}


class Managed:
    """A manager, under the calls that vLLM's scheduler makes."""

    def __init__(self, manager: base.OffloadingManager) -> None:
        self.manager = manager
        self.requests = 0

    def begin(self, keys: list[bytes]) -> base.ReqContext:
        """Start a request whose keys are known, as they are to the scheduler."""
        self.requests += 1
        context = base.ReqContext(f"request-{self.requests}")
        for i, key in enumerate(keys):
            context.set_offload_key_position(key, (i + 1) * CHUNK_TOKENS)
        self.manager.on_new_request(context)
        return context

    def has(self, key: bytes) -> bool:
        """Return whether a key is resident."""
        context = base.ReqContext("peek")
        return self.manager.lookup(key, context) is base.LookupResult.HIT

    def store(self, keys: list[bytes]) -> Times:
        """Serve a request of new chunks, timed."""
        manager = self.manager
        context = self.begin(keys)
        manager.lookup(keys[0], context)
        store_s = timed_s(manager.prepare_store, keys, context)
        complete_s = timed_s(manager.complete_store, set(keys), context)
        finish_s = timed_s(manager.on_request_finished, context)
        return {STORE: store_s, NEW: store_s + complete_s + finish_s}

    def hit(self, keys: list[bytes]) -> Times:
        """Serve a request whose chunks are all loaded, timed."""
        manager = self.manager
        context = self.begin(keys)
        lookup = manager.lookup
        start = time.perf_counter()
        for key in keys:
            lookup(key, context)
        lookup_s = time.perf_counter() - start
        load_s = timed_s(manager.prepare_load, keys, context)
        complete_s = timed_s(manager.complete_load, set(keys), context)
        finish_s = timed_s(manager.on_request_finished, context)
        whole_s = lookup_s + load_s + complete_s + finish_s
        return {LOOKUP: lookup_s, LOAD: load_s, FINISH: finish_s, HIT: whole_s}

    def round(self, draws: Draws) -> Times:
        """Time a request of new chunks and one of resident chunks."""
        new = self.store(draws.new(EVICTED))
        return {**new, **self.hit(draws.resident(self.has))}


def made_driver(text: str) -> PolicyDriver[Any]:
    """Return the tier of a policy, ready to serve."""
    spec, params = POLICIES.parse(text)
    driver: PolicyDriver[Any] = PolicyDriver(spec, params, RESIDENT)
    driver.warm_up()
    return driver


def online_policies() -> list[str]:
    """Return every registered policy that can run in a server."""
    specs = [POLICIES.get(name) for name in POLICIES.names()]
    return [spec.name for spec in specs if not (spec.offline or spec.unbounded)]


def evoke(folder: Path) -> Peer:
    """Return evoke-vllm's policy; it knows a class by the name of vLLM 0.24."""
    sys.path.append(str(folder))
    policy_base.BlockStatus = policy_base.ChunkStatus
    from evoke_vllm.policy import EvokeCachePolicy

    return Peer(EvokeCachePolicy(RESIDENT), ())


def turns(
    subjects: dict[str, Any], draws: Draws, samples: Samples, rounds: int
) -> None:
    """Measure subjects turn by turn."""
    gc.collect()
    for _round in range(rounds):
        for name, subject in subjects.items():
            for what, seconds in subject.round(draws).items():
                samples.setdefault(what, {}).setdefault(name, []).append(seconds)


def measure(
    peers: dict[str, Any],
    slow_peers: dict[str, Any],
    make: Callable[[str], Any],
    policies: list[str],
) -> Samples:
    """Measure each policy of ours beside the peers."""
    draws, samples = Draws(), Samples()
    for keys in draws.fill():
        for peer in (*peers.values(), *slow_peers.values()):
            peer.store(keys)
    turns(slow_peers, draws, samples, SLOW_ROUNDS)
    slow_peers.clear()
    for policy in policies:
        ours = make(policy)
        for keys in draws.stored:
            ours.store(keys)
        turns({**peers, f"hotset {policy}": ours}, draws, samples, ROUNDS)
        del ours
    return samples


def report(samples: Samples, reference: str) -> Table:
    """Return medians in microseconds, each with its ratio to the reference's."""
    table = Table("median, us", box=None)
    for what in samples:
        table.add_column(what, justify="right")
    names = dict.fromkeys(name for rows in samples.values() for name in rows)
    for name in names:
        cells = []
        for rows in samples.values():
            mine, theirs = (
                statistics.median(rows[name]),
                statistics.median(rows[reference]),
            )
            cells.append(f"{mine * 1e6:,.0f}  {mine / theirs:5.2f} x")
        table.add_row(name, *cells)
    return table


def missed_bars(samples: Samples, what: str, reference: str) -> list[str]:
    """Return what of ours is slower than the reference."""
    theirs = statistics.median(samples[what][reference])
    missed = []
    for name, seconds in samples[what].items():
        ratio = statistics.median(seconds) / theirs
        if name.startswith("hotset") and ratio > 1.0:
            missed.append(f"{name}, {what}: {ratio:.2f} x {reference}, the bar is 1")
    return missed


def resident_bytes() -> int:
    """Return the memory of this process that is in use, bytes."""
    fields = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()
    return int(fields[0]) * 1024


def memory_of(subject: str) -> float:
    """Return bytes for each resident chunk of a manager, its keys included."""
    managed = Managed(made_manager(subject))
    managed.store(Draws().new(REQUEST))
    gc.collect()
    before = resident_bytes()
    draws = Draws()
    for _request in range(RESIDENT // REQUEST - 1):
        managed.store(draws.new(REQUEST))
    gc.collect()
    return (resident_bytes() - before) / (RESIDENT - 2 * REQUEST)


def made_manager(subject: str) -> base.OffloadingManager:
    """Return a manager by the name that the tables give it."""
    whose, policy = subject.split()
    if whose == "vllm":
        return CPUOffloadingManager(RESIDENT, policy)
    return HotsetManager(made_driver(policy))


def memory(policies: list[str]) -> Table:
    """Measure memory, each manager in a process of its own."""
    table = Table("memory", "bytes a chunk", box=None)
    for subject in ("vllm lru", "vllm arc", *(f"hotset {name}" for name in policies)):
        command = [sys.executable, __file__, "--memory", subject]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        table.add_row(subject, f"{float(done.stdout.split()[-1]):.0f}")
    return table


def main() -> None:
    """Measure, print, and judge the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evoke", type=Path)
    parser.add_argument("--policy", action="append")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(memory_of(options.memory))
        return
    policies = options.policy or online_policies()
    context = (base.ReqContext("bench"),)
    alone = measure(
        {
            "vllm lru": Peer(LRUCachePolicy(RESIDENT), context),
            "vllm arc": Peer(ARCCachePolicy(RESIDENT), context),
        },
        {"evoke-vllm": evoke(options.evoke)} if options.evoke else {},
        Ours,
        policies,
    )
    managed = measure(
        {name: Managed(made_manager(name)) for name in ("vllm lru", "vllm arc")},
        {},
        lambda policy: Managed(made_manager(f"hotset {policy}")),
        policies,
    )
    console = Console(width=130)
    for samples in (alone, managed):
        console.print(report(samples, "vllm lru"))
        console.print()
    console.print(memory(policies))
    missed = [
        line for what in (EVICT, TOUCH) for line in missed_bars(alone, what, "vllm lru")
    ]
    missed += [
        line for what in (NEW, HIT) for line in missed_bars(managed, what, "vllm lru")
    ]
    print(json.dumps({"bars_missed": missed}))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
