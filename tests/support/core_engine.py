"""vLLM's core without a model: real scheduler, real offloading connector, real copies.

Runs in a process whose path leads to the vLLM that is wanted (`support.vllm_trees`),
and needs only the Python half of it. The model is a rule: the KV of a block is a digest
of all tokens up to the block's end, so that every block that a request is given, from
the GPU cache or from the CPU tier, can be told from any other. Transfers copy these
bytes with the adapter's own CPU worker, at the last moment that vLLM allows.
"""

import hashlib
from dataclasses import dataclass

import torch
import vllm
from support.core_config import (
    BLOCK,
    PAGE,
    gpu_cache,
    kv_cache_config,
    supported,
    vllm_config,
)
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import (
    OffloadingWorkerMetadata,
)
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_offload import base
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

VERSION = vllm.__version__

init_none_hash(sha256)
_HASHER = get_request_block_hasher(BLOCK, sha256)


def new_worker(caches, blocks_per_chunk, num_chunks, *memory):
    """The adapter's CPU worker in the shape of this version: (store, load, worker)."""
    from hotset.adapter import compat, cpu_worker

    if compat.HAS_WORKER:
        worker = cpu_worker.CpuTransferWorker(
            caches, blocks_per_chunk, num_chunks, *memory
        )
        return worker.submit_store, worker.submit_load, worker

    handler = cpu_worker.CpuTransferHandler(
        caches, blocks_per_chunk, num_chunks, *memory
    )

    def transfer(job_id, source, target):
        return handler.transfer_async(job_id, (source, target))

    return transfer, transfer, handler


@dataclass
class Job:
    """A transfer under way on one worker."""

    number: int
    request: str
    ends: tuple
    is_load: bool
    due: int  # step


