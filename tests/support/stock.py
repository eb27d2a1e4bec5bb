"""vLLM's own manager and policies, of whatever version is on the path, beside ours.

Plays the recorded scripts; `support.stock_traffic` plays random ones.
"""

import importlib
import inspect

from golden.scripts import load
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.cpu import manager as stock
from vllm.v1.kv_offload.cpu.policies import base as stock_policies

STATUS = getattr(stock_policies, "ChunkStatus", None) or stock_policies.BlockStatus
SCHEDULER_TOUCHES = not hasattr(stock_policies.CachePolicy, "on_request_finished")
INSERT_TAKES_CONTEXT = (
    "req_context" in inspect.signature(stock_policies.CachePolicy.insert).parameters
)
TOUCH_TAKES_CONTEXT = (
    "req_context" in inspect.signature(stock_policies.CachePolicy.touch).parameters
)
TOKENS = 16


def key_of(number):
    return base.make_offload_key(number.to_bytes(8, "big"), 0)


def number_of(key):
    return int.from_bytes(key[:8], "big")


def numbers_of(keys):
    return [number_of(key) for key in keys]


def context(name, chain=(), params=None):
    """A request as the scheduler makes it; ``chain`` are its keys as numbers."""
    made = base.ReqContext(req_id=name, kv_transfer_params=params)
    if hasattr(made, "set_offload_key_position"):
        for i, number in enumerate(chain):
            made.set_offload_key_position(key_of(number), (i + 1) * TOKENS)
    return made


def stock_policy_class(name):
    module = importlib.import_module(f"vllm.v1.kv_offload.cpu.policies.{name}")
    return getattr(module, f"{name.upper()}CachePolicy")


def make_manager(policy, capacity, store_threshold=0, max_tracker_size=64_000):
    """vLLM's CPU manager holding a cache policy."""
    names = inspect.signature(stock.CPUOffloadingManager.__init__).parameters
    size = "num_chunks" if "num_chunks" in names else "num_blocks"
    manager = stock.CPUOffloadingManager(
        **{size: capacity},
        store_threshold=store_threshold,
        max_tracker_size=max_tracker_size,
    )
    manager._policy = policy(cache_capacity=capacity)
    return manager


class Calls:
    """A manager, driven by the verbs of the recorded scripts.

    vLLM's scheduler hands over the chunks of a finished job as a set. Here they are a
    list, in the order in which the chunks were offered, so that the hash seed plays no
    part; with ``as_sets`` they are a set.
    """

    def __init__(self, manager, as_sets=False):
        self.manager = manager
        self.job = set if as_sets else list
        self.context = {}

    def new(self, name, chain, params=None):
        self.context[name] = context(name, chain, params)
        self.manager.on_new_request(self.context[name])

    def lookup(self, name, number):
        answer = self.manager.lookup(key_of(number), self.context[name])
        if isinstance(answer, (bool, type(None))):
            return {True: "hit", False: "miss", None: "pending"}[answer]
        return {"HIT": "hit", "MISS": "miss", "HIT_PENDING": "pending"}[answer.name]

    def touch(self, name, numbers):
        self.manager.touch([key_of(n) for n in numbers], self.context[name])

    def load(self, name, numbers):
        keys = [key_of(n) for n in numbers]
        spec = self.manager.prepare_load(keys, self.context[name])
        return spec.block_ids.tolist()

    def loaded(self, name, numbers):
        keys = self.job(key_of(n) for n in numbers)
        self.manager.complete_load(keys, self.context[name])

    def offer(self, name, numbers):
        keys = [key_of(n) for n in numbers]
        output = self.manager.prepare_store(keys, self.context[name])
        if output is None:
            return None, None
        return numbers_of(output.keys_to_store), numbers_of(output.evicted_keys)

    def stored(self, name, numbers, success):
        keys = self.job(key_of(n) for n in numbers)
        self.manager.complete_store(keys, self.context[name], success)

    def finish(self, name):
        self.manager.on_request_finished(self.context[name])

    def reset(self):
        self.manager.reset_cache()


def play_manager_script(script, policy):
    """Return the operation whose answer differs from the recorded one, or None."""
    sizes = (script["capacity"], script["store_threshold"], script["max_tracker_size"])
    manager = make_manager(policy, *sizes)
    calls = Calls(manager)
    for number, (verb, *arguments) in enumerate(script["ops"]):
        if verb == "lookup":
            *given, expected = arguments
            got = calls.lookup(*given)
        elif verb == "offer":
            name, keys, *expected = arguments
            got = list(calls.offer(name, keys))
        else:
            getattr(calls, verb)(*arguments)
            continue
        if got != expected:
            return f"op {number} {verb} {arguments}: got {got}"
    return faults_of(manager._policy)


def faults_of(policy):
    driver = getattr(policy, "driver", None)
    return f"{driver.num_faults} faults" if driver and driver.num_faults else None


def play_policy_script(script, policy):
    """The same for a script of a cache policy's own methods."""
    tier = policy(cache_capacity=script["capacity"])
    request = context("r")
    with_context = [request] if TOUCH_TAKES_CONTEXT else []
    for number, (verb, *arguments) in enumerate(script["ops"]):
        if verb == "insert":
            for key in map(key_of, arguments[0]):
                more = [request] if INSERT_TAKES_CONTEXT else []
                tier.insert(key, STATUS(0), *more)
                tier.get(key).ref_cnt = 0
                tier.mark_evictable(key)
        elif verb == "touch":
            tier.touch([key_of(n) for n in arguments[0]], *with_context)
        elif verb == "pin":
            tier.mark_non_evictable(key_of(arguments[0]))
            tier.get(key_of(arguments[0])).ref_cnt = 1
        elif verb == "unpin":
            tier.get(key_of(arguments[0])).ref_cnt = 0
            tier.mark_evictable(key_of(arguments[0]))
        else:
            n, protected, expected = arguments
            gone = tier.evict(n, {key_of(p) for p in protected})
            got = None if gone is None else [number_of(key) for key, _ in gone]
            if got != expected:
                return f"op {number} evict {arguments}: got {got}"
    return faults_of(tier)


def play_scripts(name, version, policy, touched):
    """Play what was recorded of a policy; return what differed and how many scripts."""
    if version is None:
        return [], 0
    scripts = [s for s in load(f"manager_{version}") if s["policy"] == name]
    wrong = [play_manager_script(script, policy) for script in scripts]
    if version != "0.33.0":  # no policy scripts were recorded there
        more = load(f"{name}_{version}")
        wrong += [play_policy_script(script, touched) for script in more]
    return [what for what in wrong if what], len(wrong)
