"""Makes replays from the text forms of their parts."""

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.engines import engine
from hotset.sim.replay import Replay, RunConfig


def make_replay(workload, text, capacity, admission_text="always", **options):
    """A replay that has not begun; options are those of `RunConfig`."""
    spec, params = POLICIES.parse(text)
    admission, admission_params = ADMISSIONS.parse(admission_text)
    rules = engine(options.pop("engine", "none"))
    config = RunConfig(
        spec, params, admission, admission_params, capacity, rules, **options
    )
    return Replay(workload, config)


def run(workload, text, capacity, admission_text="always", **options):
    """The result of a whole replay."""
    return make_replay(workload, text, capacity, admission_text, **options).run()
