"""More scenarios on each vLLM: copies, ranks, wrong configurations, own faults."""

import random

import torch
from support.core_config import (
    BLOCK,
    PAGE,
    gpu_cache,
    kv_cache_config,
    vllm_config,
)
from support.core_engine import CoreEngine, new_worker
from support.core_scenarios import prompts, scenario, soak
from vllm.v1.kv_offload import base

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError
from hotset.adapter.spec import HotsetOffloadingSpec


class Pages:
    """What the blocks of a request hold, and a worker that moves them."""

    def __init__(self, factor, num_groups, draw):
        self.factor, self.draw, self.num_groups = factor, draw, num_groups
        self.caches = gpu_cache(40, num_groups)
        for cache in self.caches.tensors:
            cache.tensor.random_(-128, 128, generator=torch.Generator().manual_seed(1))
        self.store, self.load, self.worker = new_worker(self.caches, factor, 24)
        self.job = 0

    def rows(self, group, blocks):
        """The contents of a group's blocks."""
        return self.caches.tensors[group].tensor[torch.tensor(blocks, dtype=torch.long)]

    def move(self, call, sizes, firsts, blocks, chunks, to_tier):
        """Submit one transfer; return what the worker reports."""
        self.job += 1
        gpu = base.GPULoadStoreSpec(blocks, group_sizes=sizes, block_indices=firsts)
        cpu = compat.load_store_spec(chunks)
        assert call(self.job, *((gpu, cpu) if to_tier else (cpu, gpu)))
        self.worker.wait({self.job, 10**6})
        (report,) = self.worker.get_finished()
        assert self.worker.get_finished() == []
        assert (report.job_id, report.success) == (self.job, True)
        assert report.transfer_size == len(blocks) * PAGE
        assert report.transfer_time >= 0
        return report

    def round_trip(self):
        """Store whole chunks of each group, then load a part of them elsewhere."""
        draw, factor = self.draw, self.factor
        counts = [draw.choice((0, 1, 2, 3)) for _ in range(self.num_groups)]
        sizes = [count * factor for count in counts]
        blocks = draw.sample(range(1, 40), sum(sizes))
        chunks = draw.sample(range(24), sum(counts))
        firsts = [draw.randrange(4) * factor for _ in counts]
        kept, at = [], 0
        for group, size in enumerate(sizes):
            kept.append(self.rows(group, blocks[at : at + size]).clone())
            at += size
        self.move(self.store, sizes, firsts, blocks, chunks, to_tier=True)
        skips = [draw.randrange(factor) if count else 0 for count in counts]
        parts = [size - skip for size, skip in zip(sizes, skips, strict=True)]
        targets = draw.sample(range(1, 40), sum(parts))
        starts = [first + skip for first, skip in zip(firsts, skips, strict=True)]
        self.move(self.load, parts, starts, targets, chunks, to_tier=False)
        at = 0
        for group, size in enumerate(parts):
            found = self.rows(group, targets[at : at + size])
            assert torch.equal(found, kept[group][skips[group] :])
            at += size


@scenario
def copies():
    """Random pages survive a store and an unaligned load, in both worker shapes."""
    draw = random.Random(1)
    for factor in (1, 2, 3):
        for num_groups in (1, 2, 3):
            pages = Pages(factor, num_groups, draw)
            for _ in range(20):
                pages.round_trip()
            pages.worker.wait(set())
            pages.worker.shutdown()
    spec = compat.load_store_spec([1])
    assert spec.block_ids.dtype == ("int32" if hasattr(spec, "chunk_ids") else "int64")
    return []


def make_spec(**settings):
    """The spec of this version, from a configuration alone."""
    extra = {
        "cpu_bytes_to_use": settings.pop("cpu_bytes", 24 * PAGE),
        **settings.pop("extra", {}),
    }
    config = vllm_config(extra, **settings)
    caches = kv_cache_config(64)
    if not compat.has_blocks_per_chunk():
        return HotsetOffloadingSpec(config, caches)
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import (
        config as offloading_config,
    )

    return HotsetOffloadingSpec(
        offloading_config.build_offloading_config(config, caches)
    )


