"""Scenarios on each vLLM: an SSD tier behind the CPU tier, real files, real threads.

Steps of the scheduler wait for the SSD, so that every run and every version sees its
operations end at the same points.
"""

import inspect
import os
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from support.core_config import BLOCK, PAGE
from support.core_engine import CoreEngine
from support.core_scenarios import (
    ABORTS_WAITING,
    RESETS_IN_FLIGHT,
    prompts,
    scenario,
    soak,
)
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd import vllm_secondary, vllm_spec, vllm_tiering
from hotset.adapter.ssd.jobs import JobDone
from hotset.adapter.ssd.short_steps import ShortSteps
from hotset.adapter.ssd.vllm_secondary import HotsetSsdTier

WAIT_S = 60.0
# Before, a tier is registered; later it is found by its module.
HAS_MODULE_PATH = '"module_path"' in inspect.getsource(SecondaryTierFactory)
if not HAS_MODULE_PATH:
    SecondaryTierFactory.register_tier(
        "HotsetSsdTier", HotsetSsdTier.__module__, "HotsetSsdTier"
    )
SLOT = 2 * PAGE  # bytes on SSD for a chunk of one block, at most


class SharedEngine(CoreEngine):
    """A core engine whose CPU tier is in memory that its spec shares."""

    spec_class = None

    def __init__(self, *arguments, **settings):
        made, get_manager = [], self.spec_class.get_manager

        def noted(spec):
            made.append(spec)
            return get_manager(spec)

        self.spec_class.get_manager = noted
        self._made = made
        try:
            super().__init__(*arguments, **settings)
        finally:
            self.spec_class.get_manager = get_manager
        self.spec = made[0]

    def memory_of(self, rank, caches):
        spec = self._made[0]
        parallel = vllm_tiering.engine_config_of(spec).parallel_config
        before, parallel.rank = parallel.rank, rank
        views, region = vllm_tiering.worker_views(spec, caches)
        parallel.rank = before
        return views, region.cleanup


class SsdEngine(SharedEngine):
    """A core engine whose CPU tier is in shared memory, with an SSD tier behind it.

    Parameters
    ----------
    chunks : int
        Chunks of the CPU tier, the spare ones included.
    folder : path
        Where the SSD tier is.
    ssd : dict
        More of its configuration.
    """

    spec_class = vllm_spec.HotsetSsdSpec

    def __init__(self, chunks, gpu_blocks, folder, ssd=None, hotset=None, **settings):
        ssd = {"path": str(folder), "max_bytes": 200 * SLOT, **(ssd or {})}
        if ssd.get("mode") == "demote":
            self.num_spare = max(1, int(ssd.get("staging_share", 0.125) * chunks))
        hotset = {"ssd": ssd, **(hotset or {})}
        super().__init__(chunks, gpu_blocks, hotset, **settings)
        self.ssd, self.cache = self.manager.ssd, self.manager.ssd.cache
        self.waits = True
        read = self.ssd._read

        def noted_read(keys):
            self.calls.append(["promote", sorted(map(self.name, keys))])
            return read(keys)

        self.ssd._read = noted_read
        take_events = self.manager.take_events

        def after_all():
            if self.waits:
                assert self.cache.drain(WAIT_S)
            return take_events()

        self.manager.take_events = after_all

    def step(self):
        if self.waits:
            assert self.cache.drain(WAIT_S)
        super().step()

    def settle(self):
        """Let the SSD tier end what is under way."""
        self.manager.on_schedule_end()
        for _ in range(3):
            assert self.cache.drain(WAIT_S)
            self.manager.take_events()

    def close(self):
        """As vLLM ends: workers, then the manager."""
        self.settle()
        for worker in self.workers:
            worker._worker.shutdown()
        self.manager.shutdown()

    def tokens(self, outcome):
        """Prompt tokens of ended requests by where their KV came from."""
        return self.manager.tally.totals["tokens", (outcome,)]

    def accounts(self):
        if self.ssd.num_jobs:
            self.settle()
        return {
            **super().accounts(),
            "ssd_jobs": self.ssd.num_jobs,
            "ssd_faults": self.manager.num_ssd_faults,
        }


