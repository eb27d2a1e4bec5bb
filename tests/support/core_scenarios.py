"""What happens to requests, on whichever vLLM is on the path.

A scenario is a function of no arguments that returns the engines that it drove, for
`support.core_run`; a wrong KV block or an assertion of vLLM's ends it.
"""

import gc
import random

from support.core_config import BLOCK
from support.core_engine import VERSION, CoreEngine

SCENARIOS = {}

# vLLM's own faults, which no adapter can mend. Up to 0.24 a reset while a transfer of a
# live request is under way ends in a KeyError of the scheduler's; in 0.26 the abort of
# a request that waited and was never scheduled ends in one of its assertions.
RESETS_IN_FLIGHT = not VERSION.startswith(("0.22", "0.24"))
ABORTS_WAITING = not VERSION.startswith("0.26")


def scenario(function):
    """Register a scenario under its function's name."""
    SCENARIOS[function.__name__] = function
    return function


def prompts(seed):
    """Return a source of random prompts of given lengths."""
    draw = random.Random(seed)
    return lambda length: [draw.randrange(3, 1000) for _ in range(length)]


@scenario
def insert_evict_load():
    """One request at a time, through eviction in both caches."""
    make, engine = prompts(1), CoreEngine(6, 7)
    a, b, c = make(150), make(150), make(100)
    for turn in range(3):
        for name, prompt in (("a", a), ("b", b), ("a again", a), ("c", c)):
            engine.serve(f"{name} {turn}", prompt)
    assert engine.num_loads > 3
    assert len(engine.victims) > 10
    return [engine]


@scenario
def many_policies():
    """The same requests under other policies, prefixes shared and not."""
    engines = []
    for policy in ("fifo", "marconi:reuse=log", "relevance"):
        make = prompts(2)
        engine = CoreEngine(14, 12, {"policy": policy})
        prefixes = [make(BLOCK * n) for n in (2, 3, 5, 7)]
        draw = random.Random(3)
        for i in range(40):
            prefix = prefixes[min(3, int(draw.expovariate(0.7)))]
            engine.serve(f"r{i}", prefix + make(draw.randrange(1, 70)))
        assert engine.num_loads > 3
        assert len(engine.victims) > 20
        engines.append(engine)
    return engines