@scenario
def ranks_share_nothing():
    """TP counts every worker's bytes; DP ranks have a pool each."""
    plain, tensor = make_spec(), make_spec(tensor_parallel=2)
    assert compat.num_chunks(plain) == 24
    assert compat.num_chunks(tensor) == 12
    assert compat.chunk_bytes(tensor) == 2 * compat.chunk_bytes(plain)
    ranks = [make_spec(data_parallel=2, data_rank=rank) for rank in range(2)]
    managers = [spec.get_manager() for spec in ranks]
    assert [compat.num_chunks(spec) for spec in ranks] == [24, 24]
    assert managers[0] is ranks[0].get_manager()
    key = base.make_offload_key(b"k" * 32, 0)
    context = base.ReqContext(req_id="a")
    output = managers[0].prepare_store([key], context)
    managers[0].complete_store(set(output.keys_to_store), context)
    assert managers[0].lookup(key, context) is compat.HIT
    other = base.ReqContext(req_id="b")
    assert managers[1].lookup(key, other) is compat.MISS
    # Their workers: what one stores in a chunk, the other's chunk does not hold.
    caches = [gpu_cache(8), gpu_cache(8)]
    caches[0].tensors[0].tensor.fill_(7)
    ends = []
    for spec, cache in zip(ranks, caches, strict=True):
        if compat.HAS_WORKER:
            worker = spec.get_worker(cache)
            ends.append((worker.submit_store, worker.submit_load, worker))
        else:
            (to_tier, from_tier) = spec.get_handlers(cache)
            assert to_tier[:2] == from_tier[1::-1]
            ends.append((to_tier[2], from_tier[2], to_tier[2]))
    gpu = base.GPULoadStoreSpec([3], group_sizes=[1], block_indices=[0])
    cpu = compat.load_store_spec([5])
    for (store, load, _), cache, value in zip(ends, caches, (7, 0), strict=True):
        if compat.HAS_WORKER:
            assert value == 0 or store(1, gpu, cpu)
            assert load(2, cpu, gpu)
        else:
            assert value == 0 or store.transfer_async(1, (gpu, cpu))
            assert load.transfer_async(2, (cpu, gpu))
        assert (cache.tensors[0].tensor[3] == value).all()
    return []


@scenario
def data_parallel():
    """Two ranks serve the same prompts; neither sees the other's chunks."""
    make = prompts(13)
    a = make(150)
    ranks = [CoreEngine(6, 12, data_parallel=2, data_rank=rank) for rank in range(2)]
    ranks[0].serve("a", a)
    for rank in ranks:
        rank.reset_gpu()
    assert ranks[1].serve("a", a) == 0
    assert ranks[0].serve("again", a) == 4 * BLOCK
    return ranks


@scenario
def wrong_configurations():
    """What is wrong is said at once, before the engine runs."""
    wrong = {
        "cpu_bytes_to_use": -5,
        "store_threshold": "many",
        "eviction_policy": "arc",
        "hotset": {"polcy": "lru", "admission": "threshold:0"},
    }
    lines = refused(extra=wrong)
    assert len(lines) == 5, lines
    for said in (
        '"cpu_bytes_to_use" is -5',
        "\"store_threshold\" is 'many'",
        '"eviction_policy" has no effect',
        "did you mean 'policy'",
        "allowed is 1 to 1000",
    ):
        assert sum(said in line for line in lines) == 1, (said, lines)
    (line,) = refused(cpu_bytes=PAGE - 1)
    assert f"one chunk of 1 blocks takes {PAGE} bytes" in line
    (line,) = refused(extra={"hotset": {"policy": "lruu"}})
    assert "did you mean 'lru'" in line
    if not compat.has_blocks_per_chunk():
        (line,) = refused(extra={"blocks_per_chunk": 2})
        assert "not read by this vLLM" in line
    return []


def refused(**settings):
    """The lines of a refusal."""
    try:
        make_spec(**settings).get_manager()
    except AdapterError as error:
        return str(error).splitlines()
    raise AssertionError("was not refused")


class Failing:
    """A function that fails now and then, once it is armed."""

    def __init__(self, working, share, draw):
        self.working, self.share, self.draw = working, share, draw
        self.is_armed = False

    def __call__(self, *arguments, **named):
        if self.is_armed and self.draw.random() < self.share:
            raise ZeroDivisionError("injected")
        return self.working(*arguments, **named)


@scenario
def own_faults():
    """Faults of the adapter's own code, at random: the engine goes on under LRU."""
    for target, in_driver in (
        ("group_of", False),
        ("removal_events", False),
        ("keys_since", False),
        ("PrepareStoreOutput", False),
        ("begin", True),
        ("observe", True),
        ("hit", True),
        ("offer", True),
        ("complete", True),
        ("finish", True),
    ):
        engine = CoreEngine(12, 24)
        engine.manager._events = []
        owner = base if target == "PrepareStoreOutput" else compat
        owner = engine.driver if in_driver else owner
        draw = random.Random(target)
        working = getattr(owner, target)
        failing = Failing(working, 0.12, draw)
        setattr(owner, target, failing)
        try:
            make = prompts(14)
            shared = make(3 * BLOCK)
            for i in range(40):
                if i == 10:
                    assert engine.manager.num_own_faults == 0
                    failing.is_armed = True
                engine.serve(f"r{i}", shared + make(draw.randrange(1, 90)))
        finally:
            setattr(owner, target, working)
        assert engine.manager.num_own_faults > 0, target
        assert engine.driver.fallen_back
        make = prompts(15)
        engine.reset_gpu()
        engine.serve("last", shared + make(50))
        engine.reset_gpu()
        assert engine.serve("again", shared + make(50)) == 3 * BLOCK, target
        accounts = engine.accounts()
        if target != "complete":  # a report that is lost keeps its chunks
            assert accounts["pinned"] == 0, target
        assert accounts["requests"] == accounts["excess"] == 0, target
    return []


@scenario
def small_soak():
    """A tier of a hundredth of what is asked for, threshold and events on."""
    engine = soak(
        120,
        5,
        7,
        hotset={"policy": "lru", "admission": "threshold:2"},
        store_steps=3,
        load_steps=1,
    )
    assert engine.victims
    return [engine]
