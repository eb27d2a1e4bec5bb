"""Plans of tunings, traces to tune on, and workers that need no trace."""

import math
from concurrent.futures import Future

import numpy as np

from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import engine
from hotset.sim.ledger import Ledger
from hotset.sim.objectives import parse_objectives
from hotset.sim.trial_store import open_study
from hotset.sim.trials import Search
from hotset.sim.tune_plan import TunePlan, first_candidates, make_space
from hotset.sim.workers import Score
from hotset.traces.model import Provenance, Trace


def plan(policies=("guard", "marconi"), admissions=("always",), **settings):
    """A plan that takes what it is not given from a small example."""
    asked = {
        "cpu": "5%",
        "objectives": ("token_hit_ratio",),
        "engine": "none",
        "trials": 16,
        **settings,
    }
    return TunePlan(
        space=make_space(policies, admissions),
        **{
            **asked,
            "cpu": parse_capacity(asked["cpu"], "--cpu"),
            "objectives": parse_objectives(asked["objectives"]),
            "engine": engine(asked["engine"]),
        },
    )


def search(asked, workers, storage=None, trials=None):
    """Search by fake workers; return the trials that are settled."""
    with open_study(storage, "test", asked.objectives) as kept:
        made = Search(
            Ledger(*kept),
            asked.space,
            asked.objectives,
            first_candidates(asked),
            asked.sampler,
            asked.seed,
        )
        made.run(workers, trials or asked.trials)
    return made.settled


def told(settled):
    """What the trials of a search are, to compare."""
    return [(each.place, each.candidate.label, each.score) for each in settled]


def merit(candidate):
    """A figure that depends on all parameters; the best guard has distance 300."""
    params = candidate.as_json()["policy"]
    distance = params.get("distance", 0)
    return 1 / (1 + abs(math.log((1 + distance) / 301))) + params.get("growth", 0) / 1e3


class Fake:
    """Workers that ask a function; the k-th call of it may be an interruption."""

    def __init__(self, score, interrupt_at=None):
        self.score = score
        self.interrupt_at = interrupt_at
        self.calls = 0

    def submit(self, candidate):
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        future = Future()
        found = self.score(candidate)
        future.set_result(found if isinstance(found, Score) else Score((found,)))
        return future


def trace_of(requests, block_tokens=512, output_tokens=16, sessions=None):
    """A trace of requests, each a list of block ids; one second apart."""
    count = len(requests)
    sizes = np.array([len(ids) for ids in requests])
    ids = np.concatenate([np.asarray(each) for each in requests])
    _, at, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(at), np.int64)
    rank[np.argsort(at)] = np.arange(len(at))
    return Trace(
        block_tokens=block_tokens,
        request_offsets=np.concatenate([[0], np.cumsum(sizes)]),
        block_ids=rank[inverse],
        arrival_s=np.arange(count, dtype=float),
        input_tokens=sizes * block_tokens,
        output_tokens=np.full(count, output_tokens),
        session=np.full(count, -1) if sessions is None else np.asarray(sessions),
        provenance=Provenance(
            format="made",
            path="made",
            sha256="0" * 64,
            rows_read=count,
            rows_rejected=0,
        ),
    )


def round_robin(contexts, blocks, rounds):
    """Contexts that come back one after the other, again and again."""
    return trace_of(
        [
            [context * blocks + i for i in range(blocks)]
            for _ in range(rounds)
            for context in range(contexts)
        ]
    )


def private_tails(contexts, head, tail, requests, seed):
    """Heads drawn uniformly, each time with a tail that never comes back."""
    rng = np.random.default_rng(seed)
    made, fresh = [], contexts * head
    for _ in range(requests):
        context = int(rng.random() * contexts)
        made.append(
            [context * head + i for i in range(head)] + [fresh + i for i in range(tail)]
        )
        fresh += tail
    return trace_of(made)