class StockEngine(SharedEngine):
    """vLLM's own tiering, with our tier behind its CPU tier; made by its factory."""

    spec_class = vllm_tiering.SPEC_BASE

    def __init__(self, chunks, gpu_blocks, folder):
        tier = {"type": "HotsetSsdTier", "path": str(folder), "max_bytes": 200 * SLOT}
        if HAS_MODULE_PATH:
            tier["module_path"] = HotsetSsdTier.__module__
        extra = {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [tier]}
        super().__init__(chunks, gpu_blocks, extra_config=extra)
        (self.tier,) = self.manager.secondary_tiers
        self.cache = self.tier.cache

    def find_driver(self, chunks):
        return ()

    def step(self):
        assert self.cache.drain(WAIT_S)
        super().step()

    def settle(self):
        """Let the tier end what is under way, in steps in which nothing is computed."""
        for _ in range(4):
            self.step()

    def close(self):
        """As vLLM ends; the calls and their answers were those of its own manager."""
        for worker in self.workers:
            worker._worker.shutdown()
        self.manager.shutdown()
        self.calls.clear()
        self.victims.clear()
        self.stored.clear()

    def accounts(self):
        # Up to 0.22 a tier is told of no end.
        known = len(self.tier._requests) if compat.HAS_REQUEST_HOOKS else 0
        return {"jobs": len(self.tier._left), "requests": known}


def folders():
    """A folder that goes with the scenario's end."""
    return tempfile.TemporaryDirectory(prefix="hotset-ssd-")


def turns(engine, make, count=4):
    """Requests in turn, each of which the GPU cache forgets; what each one hit."""
    a, b, c = make(150), make(190), make(100)
    for turn in range(count):
        for name, prompt in (("a", a), ("b", b), ("c", c)):
            engine.serve(f"{name} {turn}", prompt)
            engine.reset_gpu()
            engine.settle()
    engine.serve("last", make(40))
    return [engine.cached[f"{name} {count - 1}"] for name in "abc"]


@scenario
def ssd_evict_promote():
    """What the CPU tier evicts comes back from SSD, in both modes, and is counted."""
    engines = []
    for mode in ("write-through", "demote"):
        with folders() as folder:
            ssd = {"mode": mode, "staging_share": 0.5}
            chunks = 6 if mode == "write-through" else 12
            engine = SsdEngine(chunks, 12, folder, ssd)
            # All but the last token of whole prompts' full blocks.
            assert turns(engine, prompts(31)) == [4 * BLOCK, 5 * BLOCK, 3 * BLOCK]
            assert engine.num_refused == 0
            by_tier = {o: engine.tokens(o) for o in ("gpu_hit", "cpu_hit", "ssd_hit")}
            assert sum(by_tier.values()) == sum(engine.cached.values()), by_tier
            assert by_tier["ssd_hit"] > 10 * BLOCK, by_tier
            total = engine.manager.tally.total
            assert total("promotions") >= by_tier["ssd_hit"] // BLOCK
            assert total("failed_promotions") == 0
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_store_threshold():
    """A chunk below vLLM's ``store_threshold`` goes to neither tier, above it to both.

    vLLM's own tiering refuses to start with that key.
    """
    engines = []
    for mode in ("write-through", "demote"):
        with folders() as folder:
            ssd = {"mode": mode, "staging_share": 0.5}
            chunks = 6 if mode == "write-through" else 12
            extra = {"store_threshold": 2}
            engine = SsdEngine(chunks, 30, folder, ssd, extra_config=extra)
            assert engine.config.kv_transfer_config.kv_connector_extra_config == {
                "spec_name": "HotsetOffloadingSpec",
                "spec_module_path": "hotset.adapter.spec",
                "cpu_bytes_to_use": chunks * PAGE,
                "block_size": BLOCK,
                "hotset": {"ssd": {"path": folder, "max_bytes": 200 * SLOT, **ssd}},
                "store_threshold": 2,
            }
            make = prompts(41)
            twice = {name: make(3 * BLOCK + 3) for name in "abc"}
            once = make(6 * BLOCK + 3)
            serve_alone(engine, "once", once)
            for name, prompt in twice.items():
                serve_alone(engine, f"{name} first", prompt)
            below = in_tiers(engine) | in_tiers(engine, ssd=True)
            assert not below, below
            for name, prompt in twice.items():
                serve_alone(engine, f"{name} again", prompt)
            # The CPU tier has room for two of the three.
            cpu, on_ssd = in_tiers(engine), in_tiers(engine, ssd=True)
            all_nine = {f"{name} first:{i}" for name in twice for i in range(3)}
            assert cpu | on_ssd == all_nine, (cpu, on_ssd)
            assert on_ssd == (all_nine if mode == "write-through" else all_nine - cpu)
            assert len(cpu) == 6
            assert serve_alone(engine, "a at last", twice["a"]) == 3 * BLOCK
            assert engine.manager.tally.total("promotions") > 0
            assert serve_alone(engine, "once again", once) == 0
            engine.close()
            engines.append(engine)
    return engines


