"""Pure Python twins of the replay loops: a plain cache, and one behind an engine.

Each request is a list of keys, head first. `step` replays one and returns what it hit.
"""

import math
from dataclasses import dataclass

from hotset.policies.request import SOURCE_TYPES


@dataclass
class NaiveRequest:
    """One request of a trace; keys are those of full blocks, or of chunks."""

    keys: list
    input_tokens: int
    output_tokens: int = 1
    source: str | None = None
    priority: float = 1.0
    turn: int = 0  # 1-based place in its session, 0 without one
    blocks: tuple = ()  # the GPU's blocks, where keys are chunks

    @classmethod
    def of(cls, trace, r, keys, blocks=()):
        """Request r of a trace, whose keys the caller names."""
        code = -1 if trace.source_type is None else int(trace.source_type[r])
        session = trace.session[r]
        so_far = int((trace.session[: r + 1] == session).sum())
        return cls(
            keys=keys,
            blocks=blocks,
            input_tokens=int(trace.input_tokens[r]),
            output_tokens=int(trace.output_tokens[r]),
            source=SOURCE_TYPES[code] if code >= 0 else None,
            priority=1.0 if trace.priority is None else float(trace.priority[r]),
            turn=so_far if session >= 0 else 0,
        )


class NaiveCache:
    """A plain cache: look up, store what is missing, use what was found.

    Own resident blocks are protected while storing; where the missing blocks do not fit
    beside them, the longest prefix that fits is stored.
    """

    def __init__(self, policy, admission, capacity, block_tokens):
        self.policy, self.admission = policy, admission
        self.capacity, self.block_tokens = capacity, block_tokens
        self.resident = set()
        self.pinned = set()
        self.r = -1
        self.keys_used = 0
        self.stores = self.evictions = 0
        self.gone = []  # victims of the last store, in order

    @property
    def now(self):
        return self.keys_used if self.policy.unit == "key" else self.r

    def here(self, keys):
        return [key for key in keys if key in self.resident]

    def run(self, keys):
        """How many leading keys are resident."""
        return next(
            (i for i, k in enumerate(keys) if k not in self.resident), len(keys)
        )

    def use(self, keys):
        self.policy.use(keys, self.now)
        self.keys_used += len(keys)

    def store(self, pairs, protected, whole):
        """Store (key, depth) pairs; return those that were, None where refused."""
        candidates = [
            key
            for key in self.resident
            if key not in protected and key not in self.pinned
        ]
        free = self.capacity - len(self.resident)
        pairs = pairs[: self.policy.admit(pairs, free, candidates, self.now)]
        need = len(pairs) - free
        self.gone = []
        if need > len(candidates) and whole:
            return None
        if need > 0:
            need = min(need, len(candidates))
            victims = self.policy.victims(candidates, need, self.now)
            if victims is None and whole:
                return None
            victims = victims or []
            self.policy.evict(victims)
            self.resident.difference_update(victims)
            self.evictions += len(victims)
            pairs = pairs[: free + len(victims)]
            self.gone = victims
        if pairs:
            self.policy.insert(pairs, self.now)
        self.resident.update(key for key, _ in pairs)
        self.stores += len(pairs)
        self.keys_used += len(pairs)
        return pairs

    def wanted(self, keys, first=0):
        """The missing keys that may be stored, with their depths."""
        return [
            (key, first + i)
            for i, key in enumerate(keys)
            if key not in self.resident and self.admission.allows(key)
        ]

    def step(self, request):
        """Replay a request; return its hit tokens."""
        keys = request.keys
        self.r += 1
        run = self.run(keys)
        mine = self.here(keys)
        self.policy.told = (request.turn, self.run(keys), len(keys))
        self.policy.start(self.r, keys, (request.source, request.priority))
        self.policy.see(keys, set(mine), self.now)
        self.admission.lookup(keys[: run + 1])
        self.admission.offer(keys)
        stored = self.store(self.wanted(keys), mine, whole=False)
        self.policy.ready([key for key, _ in stored])
        self.use(mine)
        self.policy.finish(self.here(keys), self.now)
        return min(run * self.block_tokens, request.input_tokens)


class NaiveGpu:
    """vLLM's block pool: one block never used, a queue of free blocks."""

    def __init__(self, num_blocks):
        self.content = [None] * max(num_blocks - 1, 0)
        self.queue = list(range(len(self.content)))
        self.held = []
        self.cached = []  # (block, place), oldest first; a block may have copies

    def first_place(self, key):
        return next(place for name, place in self.cached if name == key)

    def lookup(self, keys, limit):
        found = 0
        while found < limit and keys[found] in self.content:
            found += 1
        return found

    def allocate(self, keys, num_hits, num_blocks):
        """Hold the hit blocks, and others from the front of the queue."""
        num_blocks = min(num_blocks, len(self.content))
        self.held = [self.first_place(key) for key in keys[:num_hits]]
        self.queue = [place for place in self.queue if place not in self.held]
        for i in range(num_hits, num_blocks):
            place = self.queue.pop(0)
            self.held.append(place)
            self.content[place] = None
            self.cached = [pair for pair in self.cached if pair[1] != place]
            if i < len(keys):
                self.content[place] = keys[i]
                self.cached.append((keys[i], place))

    def free(self, num_hashed):
        """Blocks go in reverse: unhashed ones to the front, hashed ones to the tail."""
        hashed, others = self.held[:num_hashed], self.held[num_hashed:]
        self.queue = others[::-1] + self.queue + hashed[::-1]
        self.held = []