@scenario
def several_blocks_a_chunk():
    """Two and three GPU blocks a chunk; GPU hits end inside a chunk."""
    engines = []
    for factor in (2, 3):
        engine, make = CoreEngine(14 // factor, 10, blocks_per_chunk=factor), prompts(4)
        a, b, c = make(8 * BLOCK - 5), make(7 * BLOCK), make(4 * BLOCK + 9)
        for turn in range(4):
            for name, prompt in (("a", a), ("b", b), ("a again", a), ("c", c)):
                engine.serve(f"{name} {turn}", prompt)
        assert engine.num_loads > 4
        assert len(engine.victims) > 4
        engines.append(engine)
    return engines


@scenario
def refused_store():
    """All that is resident is pinned or being written: the offer is refused."""
    make = prompts(5)
    writing = engine = CoreEngine(4, 30, store_steps=6)
    engine.submit("a", make(4 * BLOCK + 1), outputs=3)
    engine.step()
    engine.submit("b", make(4 * BLOCK + 1), outputs=2)
    for _ in range(3):
        engine.step()
    assert engine.num_refused > 0
    assert engine.victims == []
    engine.run()
    assert engine.stored[:4] == [f"a:{i}" for i in range(4)]
    engine.serve("c", make(2 * BLOCK + 1))
    assert len(engine.driver) == 4
    reading = engine = CoreEngine(4, 30, load_steps=5)
    prompt = make(4 * BLOCK + 1)
    engine.serve("a", prompt)
    engine.reset_gpu()
    engine.submit("a again", prompt)
    engine.step()
    engine.submit("b", make(4 * BLOCK + 1))
    engine.step()
    engine.step()
    assert engine.victims == []
    assert engine.num_refused > 0
    engine.run()
    return [writing, reading]


@scenario
def failed_store():
    """A store fails: its chunks are gone, others are as they were."""
    make, engine = prompts(6), CoreEngine(8, 30)
    engine.serve("a", make(2 * BLOCK + 1))
    complete = engine.manager.complete_store
    failing = []

    def fail(keys, req_context, success=True):
        failing.append(len(keys))
        complete(keys, req_context, success=False)

    engine.manager.complete_store = fail
    prompt = make(4 * BLOCK + 1)
    engine.serve("b", prompt)
    assert failing == [4]
    assert len(engine.driver) == 2
    engine.manager.complete_store = complete
    engine.reset_gpu()
    assert engine.serve("b again", prompt) == 0
    assert len(engine.driver) == 6
    engine.reset_gpu()
    assert engine.serve("b at last", prompt) == 4 * BLOCK
    return [engine]


@scenario
def abort_at_each_stage():
    """Clients go away while they wait, compute, store, load, or decode."""
    make = prompts(7)
    prompt = make(5 * BLOCK + 3)
    engines = []
    for steps in range(7):
        engine = CoreEngine(12, 16, store_steps=2, load_steps=2, step_tokens=64)
        engine.serve("first", prompt)
        engine.reset_gpu()
        engine.submit("gone", prompt + make(40), outputs=4)
        engine.submit("stays", make(2 * BLOCK + 5), outputs=2)
        for _ in range(steps):
            engine.step()
        if "gone" in engine.scheduled or ABORTS_WAITING:
            engine.abort("gone")
        engine.run()
        engine.reset_gpu()
        assert engine.serve("again", prompt) == 5 * BLOCK
        engines.append(engine)
    return engines


@scenario
def preemption():
    """Decoding requests outgrow the GPU: one is preempted, and comes back."""
    make = prompts(8)
    engine = CoreEngine(5, 8, store_steps=2, load_steps=1)
    for i in range(5):
        engine.submit(f"r{i}", make(90), outputs=60)
    engine.run()
    assert engine.num_preempted > 0
    assert engine.victims
    return [engine]


@scenario
def reset_idle():
    """A reset of both caches while nothing is under way."""
    make, engine = prompts(9), CoreEngine(6, 9)
    a, b = make(150), make(150)
    engine.serve("a", a)
    engine.serve("b", b)
    engine.reset_tier()
    engine.reset_gpu()
    assert len(engine.driver) == 0
    assert engine.serve("a again", a) == 0
    engine.serve("b again", b)
    assert engine.serve("a at last", a) > 0
    return [engine]


@scenario
def reset_in_flight():
    """Resets while a store, then a load, of a live request is under way."""
    make, engines = prompts(10), []
    for kind in ("store", "load"):
        engine = CoreEngine(8, 20, store_steps=3, load_steps=3)
        prompt = make(4 * BLOCK + 3)
        if kind == "load":
            engine.serve("before", prompt)
            engine.reset_gpu()
        engine.submit("live", prompt, outputs=8)
        engine.step()
        if kind == "load":
            assert engine.workers[0].jobs
            assert engine.accounts()["pinned"] == 4
        if not RESETS_IN_FLIGHT:
            engine.run()
        engine.reset_tier()
        assert len(engine.driver) == 0
        engine.submit("other", make(3 * BLOCK + 1))
        engine.run()
        engine.reset_gpu()
        engine.serve("after", prompt)
        engines.append(engine)
    return engines


@scenario
def the_same_prompt_at_once():
    """Keys are offered twice, in one step and in the next."""
    make, engine = prompts(11), CoreEngine(8, 40, store_steps=2)
    prompt = make(5 * BLOCK + 7)
    engine.submit("one", prompt)
    engine.submit("two", prompt)
    engine.step()
    engine.submit("three", prompt)
    engine.run()
    assert sorted(engine.stored) == [f"one:{i}" for i in range(5)]
    engine.reset_gpu()
    engine.submit("four", prompt)
    engine.submit("five", prompt + make(40))
    engine.run()
    assert engine.cached["four"] == 5 * BLOCK
    return [engine]


@scenario
def tensor_parallel():
    """Two ranks, the second a step later: a transfer is done when both are."""
    make = prompts(12)
    engine = CoreEngine(6, 12, tensor_parallel=2, load_steps=1)
    a, b = make(150), make(150)
    for turn in range(3):
        engine.serve(f"a{turn}", a)
        engine.serve(f"b{turn}", b)
        engine.reset_gpu()
    assert engine.num_loads > 2
    return [engine]


def soak(count, chunks, seed, make_engine=CoreEngine, **settings):
    """Serve random requests, with aborts and preemptions, and return the engine."""
    draw = random.Random(seed)
    make = prompts(seed + 1)
    engine = make_engine(chunks, 24, step_tokens=256, max_requests=6, **settings)
    prefixes = [make(draw.randrange(1, 9) * BLOCK) for _ in range(24)]
    sent = 0
    while sent < count or engine.is_busy():
        while sent < count and len(engine.requests) < 8 and draw.random() < 0.6:
            prefix = prefixes[min(23, int(draw.expovariate(0.2)))]
            kept = draw.randrange(1, len(prefix) + 1)
            prompt = prefix[:kept] + make(draw.randrange(1, 90))
            engine.submit(f"r{sent}", prompt, outputs=draw.choice((1, 2, 5, 60)))
            sent += 1
        if draw.random() < 0.05 and engine.requests:
            name = draw.choice(sorted(engine.requests))
            if name in engine.scheduled or ABORTS_WAITING:
                engine.abort(name)
        engine.step()
    return engine


@scenario
def random_requests():
    """Concurrent requests at a small capacity, slow transfers, aborts, preemptions."""
    engines = []
    for seed, policy in enumerate(("lru", "marconi:reuse=log", "relevance")):
        hotset = {"policy": policy}
        engine = soak(150, 12, seed, hotset=hotset, store_steps=2, load_steps=2)
        assert engine.num_preempted > 0
        assert engine.num_loads > 5
        assert len(engine.victims) > 50
        engines.append(engine)
    return engines


def outcome(engine):
    """What a run showed, comparable between versions."""
    gc.collect()
    return {
        "calls": engine.calls,
        "victims": engine.victims,
        "stored": engine.stored,
        "cached": engine.cached,
        "loads": engine.num_loads,
        "refused": engine.num_refused,
        "preempted": engine.num_preempted,
        "resident": len(engine.driver),
        "accounts": engine.accounts(),
    }
