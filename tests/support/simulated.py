"""Simulations made from the text forms of their parts."""

import dataclasses

import simpy

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.arrivals import JobSource, closed_loop, open_loop
from hotset.sim.cost import CostModel
from hotset.sim.engine import Engine, EngineSpec
from hotset.sim.engines import engine as rules_of
from hotset.sim.replay import RunConfig
from hotset.sim.ssd import SsdConfig, SsdTier
from hotset.sim.ssd_traffic import SsdLinks
from hotset.sim.steps import BatchLimits
from hotset.sim.tier import NoTier, OffloadTier
from hotset.sim.tiers import TwoTiers
from hotset.sim.transfers import LinkSpec

NO_TIME = LinkSpec(float("inf"))


def machine(workload, **options):
    """A machine; by default nothing takes time and there is room for everything."""
    settings = {
        "cost": CostModel(),
        "gpu_blocks": 100_000,
        "kv_bytes_per_token": 1,
        "load_link": NO_TIME,
        "store_link": NO_TIME,
        "limits": BatchLimits(
            step_tokens=options.pop("step_tokens", 8192),
            max_sequences=options.pop("max_sequences", 256),
            block_tokens=workload.trace.block_tokens,
            chunk_tokens=workload.chunk_tokens,
        ),
    }
    return EngineSpec(**{**settings, **options})


def run_config(text, capacity, admission_text="always", engine="none", **options):
    """A replay's configuration."""
    spec, params = POLICIES.parse(text)
    admission, admission_params = ADMISSIONS.parse(admission_text)
    return RunConfig(
        spec, params, admission, admission_params, capacity, rules_of(engine), **options
    )


def ssd_config(text, capacity, admission_text="always", **options):
    """An SSD tier's configuration."""
    return SsdConfig(
        *POLICIES.parse(text), *ADMISSIONS.parse(admission_text), capacity, **options
    )


class CountingEnvironment(simpy.Environment):
    """An environment that counts the events that it has gone through."""

    num_events = 0

    def step(self):
        """Go through one event."""
        self.num_events += 1
        super().step()


class Simulation:
    """A simulation that can run request by request, and what came of it.

    Without a configuration there is no CPU tier; ``ssd`` is that of the tier behind it.
    """

    def __init__(
        self, workload, config, spec, users=None, think_s=0.0, ssd=None, **options
    ):
        self.env = CountingEnvironment()
        self.log = []
        self.jobs = []
        self.tier = OffloadTier(workload, config) if config else NoTier()
        if ssd is not None:
            chunk_bytes = workload.chunk_tokens * spec.kv_bytes_per_token
            tier = SsdTier(workload, ssd, chunk_bytes)
            self.tier = TwoTiers(workload, config, tier)
            spec = dataclasses.replace(spec, ssd=spec.ssd or SsdLinks(NO_TIME, NO_TIME))
        self.engine = Engine(
            self.env, spec, self.tier, self.jobs.append, self.log, **options
        )
        source = JobSource(workload)
        if users is None:
            self.env.process(open_loop(self.env, self.engine, source))
        else:
            self.env.process(closed_loop(self.env, self.engine, source, users, think_s))

    def run(self):
        """Run to the end."""
        self.env.run(until=self.engine.process)
        return self

    def run_until(self, time_s):
        """Run everything before a time."""
        if time_s > self.env.now:
            self.env.run(until=time_s)
        return self

    def times(self, what):
        """When something happened, by request."""
        return {index: time for time, event, index in self.log if event == what}

    @property
    def resident(self):
        """Chunks in the tier, ascending."""
        return self.tier.resident()