def serve_alone(engine, name, prompt):
    """One request; the GPU cache forgets it. Return its cached tokens."""
    cached = engine.serve(name, prompt)
    engine.reset_gpu()
    engine.settle()
    return cached


def in_tiers(engine, ssd=False):
    """Names of the chunks that a tier holds."""
    tier = engine.cache if ssd else engine.driver
    return {
        name
        for block_hash, name in engine.names.items()
        if base.make_offload_key(block_hash, 0) in tier
    }


@scenario
def ssd_restart():
    """Another engine on the same path: hits from SSD, nothing computed again."""
    engines = []
    with folders() as folder:
        a = prompts(32)(6 * BLOCK + 3)
        for number in range(3):
            engine = SsdEngine(12, 20, folder)
            cached = engine.serve(f"a {number}", a)
            assert cached == (6 * BLOCK if number else 0)
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_failed_loads():
    """Loads that fail, or are not begun: misses, computed again; the next one hits."""
    engines = []
    for way in ("refused", "failed", "some failed"):
        with folders() as folder:
            engine = SsdEngine(6, 12, folder)
            make = prompts(33)
            a, b = make(150), make(190)
            engine.serve("a", a)
            engine.settle()
            engine.serve("b", b)
            engine.reset_gpu()
            engine.settle()
            load, finished = engine.cache.load, engine.cache.finished
            if way == "refused":
                engine.cache.load = lambda *args: False
            else:
                engine.cache.finished = failing(finished, every=way == "failed")
            hit = engine.serve("a again", a)
            # Of four chunks the first is in the CPU tier.
            assert hit == (2 * BLOCK if way == "some failed" else BLOCK), (way, hit)
            engine.cache.load, engine.cache.finished = load, finished
            engine.serve("b again", b)
            engine.settle()
            engine.reset_gpu()
            engine.serve("a at last", a)
            assert engine.cached["a at last"] == 4 * BLOCK
            engine.close()
            engines.append(engine)
    return engines


def failing(finished, every):
    """Reports in which loads failed: all chunks, or those behind the first."""

    def reported():
        reports = []
        for report in finished():
            kept = 0 if every else 1
            failed = [*report.failed, *report.done[kept:]]
            reports.append(JobDone(report.job, report.done[:kept], failed))
        return reports

    return reported


