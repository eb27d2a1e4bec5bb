"""What vLLM's scheduler asks of an offloading manager, with every disturbance it knows.

Requests are looked up, loaded, stored in pieces and ended, while others are aborted or
preempted, stores are refused or fail, keys are offered twice, look-ups lead to nothing
and the cache is reset under transfers. Each answer is checked against the books: what
is resident where, what is being written, and which chunk's bytes lie in which slot.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from vllm.v1.kv_offload import base

from hotset.adapter import compat
from hotset.policies.driver import Status

HIT, MISS, PENDING = map(
    compat.lookup_answer, (Status.HIT, Status.MISS, Status.PENDING)
)
TOKENS = 16


def key_of(number, group=0):
    return base.make_offload_key(hashlib.sha256(b"%d" % number).digest(), group)


@dataclass
class Request:
    """A request as the scheduler knows it."""

    name: str
    chunks: list[int]
    groups: int
    context: Any = None
    known: int = 0  # chunks whose keys the context has
    computed: int = 0
    offered: int = 0
    is_loading: bool = False

    def keys(self, first, end):
        """Keys of some chunks, group after group."""
        return [
            key_of(number, group)
            for group in range(self.groups)
            for number in self.chunks[first:end]
        ]

    def learn(self, known):
        """Let the context know the positions of the first chunks."""
        if hasattr(self.context, "set_offload_key_position"):
            for group in range(self.groups):
                for i in range(self.known, known):
                    key = key_of(self.chunks[i], group)
                    self.context.set_offload_key_position(key, (i + 1) * TOKENS)
        self.known = known


@dataclass
class Job:
    """A transfer between its start and the report of its end."""

    request: Request
    keys: list[bytes]
    is_load: bool


@dataclass
class LooseScheduler:
    """Drives a manager with a list of prompts, each a list of chunk numbers.

    Parameters
    ----------
    manager : OffloadingManager
        What is tested.
    chance : random.Random
        Decides everything.
    prompts : list of lists
        Chunk numbers; the same number has the same chunks in front of it everywhere.
    concurrent : int
        Requests at a time.
    """

    manager: Any
    chance: Any
    prompts: list
    concurrent: int
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    ended: list = field(default_factory=list)
    jobs: list = field(default_factory=list)
    slot_of: dict = field(default_factory=dict)
    key_at: dict = field(default_factory=dict)
    writing: set = field(default_factory=set)
    bytes_at: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)  # how often something happened
    begun: int = 0

    def note(self, what):
        self.seen[what] = self.seen.get(what, 0) + 1

    def run(self):
        """Serve every prompt and end all that was begun."""
        while self.begun < len(self.prompts) or self.waiting or self.running:
            self.step()
        self.signal_ends()
        while self.jobs:
            self.report(self.jobs.pop())

    def step(self):
        """One step of the engine."""
        room = self.concurrent - len(self.waiting) - len(self.running)
        for _request in range(min(room, len(self.prompts) - self.begun)):
            self.begin()
        for request in list(self.waiting):
            self.admit(request)
        for request in list(self.running):
            if not request.is_loading:
                self.advance(request)
        for _chance in range(1 + (len(self.waiting) + len(self.running)) // 3):
            self.disturb()
        self.signal_ends()
        self.chance.shuffle(self.jobs)
        slow = self.chance.random() < 0.5  # transfers take several steps at times
        for _job in range(0 if slow else self.chance.randint(0, len(self.jobs))):
            self.report(self.jobs.pop())

    # A request's way

    def begin(self):
        chunks = list(self.prompts[self.begun])
        groups = 2 if chunks[0] % 10 == 0 else 1
        request = Request(f"r{self.begun}", chunks, groups)
        self.begun += 1
        request.context = base.ReqContext(request.name)
        request.learn(len(chunks))
        self.manager.on_new_request(request.context)
        self.waiting.append(request)

    def admit(self, request):
        """Look a request up; load and run it, or leave it waiting."""
        total = len(request.chunks)
        local = self.chance.choice((0, 0, 0, self.chance.randint(0, total)))
        hits, is_deferred = 0, False
        for number in request.chunks[local:]:
            key = key_of(number)
            answer = self.manager.lookup(key, request.context)
            self.check_lookup(key, answer)
            if answer is MISS:
                break
            hits += 1
            is_deferred |= answer is PENDING
        if compat_touches():
            self.manager.touch(request.keys(0, total), request.context)
        if is_deferred:
            self.note("deferred")
            return
        if self.chance.random() < 0.15:
            self.note("looked up in vain")
            return
        request.computed = local
        if hits and self.has_all(request, local, local + hits):
            keys = request.keys(local, local + hits)
            spec = self.manager.prepare_load(keys, request.context)
            assert spec.block_ids.tolist() == [self.slot_of[key] for key in keys]
            self.jobs.append(Job(request, keys, True))
            request.is_loading = True
            request.computed = request.offered = local + hits
            self.note("loaded")
        self.waiting.remove(request)
        self.running.append(request)

    def has_all(self, request, first, end):
        """Return whether the chunks of every group are readable."""
        keys = request.keys(first, end)
        return all(key in self.slot_of and key not in self.writing for key in keys)

    def advance(self, request):
        """Compute some chunks and offer them; end the request behind the last."""
        total = len(request.chunks)
        request.computed = min(total, request.computed + self.chance.randint(1, 6))
        if request.offered < request.computed:
            self.offer(request)
        elif request.computed == total:
            if self.chance.random() < 0.2:
                self.decode(request)
            else:
                self.running.remove(request)
                self.ended.append(request)

    def decode(self, request):
        """Fill one more chunk, of which nobody has heard yet."""
        request.chunks.append(1_000_000 + len(self.seen) + self.chance.randrange(10**9))
        request.learn(len(request.chunks))
        self.note("decoded")

    def offer(self, request):
        keys = request.keys(request.offered, request.computed)
        resident = {key for key in keys if key in self.slot_of}
        output = self.manager.prepare_store(keys, request.context)
        if output is None:
            self.note("refused")
            if self.chance.random() < 0.1:  # it will not fit any time soon
                request.offered = request.computed
            return
        request.offered = request.computed
        if resident:
            self.note("offered again")
        held = self.held()
        for key in output.evicted_keys:
            assert key not in held and key not in resident
            del self.key_at[self.slot_of.pop(key)]
            self.note("evicted")
        stored = output.keys_to_store
        assert stored == [key for key in keys if key in set(stored)]
        slots = output.store_spec.block_ids.tolist()
        for key, slot in zip(stored, slots, strict=True):
            assert key not in self.slot_of
            assert slot not in self.key_at
            self.slot_of[key], self.key_at[slot] = slot, key
            self.writing.add(key)
            self.note("stored")
        if stored:
            self.jobs.append(Job(request, stored, False))

    def held(self):
        """Keys that must stay: being written or read."""
        read = [key for job in self.jobs if job.is_load for key in job.keys]
        return self.writing.union(read)

    # Disturbances

    def disturb(self):
        draw = self.chance.random()
        everyone = self.waiting + self.running
        if draw < 0.03 and everyone:
            request = self.chance.choice(everyone)
            (self.waiting if request in self.waiting else self.running).remove(request)
            self.ended.append(request)
            self.note("aborted")
        elif draw < 0.06:
            idle = [request for request in self.running if not request.is_loading]
            if idle:
                request = idle[-1]
                self.running.remove(request)
                self.waiting.insert(0, request)
                request.computed = 0
                if self.chance.random() < 0.5:
                    request.offered = 0  # as in 0.33; earlier versions keep it
                self.note("preempted")
        elif draw < 0.061:
            self.reset()

    def reset(self):
        """Empty the cache; transfers under way are never reported."""
        self.signal_ends()
        if self.jobs:
            self.note("reset under transfers")
        for job in self.jobs:
            job.request.is_loading = False
        for request in self.running:
            request.offered = 0
        self.jobs.clear()
        self.manager.reset_cache()
        for books in (self.slot_of, self.key_at, self.writing, self.bytes_at):
            books.clear()

    def signal_ends(self):
        self.chance.shuffle(self.ended)
        for request in self.ended:
            self.manager.on_request_finished(request.context)
        self.ended.clear()

    def report(self, job):
        """Report the end of a transfer, perhaps after that of its request."""
        context = job.request.context
        if job.is_load:
            for key in job.keys:
                assert self.bytes_at[self.slot_of[key]] == key, "wrong bytes are loaded"
            self.manager.complete_load(set(job.keys), context)
            job.request.is_loading = False
            return
        success = self.chance.random() < 0.97
        self.manager.complete_store(set(job.keys), context, success)
        self.writing -= set(job.keys)
        for key in job.keys:
            if success:
                self.bytes_at[self.slot_of[key]] = key
            else:
                del self.key_at[self.slot_of.pop(key)]
        if not success:
            self.note("failed")

    def check_lookup(self, key, answer):
        if key not in self.slot_of:
            assert answer is MISS
        else:
            assert answer is (PENDING if key in self.writing else HIT)


def compat_touches():
    """Return whether this vLLM's scheduler touches keys after a look-up."""
    return not hasattr(base.ReqContext("probe"), "set_offload_key_position")


def grown_prompts(chance, count):
    """Return prompts of which about half go on from an earlier one."""
    prompts, fresh = [], 0
    for _prompt in range(count):
        old = chance.choice(prompts[-200:]) if prompts else []
        kept = old[: chance.randint(0, len(old))] if chance.random() < 0.6 else []
        grown = chance.randint(1, 12)
        prompts.append(kept + list(range(fresh, fresh + grown)))
        fresh += grown
    return prompts, fresh
