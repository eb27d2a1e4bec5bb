"""Pure Python twin of a CPU tier with an SSD tier behind it, one request at a time."""

from oracles.naive import NaiveCache, NaiveEngine


class NaiveSsd(NaiveCache):
    """What the SSD holds; a chunk being written or read is not evicted."""

    def __init__(self, policy, admission, capacity, demotes):
        super().__init__(policy, admission, capacity, 1)
        self.demotes = demotes
        self.readable = set()
        self.reads = 0

    def hear(self, request):
        """One request: all its chunks are seen, those that are here are used."""
        keys = request.keys
        self.r += 1
        self.admission.lookup(keys)
        self.policy.told = (request.turn, self.run(keys), len(keys))
        self.policy.start(self.r, keys, (request.source, request.priority))
        self.policy.see(keys, set(self.here(keys)), self.now)
        self.use(self.here(keys))

    def offer(self, pairs, room):
        """Chunks that may be written, so many at the most; returns those that are."""
        missing = [(key, depth) for key, depth in pairs if key not in self.resident]
        missing = missing[:room]
        if not missing:
            return []
        self.admission.offer([key for key, _ in missing])
        wanted = [pair for pair in missing if self.admission.allows(pair[0])]
        if not wanted:
            return []
        stored = self.store(wanted, {key for key, _ in pairs}, whole=False)
        taken = [key for key, _ in stored]
        self.readable &= self.resident
        self.pinned.update(taken)
        if taken and self.demotes:  # a request's own are put in order at its end
            self.policy.finish(self.here([key for key, _ in missing]), self.now)
        return taken

    def complete(self, keys):
        """Chunks are written."""
        self.readable.update(keys)
        self.pinned.difference_update(keys)
        self.policy.ready(keys)


class NaiveTiers(NaiveEngine):
    """An engine's CPU tier with an SSD behind it."""

    def __init__(self, policy, admission, capacity, block_tokens, gpu, rules, ssd):
        super().__init__(policy, admission, capacity, block_tokens, gpu, rules)
        self.ssd = ssd
        self.copying = []
        self.depth = {}
        self.heard = False
        self.promoted = ()
        self.num_promoted = 0

    def pass_step(self):
        """What the SSD was given a step ago is written; then as in the engine."""
        over, self.copying = self.copying, []
        for keys in over:
            self.ssd.complete(keys)
            if not self.ssd.demotes:
                self.pinned.difference_update(keys)
                self.policy.ready(keys)
        done = [keys for left, keys in self.writing if left == 1]
        super().pass_step()
        for keys in done:
            if not self.ssd.demotes:
                pairs = [(key, self.depth[key]) for key in keys]
                # Half of the tier may be pinned for being copied.
                room = max(self.capacity // 2, 1) - sum(map(len, self.copying))
                taken = self.ssd.offer(pairs, max(room, 0))
                self.pinned.update(taken)
                self.copying.append(taken)

    def store(self, pairs, protected, whole):
        stored = super().store(pairs, protected, whole)
        self.demote(self.gone)
        return stored

    def demote(self, victims):
        """Give the SSD what the CPU tier evicts, in that order, but heads first."""
        if not self.ssd.demotes or not victims:
            return
        ordered = sorted(victims, key=self.depth.get)
        pairs = [(key, self.depth[key]) for key in ordered]
        self.copying.append(self.ssd.offer(pairs, len(pairs)))

    def hear(self, request):
        if self.heard:
            return
        keys = request.keys
        self.heard = True
        self.policy.told = (request.turn, self.run(keys), len(keys))
        self.policy.start(self.r, keys, (request.source, request.priority))
        self.policy.see(keys, set(self.here(keys)), self.now)
        self.ssd.hear(request)

    def promote(self, request, local):
        """Have read what only the SSD has, as far as there is room beside the rest."""
        chunk, keys = self.rules.chunk_tokens, request.keys
        last, absent = local // chunk, []
        if request.input_tokens - local < chunk:
            return
        while last < len(keys):
            if keys[last] not in self.resident:
                if keys[last] not in self.ssd.readable:
                    break
                absent.append(last)
            last += 1
        if not absent or last * chunk - local < chunk:
            return
        self.hear(request)
        wanted = [keys[i] for i in absent]
        self.ssd.pinned.update(wanted)
        candidates = [
            k for k in self.resident if k not in self.pinned and k not in keys
        ]
        free = self.capacity - len(self.resident)
        count = min(len(absent), free + len(candidates))
        pairs = [(keys[i], i) for i in absent[:count]]
        self.policy.admit(pairs, free, candidates, self.now)
        victims = []
        if count > free:
            victims = self.policy.victims(candidates, count - free, self.now)
        self.policy.evict(victims)
        self.resident.difference_update(victims)
        self.evictions += len(victims)
        self.ssd.pinned.difference_update(wanted[count:])
        self.ssd.policy.ready(wanted[count:])
        if count == 0:
            return
        self.promoted = wanted[:count]
        self.policy.insert(pairs, self.now)
        self.resident.update(self.promoted)
        self.keys_used += count
        self.num_promoted += count
        self.demote(victims)
        self.policy.ready(self.promoted)
        self.ssd.reads += count
        self.ssd.pinned.difference_update(self.promoted)
        self.ssd.policy.ready(self.promoted)
        self.pass_step()  # the engine waits for the reads

    def step(self, request):
        """Replay a request; return its hit tokens and those that the SSD gave."""
        keys, total, size = request.keys, request.input_tokens, self.block_tokens
        chunk = self.rules.chunk_tokens
        self.r += 1
        self.heard, self.promoted = False, ()
        self.depth.update((key, i) for i, key in enumerate(keys))
        limit = min((total - 1) // size, len(request.blocks))
        gpu_hits = self.gpu.lookup(request.blocks, limit)
        local = gpu_hits * size
        self.promote(request, local)
        first, last = self.find(keys, total, local)
        loads = keys[first:last]
        self.hear(request)
        self.use(loads if self.rules.touch == "reported" else self.here(keys))
        self.policy.ready(loads)

        computed = total + max(request.output_tokens, 1) - 1
        held = -(-computed // size)
        self.gpu.allocate(request.blocks, gpu_hits, held)
        cached = last * chunk if loads else local
        self.prefill(request, min(cached, total - 1), last if loads else 0)
        skipped = first if loads and self.rules.touch == "reported" else 0
        self.policy.finish(self.here(keys[skipped:]), self.now)
        self.ssd.policy.finish(self.ssd.here(keys), self.ssd.now)
        self.gpu.free(computed // size)
        self.gpu_hit_tokens += local
        self.pass_step()
        from_ssd = sum(
            chunk - (max(local - (first + i) * chunk, 0))
            for i, key in enumerate(loads)
            if key in self.promoted
        )
        return cached, from_ssd