@scenario
def ssd_never_reported():
    """Operations without a report are given up; one that comes late does no harm."""
    engines = []
    for mode in ("write-through", "demote"):
        with folders() as folder:
            ssd = {"mode": mode, "staging_share": 0.5}
            chunks = 6 if mode == "write-through" else 12
            engine = SsdEngine(chunks, 14, folder, ssd)
            make = prompts(34)
            a, b = make(150), make(190)
            for name, prompt in (("a", a), ("b", b)):
                engine.serve(name, prompt)
                engine.reset_gpu()
                engine.settle()
            now = [0.0]
            engine.ssd._clock = lambda now=now: now[0]
            late, finished = [], engine.cache.finished

            def hold(late=late, finished=finished):
                late.extend(finished())
                return []

            engine.cache.finished = hold
            engine.submit("a again", a)
            for _ in range(5):
                engine.step()
            assert "a again" not in engine.scheduled
            now[0] += 1000.0
            engine.run()
            assert engine.cached["a again"] == BLOCK
            assert engine.ssd.counts["ssd_overdue"] > 0
            # Others are served meanwhile, without what is held.
            engine.serve("c", make(100))
            assert late

            engine.cache.finished = lambda held=late, f=finished: [*held, *f()]
            engine.settle()
            engine.cache.finished = finished
            assert engine.ssd.num_jobs == 0
            engine.reset_gpu()
            engine.serve("a at last", a)
            engine.serve("b at last", b)
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_abort():
    """Clients go away while they wait for promotions, or load what was promoted."""
    engines = []
    for steps in range(5):
        with folders() as folder:
            engine = SsdEngine(8, 16, folder, load_steps=2)
            make = prompts(35)
            a, b = make(150), make(270)
            for name, prompt in (("a", a), ("b", b)):
                engine.serve(name, prompt)
                engine.reset_gpu()
                engine.settle()
            engine.submit("gone", a, outputs=4)
            engine.submit("stays", make(2 * BLOCK + 5), outputs=2)
            for _ in range(steps):
                engine.step()
            if "gone" in engine.scheduled or ABORTS_WAITING:
                engine.abort("gone")
            engine.run()
            engine.reset_gpu()
            engine.settle()
            hit = engine.serve("again", a)
            assert hit == 4 * BLOCK, (steps, hit)
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_reset_in_flight():
    """Resets while the SSD reads and writes: nothing is found, no row is used twice."""
    engines = []
    for kind in ("idle", "write", "load"):
        with folders() as folder:
            engine = SsdEngine(8, 20, folder, store_steps=2, load_steps=2)
            make = prompts(36)
            a, b = make(4 * BLOCK + 3), make(6 * BLOCK + 3)
            finished, late = engine.cache.finished, []

            def hold(late=late, finished=finished):
                late.extend(finished())
                return []

            if kind == "write":
                engine.cache.finished = hold
            engine.serve("a", a)
            if kind != "write":
                engine.settle()
            engine.serve("b", b)
            engine.reset_gpu()
            if kind != "write":
                engine.settle()
            if kind == "load":
                engine.cache.finished = hold
                engine.submit("a again", a)
                engine.step()
                engine.step()
                if not RESETS_IN_FLIGHT:
                    engine.abort("a again")
                    engine.run()
                assert engine.ssd.num_jobs == 1, engine.ssd._jobs
            engine.reset_tier()
            assert engine.ssd.num_jobs > 0 or kind == "idle"
            engine.submit("c", make(5 * BLOCK + 1))
            engine.run()

            def release(late=late, finished=finished):
                return [*late, *finished()]

            engine.cache.finished = release
            engine.settle()
            engine.cache.finished = finished
            engine.reset_gpu()
            assert engine.serve("b at last", b) == 0
            engine.reset_gpu()
            engine.settle()
            assert engine.serve("b once more", b) == 6 * BLOCK
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_no_room():
    """All of the CPU tier is in use: what is on SSD is missed, nobody waits."""
    with folders() as folder:
        engine = SsdEngine(6, 30, folder, load_steps=6)
        make = prompts(37)
        a, b = make(150), make(190)
        for name, prompt in (("a", a), ("b", b), ("a again", a)):
            engine.serve(name, prompt)
            engine.reset_gpu()
            engine.settle()
        engine.submit("a loads", a)
        engine.step()
        engine.submit("b waits", b)
        engine.run()
        assert engine.cached["a loads"] == 4 * BLOCK
        assert engine.cached["b waits"] < 5 * BLOCK
        assert engine.ssd.counts["refused_promotions"] > 0
        engine.close()
        return [engine]