@dataclass
class NaiveRules:
    """What an engine does; see `hotset.sim.engines` for the words."""

    chunk_tokens: int
    step_tokens: float
    whole: bool
    touch: str  # "once", "each time" or "reported"
    retries: int
    at_end: bool  # whether a refused offer is repeated behind the last step


class NaiveEngine(NaiveCache):
    """A cache of chunks behind the GPU's cache, one request at a time."""

    def __init__(self, policy, admission, capacity, block_tokens, gpu, rules):
        super().__init__(policy, admission, capacity, block_tokens)
        self.gpu, self.rules = gpu, rules
        self.writing = []  # (steps to go, keys)
        self.refused = self.gpu_hit_tokens = 0

    def pass_step(self):
        """One engine step: a chunk offered two steps ago is written."""
        self.writing = [(left - 1, keys) for left, keys in self.writing]
        for left, keys in self.writing:
            if left == 0:
                self.pinned.difference_update(keys)
                self.policy.ready(keys)
        self.writing = [(left, keys) for left, keys in self.writing if left > 0]

    def offer(self, keys, first):
        """Offer chunks; return how many were stored, None where refused."""
        self.admission.offer(keys)
        wanted = self.wanted(keys, first)
        if self.rules.touch == "reported":
            self.use(self.here(keys))
        if not wanted:
            return 0
        stored = self.store(wanted, set(keys), self.rules.whole)
        if stored is None:
            return None
        taken = [key for key, _ in stored]
        self.pinned.update(taken)
        self.writing.append((2, taken))
        return len(taken)

    def prefill(self, request, computed, upcoming):
        chunk, total = self.rules.chunk_tokens, request.input_tokens
        steps = max(request.output_tokens, 1) - 1 + self.rules.at_end
        retries = min(self.rules.retries, steps)
        while True:
            self.pass_step()
            extra = computed >= total  # a step of decoding
            computed = min(computed + self.rules.step_tokens, total)
            filled = min(computed // chunk, len(request.keys))
            if filled > upcoming:
                stored = self.offer(request.keys[upcoming:filled], upcoming)
                if stored is None:
                    self.refused += 1
                else:
                    upcoming = filled
                    if stored and self.rules.touch == "each time":
                        here = self.here(request.keys)
                        self.policy.see(request.keys, set(here), self.now)
                        self.use(here)
                    elif stored and self.rules.touch == "once":
                        self.policy.finish(self.here(request.keys), self.now)
            retries -= extra
            if computed >= total and (upcoming >= filled or retries <= 0):
                break
        self.pass_step()
        self.pass_step()

    def find(self, keys, input_tokens, local):
        """First chunk to load and first one not to, behind ``local`` GPU tokens."""
        chunk = self.rules.chunk_tokens
        first = last = local // chunk
        if input_tokens - local < chunk:
            return first, first
        while last < len(keys) and keys[last] in self.resident:
            last += 1
        self.admission.lookup(keys[first : last + 1])
        return first, last if last * chunk - local >= chunk else first

    def step(self, request):
        keys, total, size = request.keys, request.input_tokens, self.block_tokens
        self.r += 1
        limit = min((total - 1) // size, len(request.blocks))
        gpu_hits = self.gpu.lookup(request.blocks, limit)
        local = gpu_hits * size
        first, last = self.find(keys, total, local)
        loads = keys[first:last]

        self.policy.told = (request.turn, self.run(keys), len(keys))
        self.policy.start(self.r, keys, (request.source, request.priority))
        self.policy.see(keys, set(self.here(keys)), self.now)
        self.use(loads if self.rules.touch == "reported" else self.here(keys))
        self.policy.ready(loads)

        computed = total + max(request.output_tokens, 1) - 1
        hashed, held = computed // size, math.ceil(computed / size)
        self.gpu.allocate(request.blocks, gpu_hits, held)
        cached = last * self.rules.chunk_tokens if loads else local
        self.prefill(request, min(cached, total - 1), last if loads else 0)
        skipped = first if loads and self.rules.touch == "reported" else 0
        self.policy.finish(self.here(keys[skipped:]), self.now)
        self.gpu.free(hashed)
        self.gpu_hit_tokens += local
        return cached