class Worker:
    """One rank: its cache, its tier, its transfers."""

    def __init__(self, rank, gpu_blocks, blocks_per_chunk, num_chunks, memory_of):
        self.rank = rank
        self.caches = gpu_cache(gpu_blocks)
        self.rows = self.caches.tensors[0].tensor
        self.jobs = []
        self._store, self._load, self._worker = new_worker(
            self.caches, blocks_per_chunk, num_chunks, *memory_of(rank, self.caches)
        )

    def finish(self, jobs):
        """Copy for jobs, and return what the worker reports."""
        for job in jobs:
            call = self._load if job.is_load else self._store
            assert call(job.number, *job.ends)
        reported = self._worker.get_finished()
        assert [result.job_id for result in reported] == [job.number for job in jobs]
        assert all(result.success for result in reported)
        return reported

    def content(self, block_hash):
        """The KV of a block on this rank; its hash stands for all tokens to its end."""
        text = b"%d:" % self.rank + bytes(block_hash)
        digest = hashlib.blake2b(text, digest_size=64).digest()
        return torch.frombuffer(
            bytearray(digest * (PAGE // len(digest))), dtype=torch.int8
        )


class CoreEngine:
    """A scheduler that serves requests without a model.

    Parameters
    ----------
    chunks : int
        Chunks of the CPU tier.
    gpu_blocks : int
        Blocks of the GPU cache, the null block included.
    hotset : dict
        The ``"hotset"`` key.
    store_steps, load_steps : int
        Steps that a transfer takes; stores at least 1, loads at least 0.
    tensor_parallel : int
        Workers. Each one after the first reports a step later than the one before.
    """

    def __init__(
        self,
        chunks,
        gpu_blocks=64,
        hotset=None,
        *,
        blocks_per_chunk=1,
        store_steps=1,
        load_steps=0,
        tensor_parallel=1,
        extra_config=None,
        **config,
    ):
        self.config = vllm_config(
            {
                "cpu_bytes_to_use": chunks * PAGE * blocks_per_chunk * tensor_parallel,
                "hotset": hotset or {},
                **({"block_size": BLOCK * blocks_per_chunk}),
                **(extra_config or {}),
            },
            gpu_blocks=gpu_blocks,
            tensor_parallel=tensor_parallel,
            **config,
        )
        self.scheduler = supported(
            Scheduler,
            vllm_config=self.config,
            kv_cache_config=kv_cache_config(gpu_blocks),
            structured_output_manager=StructuredOutputManager(self.config),
            block_size=BLOCK,
            hash_block_size=BLOCK,
            log_stats=True,
        )
        self.connector = self.scheduler.connector.connector_scheduler
        self.manager = self.connector.manager
        self.driver = self.find_driver(chunks)
        self.store_steps, self.load_steps = store_steps, load_steps
        self.workers = [
            Worker(rank, gpu_blocks, blocks_per_chunk, chunks, self.memory_of)
            for rank in range(tensor_parallel)
        ]
        self.now = 0
        self.names = {}  # block hash to the first prompt that had it, and where
        self._num_named = {}
        self._computed = {}  # tokens of a request that were computed when last seen
        self.requests = {}  # those that are not finished
        self.scheduled = set()  # names that were scheduled at least once
        self.calls = []  # of the manager, that move chunks; offers with their answers
        self._heard = set()
        self.victims = []
        self.stored = []
        self.cached = {}  # tokens that a request did not compute
        self.num_preempted = self.num_loads = self.num_refused = 0
        self._receiving = {}  # request to ranks that have not loaded for it yet
        self._watch()

    num_spare = 0  # chunks that are no slots

    def find_driver(self, chunks):
        """The driver of the CPU tier."""
        assert self.manager.driver.capacity == chunks - self.num_spare
        return self.manager.driver

    def memory_of(self, rank, caches):
        """Memory of a worker's tier, and what frees it; none for memory of its own."""
        return ()

    def _watch(self):
        """Note the calls that move chunks, and what each store offer leads to."""
        for verb in ("prepare_load", "complete_load", "complete_store"):
            self._watch_call(verb)
        for verb in ("lookup", "touch"):
            self._watch_first(verb)
        prepare_store = self.manager.prepare_store

        def watched(keys, req_context):
            self._note_heard(req_context.req_id)
            output = prepare_store(keys, req_context)
            names = [self.name(key) for key in keys]
            if output is None:
                self.num_refused += 1
                taken = evicted = None
            else:
                evicted = [self.name(key) for key in output.evicted_keys]
                taken = [self.name(key) for key in output.keys_to_store]
                self.victims += evicted
                self.stored += taken
            self.calls.append(
                ["prepare_store", req_context.req_id, names, taken, evicted]
            )
            return output

        self.manager.prepare_store = watched

    def _watch_call(self, verb):
        call = getattr(self.manager, verb)

        def watched(keys, req_context, *more, **named):
            self._note_heard(req_context.req_id)
            # Sets of keys have no order.
            names = sorted(self.name(key) for key in keys)
            self.calls.append([verb, req_context.req_id, names])
            return call(keys, req_context, *more, **named)

        setattr(self.manager, verb, watched)

    def _watch_first(self, verb):
        call = getattr(self.manager, verb)

        def watched(keys, req_context):
            self._note_heard(req_context.req_id)
            return call(keys, req_context)

        setattr(self.manager, verb, watched)

    def _note_heard(self, name):
        """Note the first call that names a request's keys, whichever it is."""
        if name not in self._heard:
            self._heard.add(name)
            self.calls.append(["heard", name])

    def name(self, key):
        """A key as the prompt and the block that it was first seen at."""
        return self.names[base.get_offload_block_hash(key)]

    # What a client does

    def submit(self, name, prompt, outputs=1, **params):
        """Add a request; ``params`` are its ``kv_transfer_params``."""
        sampling = SamplingParams(
            max_tokens=outputs,
            ignore_eos=True,
            temperature=0,
            extra_args={"kv_transfer_params": params} if params else None,
        )
        if hasattr(sampling, "update_from_generation_config"):
            sampling.update_from_generation_config({}, eos_token_id=None)
        request = supported(
            Request,
            request_id=name,
            prompt_token_ids=list(prompt),
            sampling_params=sampling,
            pooling_params=None,
            eos_token_id=None,
            block_hasher=_HASHER,
        )
        self._name_blocks(request)
        self.requests[name] = request
        self.scheduler.add_request(request)

    def abort(self, name):
        """A client goes away."""
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)
        self.requests.pop(name, None)

    def reset_gpu(self):
        """Empty the GPU's prefix cache."""
        assert self.scheduler.reset_prefix_cache()

    def reset_tier(self):
        """Empty the CPU tier, whatever is under way."""
        self.calls.append(["reset_cache"])
        assert self.scheduler.reset_connector_cache() is not False

    def run(self, limit=500):
        """Step until nothing is left to do."""
        for _ in range(limit):
            if not self.is_busy():
                return
            self.step()
        raise AssertionError(f"not done after {limit} steps: {sorted(self.requests)}")

    def serve(self, name, prompt, outputs=1):
        """One request from start to end; return its cached tokens."""
        self.submit(name, prompt, outputs)
        self.run()
        return self.cached[name]

    def is_busy(self):
        """Whether a step would do anything."""
        waiting = any(worker.jobs for worker in self.workers)
        return bool(self.scheduler.has_requests() or waiting)

    # A step

    def step(self):
        """Schedule, transfer, compute, and report."""
        output = self.scheduler.schedule()
        for name in output.preempted_req_ids or ():
            self.num_preempted += 1
            self._computed.pop(name, None)
        meta = output.kv_connector_metadata
        done, received = self._transfer(meta)
        self._compute(output)
        self._queue_stores(meta)
        self.now += 1
        computed = [self.requests[name] for name in output.num_scheduled_tokens]
        updates = self.scheduler.update_from_output(
            output, self._model_output(output, done, received)
        )
        for request in computed:
            self._name_blocks(request)
        for update in updates.values():
            for out in update.outputs:
                if out.finish_reason is not None:
                    self.requests.pop(out.request_id, None)

    def _transfer(self, meta):
        """Finish what is due or must be; return what the workers report."""
        done, received = {}, set()
        flushed = set(meta.jobs_to_flush or ())
        for worker in self.workers:
            for number in sorted(flushed & set(meta.store_jobs)):
                worker.jobs.append(self._job(worker, number, meta.store_jobs[number]))
            for number, job in meta.load_jobs.items():
                worker.jobs.append(self._job(worker, number, job, is_load=True))
                if worker.rank == 0:
                    self.num_loads += 1
                self._receiving.setdefault(job.req_id, set()).add(worker.rank)
            due = [
                job
                for job in worker.jobs
                if job.number in flushed or job.due <= self.now
            ]
            worker.jobs = [job for job in worker.jobs if job not in due]
            worker.finish(due)
            for job in due:
                done[job.number] = done.get(job.number, 0) + 1
                if job.is_load:
                    self._receiving[job.request].discard(worker.rank)
                    if not self._receiving[job.request]:
                        received.add(job.request)
        for number in flushed:
            meta.store_jobs.pop(number, None)
        return done, received

    def _queue_stores(self, meta):
        for worker in self.workers:
            worker.jobs += [
                self._job(worker, number, job)
                for number, job in meta.store_jobs.items()
            ]

    def _job(self, worker, number, job, is_load=False):
        ends = job.transfer_spec if hasattr(job, "transfer_spec") else None
        steps = (self.load_steps if is_load else self.store_steps) + worker.rank
        return Job(
            number,
            job.req_id,
            ends or (job.src_spec, job.dst_spec),
            is_load,
            self.now + steps,
        )

    def _compute(self, output):
        """Check the blocks that requests were given, and fill those they compute."""
        for name, count in output.num_scheduled_tokens.items():
            request = self.requests[name]
            (blocks,) = self.scheduler.kv_cache_manager.get_block_ids(name)
            after = request.num_computed_tokens
            before = after - count
            if name not in self.scheduled:
                self.scheduled.add(name)
                self.cached[name] = before
            hashes = request.block_hashes
            given = 0 if before != self._computed.get(name) else before // BLOCK
            self._computed[name] = after
            for worker in self.workers:
                for i in range(given, before // BLOCK):
                    wanted = worker.content(hashes[i])
                    assert torch.equal(worker.rows[blocks[i]], wanted), (
                        f"{name} was given a wrong block {i} on rank {worker.rank}"
                    )
                for i in range(before // BLOCK, after // BLOCK):
                    worker.rows[blocks[i]] = worker.content(hashes[i])

    def _model_output(self, output, done, received):
        names = list(output.num_scheduled_tokens)
        sampled = []
        for name in names:
            request = self.requests[name]
            is_done = request.num_computed_tokens >= request.num_tokens
            sampled.append([3 + request.num_tokens % 900] if is_done else [])
        report = OffloadingWorkerMetadata(completed_jobs=done)
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=sampled,
            kv_connector_output=KVConnectorOutput(
                finished_recving=received, kv_connector_worker_meta=report
            ),
        )

    def _name_blocks(self, request):
        name = request.request_id
        for i in range(self._num_named.get(name, 0), len(request.block_hashes)):
            self.names.setdefault(bytes(request.block_hashes[i]), f"{name}:{i}")
        self._num_named[name] = len(request.block_hashes)

    # What is left behind

    def accounts(self):
        """Counts that must be zero once nothing is under way."""
        blocked = self.driver.capacity - self.driver.num_free
        return {
            "pinned": blocked - self.driver.num_evictable,
            "requests": self.manager.num_requests,
            "faults": self.manager.num_faults,
            "fallen_back": int(self.driver.fallen_back),
            "excess": max(0, len(self.driver) - self.driver.capacity),
        }