@scenario
def ssd_broken():
    """The cache fails in each of its calls: serving goes on without it."""
    engines = []
    for verb in ("lookup", "on_request", "store", "load", "finished"):
        with folders() as folder:
            engine = SsdEngine(6, 12, folder)
            make = prompts(38)
            a, b = make(150), make(190)
            for name, prompt in (("a", a), ("b", b)):
                engine.serve(name, prompt)
                engine.reset_gpu()
                engine.settle()

            def fail(*args):
                raise RuntimeError("planted")

            setattr(engine.cache, verb, fail)
            for turn in range(2):
                engine.serve(f"a {turn}", a)
                engine.reset_gpu()
                engine.serve(f"c {turn}", make(170))
                engine.reset_gpu()
            assert engine.manager.num_ssd_faults > 0
            assert engine.manager.num_faults == 0
            engine.manager.num_ssd_faults = 0  # as the accounts want it
            delattr(engine.cache, verb)
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_random_requests():
    """Concurrent requests, aborts, preemptions; SSD operations end when they end."""
    engines = []
    for seed, mode in enumerate(("write-through", "demote")):
        with folders() as folder:
            ssd = {"mode": mode, "staging_share": 0.4, "max_bytes": 60 * SLOT}
            engine = soak(
                80,
                14,
                seed + 40,
                make_engine=partial(SsdEngine, folder=folder, ssd=ssd),
                store_steps=2,
                load_steps=2,
            )
            engine.settle()
            assert engine.num_preempted > 0
            assert engine.manager.tally.total("promotions") > 5
            assert engine.tokens("ssd_hit") > 0
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_ranks_and_chunks():
    """Two ranks, and three blocks a chunk: a row holds all that a chunk is made of."""
    engines = []
    for settings in ({"tensor_parallel": 2}, {"blocks_per_chunk": 3}):
        with folders() as folder:
            size = 3 if "blocks_per_chunk" in settings else 1
            engine = SsdEngine(6, 40, folder, load_steps=1, **settings)
            make = prompts(39)
            a, b = make(3 * size * BLOCK + 9), make(5 * size * BLOCK + 9)
            for turn in range(3):
                for name, prompt in (("a", a), ("b", b)):
                    engine.serve(f"{name} {turn}", prompt)
                    engine.reset_gpu()
                    engine.settle()
            assert engine.cached["a 2"] == 3 * size * BLOCK
            assert engine.manager.tally.total("promotions") > 2
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_wrong_configuration():
    """One clear line each: a random hash seed, a wrong key."""
    with folders() as folder:
        for ssd, wanted in (
            ({"max_byte": "1GiB"}, "did you mean 'max_bytes'"),
            ({"mode": "demoted"}, "did you mean 'demote'"),
        ):
            try:
                SsdEngine(6, 12, folder, ssd)
            except AdapterError as error:
                assert wanted in str(error), error
            else:
                raise AssertionError(f"{ssd} was taken")
        seed = os.environ.pop("PYTHONHASHSEED")
        try:
            engine = SsdEngine(6, 12, folder, {"ephemeral": True})
            is_random = vllm_tiering.hash_seed(engine.spec) is None
            engine.close()
            try:
                SsdEngine(6, 12, folder).close()
            except AdapterError as error:
                assert is_random
                assert "PYTHONHASHSEED" in str(error)
            else:
                assert not is_random
        finally:
            os.environ["PYTHONHASHSEED"] = seed
    return []


