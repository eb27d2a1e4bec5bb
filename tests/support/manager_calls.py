"""A manager without an engine: the calls of vLLM's scheduler, made one by one."""

from vllm.v1.kv_offload import base

from hotset.adapter import compat
from hotset.adapter.manager import HotsetManager
from hotset.policies import POLICIES
from hotset.policies.driver import PolicyDriver

HIT, MISS, PENDING = compat.HIT, compat.MISS, compat.PENDING


class Calls:
    """A manager of some chunks, and requests by name."""

    def __init__(self, chunks, policy="lru", enable_events=False):
        driver = PolicyDriver(*POLICIES.parse(policy), chunks)
        self.manager = HotsetManager(driver, enable_events)
        self.driver = driver
        self.contexts = {}

    def context(self, name):
        """The one context of a request."""
        if name not in self.contexts:
            self.contexts[name] = base.ReqContext(req_id=name)
            self.manager.on_new_request(self.contexts[name])
        return self.contexts[name]

    def keys(self, prompt, count, first=0):
        """Keys of a prompt's chunks."""
        return [
            base.make_offload_key(f"{prompt}:{i}".encode().ljust(32, b"."), 0)
            for i in range(first, first + count)
        ]

    def lookup(self, name, keys):
        return [self.manager.lookup(key, self.context(name)) for key in keys]

    def offer(self, name, keys):
        """Offer chunks; return which are taken and which go, None where refused."""
        output = self.manager.prepare_store(keys, self.context(name))
        return output and (output.keys_to_store, output.evicted_keys)

    def stored(self, name, keys, success=True):
        self.manager.complete_store(set(keys), self.context(name), success)

    def store(self, name, keys):
        """Offer, and complete at once."""
        taken, evicted = self.offer(name, keys)
        self.stored(name, taken)
        return evicted

    def load(self, name, keys):
        """Begin a load; return the chunks."""
        return self.manager.prepare_load(keys, self.context(name)).block_ids.tolist()

    def loaded(self, name, keys):
        self.manager.complete_load(set(keys), self.context(name))

    def finish(self, name):
        self.manager.on_request_finished(self.contexts.pop(name))

    def step(self):
        """End an engine step."""
        return list(self.manager.take_events())

    @property
    def num_pinned(self):
        resident = self.driver.capacity - self.driver.num_free
        return resident - self.driver.num_evictable
