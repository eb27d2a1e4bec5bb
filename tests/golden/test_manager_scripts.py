"""vLLM's CPU offloading manager, LRU and ARC, with and without a threshold."""

import pytest
from golden.scripts import load

from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.driver import PolicyDriver, Status

VERSIONS = ("0.24.0", "0.32.0", "0.33.0")
SCRIPTS = [
    (version, i) for version in VERSIONS for i in range(len(load(f"manager_{version}")))
]


class Manager:
    """The calls of vLLM's manager, of one version, put to the driver."""

    def __init__(self, script, version):
        self.version = version
        self.is_lru = script["policy"] == "lru"
        spec, params = POLICIES.parse(f"{script['policy']}:order=vllm-{version[:4]}")
        rule = "lookup" if version == "0.24.0" else "offer"
        admission, admission_params = ADMISSIONS.parse(
            f"threshold:{max(1, script['store_threshold'])},count={rule},"
            f"max_tracker_size={script['max_tracker_size']}"
        )
        self.driver = PolicyDriver(
            spec, params, script["capacity"], admission, admission_params
        )
        self.request = {}
        self.chain = {}
        self.seen = {}
        self.found = {}
        self.stored_by = {}

    def depths(self, name, keys):
        return [self.chain[name].index(key) for key in keys]

    def access(self, name, keys):
        """From 0.32 on a key counts for its request once, when first reported."""
        new = [key for key in keys if key not in self.seen[name]]
        self.seen[name] += new
        if new and self.is_lru and self.version == "0.33.0":
            self.driver.hit(self.request[name], new)

    def find(self, name, keys):
        """From 0.32 on ARC hears of what a request finds; of its own, it does not."""
        others = [key for key in keys if key not in self.stored_by[name]]
        self.found[name].update(others)
        if not self.is_lru and self.version != "0.24.0":
            self.driver.hit(self.request[name], others)

    def new(self, name, chain):
        self.request[name] = self.driver.begin()
        self.chain[name] = chain
        self.seen[name] = []
        self.found[name] = set()
        self.stored_by[name] = set()

    def lookup(self, name, key):
        self.driver.note_lookup([key])
        return self.driver.lookup(key).value

    def touch(self, name, keys):
        self.driver.observe(self.request[name], keys)
        self.driver.hit(self.request[name], keys)

    def load(self, name, keys):
        self.driver.pin(keys)
        self.find(name, keys)
        self.access(name, keys)

    def loaded(self, name, keys):
        self.driver.unpin(keys)

    def offer(self, name, keys):
        before = {key: self.driver.lookup(key) for key in keys}
        self.find(name, [key for key in keys if before[key] is Status.HIT])
        stored = self.driver.offer(self.request[name], keys, self.depths(name, keys))
        if self.version != "0.24.0":
            taken = [] if stored is None else stored.keys
            self.stored_by[name].update(taken)
            self.access(
                name,
                [k for k in keys if before[k] is Status.HIT or k in taken]
                if stored is not None
                else [k for k in keys if before[k] is not Status.PENDING],
            )
        return (None, None) if stored is None else (stored.keys, stored.evicted)

    def stored(self, name, keys, success):
        self.driver.complete(keys, success)

    def finish(self, name):
        if self.version != "0.24.0":
            # ARC leaves alone what a request asked for in vain.
            mine = self.found[name] | self.stored_by[name]
            keys = self.seen[name] if self.is_lru else mine
            order = sorted(keys, key=self.chain[name].index)
            self.driver.finish(self.request[name], order)


@pytest.mark.parametrize(("version", "i"), SCRIPTS)
def test_manager(version, i):
    script = load(f"manager_{version}")[i]
    manager = Manager(script, version)
    for number, (verb, *arguments) in enumerate(script["ops"]):
        where = f"op {number}: {verb} {arguments}"
        if verb == "lookup":
            *given, answer = arguments
            assert manager.lookup(*given) == answer, where
        elif verb == "offer":
            name, keys, stored, evicted = arguments
            assert manager.offer(name, keys) == (stored, evicted), where
        else:
            getattr(manager, verb)(*arguments)
    assert manager.driver.num_faults == 0


def test_each_version_has_scripts_with_and_without_threshold():
    for version in VERSIONS:
        kinds = {
            (script["policy"], script["store_threshold"])
            for script in load(f"manager_{version}")
        }
        assert kinds == {("lru", 0), ("lru", 2), ("arc", 0), ("arc", 2)}
        offers = [
            op
            for script in load(f"manager_{version}")
            for op in script["ops"]
            if op[0] == "offer"
        ]
        assert sum(bool(op[4]) for op in offers) > 100
        assert sum(op[3] is None for op in offers) > 100