@scenario
def ssd_under_stock_tiering():
    """The tier that vLLM's own tiering takes: stores, loads, misses, a full drain."""
    with folders() as folder:
        engine = SsdEngine(6, 12, Path(folder, "ours"))
        rows = np.zeros((8, PAGE), np.int8)
        rows[:4] = np.arange(4, dtype=np.int8)[:, None] + 1
        tier = HotsetSsdTier(
            offloading_spec=engine.spec,
            primary_kv_view=memoryview(rows),
            tier_type="HotsetSsdTier",
            path=str(Path(folder, "theirs")),
            max_bytes=200 * SLOT,
            min_free_bytes=0,
        )
        keys = [base.make_offload_key(bytes([i]) * 32, 0) for i in range(6)]
        context = SimpleNamespace(req_id="r", kv_transfer_params=None)

        def job(number, keys, rows):
            return SimpleNamespace(
                job_id=number,
                keys=keys,
                chunk_ids=np.array(rows),
                block_ids=np.array(rows),
                req_context=context,
            )

        def ended():
            tier.drain_jobs()
            poll = getattr(tier, "get_finished_jobs", tier.get_finished)
            return [(result.job_id, result.success) for result in poll()]

        assert tier.lookup(keys[0], context) is compat.MISS
        tier.submit_store(job(0, keys[:4], range(4)))
        assert ended() == [(0, True)]
        tier.submit_store(job(1, keys[:4], range(4)))  # all there
        assert ended() == [(1, True)]
        assert tier.lookup(keys[3], context) is compat.HIT
        pauses = []
        tier._short_steps = ShortSteps(clock=lambda: 0.0, sleep=pauses.append)
        finished, tier.cache.finished = tier.cache.finished, list
        tier.submit_load(job(2, keys[2:4], [6, 7]))
        assert ended() == ended() == [] and len(pauses) == 1
        tier.cache.finished = finished
        assert ended() == [(2, True)] and not ended() and len(pauses) == 1
        for number in range(2 * vllm_secondary._MOST_REQUESTS):  # none of them ends
            tier.touch(keys[:1], SimpleNamespace(req_id=number))
        assert len(tier._requests) == vllm_secondary._MOST_REQUESTS
        assert rows[6].tolist() == [3] * PAGE
        assert rows[7].tolist() == [4] * PAGE
        tier.submit_load(job(3, keys[3:5], [4, 5]))
        assert ended() == [(3, False)]
        assert rows[4].tolist() == [4] * PAGE
        assert not rows[5].any()
        tier.on_request_finished(context)
        tier.shutdown()
        engine.close()
        return [engine]


@scenario
def ssd_behind_vllms_own_manager():
    """What vLLM's CPU tier evicts comes back from our tier, also after a restart."""
    engines = []
    with folders() as folder:
        make = prompts(42)
        a, b = make(4 * BLOCK + 3), make(5 * BLOCK + 3)
        for start in range(2):
            engine = StockEngine(6, 12, folder)
            for turn in range(3):
                for name, prompt, full in (("a", a, 4), ("b", b, 5)):
                    hit = engine.serve(f"{name} {turn}", prompt)
                    engine.reset_gpu()
                    engine.settle()
                    assert hit == (full * BLOCK if start + turn else 0), (name, hit)
            counts = engine.cache.statistics()
            assert counts["loads", "done"] > 9
            assert counts.get(("stores", "done"), 0) == (0 if start else 9)
            engine.close()
            engines.append(engine)
    return engines


@scenario
def ssd_broken_behind_vllms_own_manager():
    """The cache fails in each of its calls: vLLM goes on, and waits for nothing."""
    engines = []
    for verb in ("lookup", "on_request", "store", "load", "finished"):
        with folders() as folder:
            engine = StockEngine(6, 12, folder)
            make = prompts(43)
            a, b = make(4 * BLOCK + 3), make(5 * BLOCK + 3)
            serve_alone(engine, "a", a)
            serve_alone(engine, "b", b)
            called = []

            def fail(*args, called=called):
                called.append(args)
                raise RuntimeError("planted")

            setattr(engine.cache, verb, fail)
            for turn in range(2):
                serve_alone(engine, f"a {turn}", a)
                serve_alone(engine, f"c {turn}", make(5 * BLOCK + 7))
            assert len(called) == 1, "not again after it failed"
            assert engine.tier._is_broken
            delattr(engine.cache, verb)
            engine.close()
            engines.append(engine)
    return engines
