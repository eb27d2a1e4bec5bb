"""What a tuning is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotset.policies.base import AdmissionSpec, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.candidate import Candidate, candidate
from hotset.sim.capacity import Capacity
from hotset.sim.drift import Promise
from hotset.sim.engines import EngineRules
from hotset.sim.objectives import Objective
from hotset.sim.profile import Profile
from hotset.sim.space import Space
from hotset.sim.tier_choice import TierBudget
from hotset.traces.model import Tail

BASELINE = "lru"
_FIRST = ("adaptive", "relevance", "marconi")
_MOST_TRIALS = 1_000_000
_MOST_SPLITS = 20


@dataclass(frozen=True)
class TunePlan:
    """A search and how its answer is judged.

    Parameters
    ----------
    space : Space
        What may be tried; `BASELINE` is in it.
    cpu : Capacity
        Size of the CPU tier.
    objectives : sequence of Objective
        The first one is what the verdict is about.
    engine : EngineRules
        The engine's rules.
    tail, chunk_tokens, gpu_blocks, step_tokens, kv_bytes_per_token
        As in `hotset.sim.study.Study`.
    profile : Profile, optional
        The machine, for objectives in time.
    tiers : TierBudget, optional
        The SSD behind the CPU tier, in time, and what may be exchanged for it.
    speed : float
        How much faster than in the trace requests come, in time.
    current : Candidate, optional
        What the user runs today.
    promise : Promise, optional
        What the file of `current` says that it gains.
    fit : float
        Share of the requests, from the first on, that are searched on; the rest is
        the holdout.
    trials : int
        Candidates to try.
    timeout_s : float, optional
        Seconds after which no more are begun.
    sampler : str
        See `hotset.sim.samplers`.
    seed : int
        Of the search and of the bootstrap.
    min_gain : float
        What the gain has to exceed; a share of all input tokens, of all prefill
        seconds, or of the baseline's TTFT, by the first objective.
    walk_forward : int
        Further searches, each on a longer beginning of the trace and judged on what
        follows; 0 for none.
    """

    space: Space
    cpu: Capacity
    objectives: Sequence[Objective]
    engine: EngineRules
    tail: Tail = "drop"
    chunk_tokens: int | None = None
    gpu_blocks: int = 0
    step_tokens: int = 8192
    kv_bytes_per_token: int | None = None
    profile: Profile | None = None
    tiers: TierBudget | None = None
    speed: float = 1.0
    current: Candidate | None = None
    promise: Promise | None = None
    fit: float = 0.5
    trials: int = 200
    timeout_s: float | None = None
    sampler: str = "tpe"
    seed: int = 0
    min_gain: float = 0.01
    walk_forward: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.fit < 1:
            raise PolicyError(f"--fit {self.fit}: allowed is above 0 and below 1")
        if not 1 <= self.trials <= _MOST_TRIALS:
            raise PolicyError(f"--trials {self.trials}: allowed is 1 to {_MOST_TRIALS}")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise PolicyError(f"--timeout {self.timeout_s}: more than 0 s is needed")
        if self.seed < 0:
            raise PolicyError(f"--seed {self.seed}: allowed is 0 or more")
        if not 0 <= self.min_gain < 1:
            raise PolicyError(f"--min-gain {self.min_gain}: allowed is 0 to below 1")
        if not 0 <= self.walk_forward <= _MOST_SPLITS or self.walk_forward == 1:
            raise PolicyError(
                f"--walk-forward {self.walk_forward}: allowed is 0, or 2 to "
                f"{_MOST_SPLITS} splits"
            )
        if not 0 < self.speed < math.inf:
            raise PolicyError(f"--speed {self.speed}: more than 0 is needed")
        if self.gpu_blocks == 1 or self.gpu_blocks < 0:
            raise PolicyError(
                f"--gpu-blocks {self.gpu_blocks}: allowed is 0 (no GPU tier) or 2 and "
                "more, of which the engine keeps one unused"
            )
        if self.step_tokens < 1:
            raise PolicyError(f"--step-tokens {self.step_tokens}: at least 1 is needed")
        self._check_objectives()

    @property
    def in_time(self) -> bool:
        """Whether trials are simulations in time."""
        return any(objective.needs_time for objective in self.objectives)

    def _check_objectives(self) -> None:
        names = [objective.name for objective in self.objectives]
        if self.in_time and self.profile is None:
            wanted = next(each.name for each in self.objectives if each.needs_time)
            raise PolicyError(f"--objective {wanted}: needs --profile")
        if not self.in_time and self.profile is not None:
            raise PolicyError("--profile: no objective is in time")
        if self.tiers is not None and not self.in_time:
            raise PolicyError("--ssd: no objective is in time")
        if self.tiers is None and "ssd_bytes_per_day" in names:
            raise PolicyError("--objective ssd_bytes_per_day: needs --ssd")
        has_engine = not self.engine.is_none or self.gpu_blocks > 0
        if self.tail == "count" and (has_engine or self.in_time):
            raise PolicyError("--tail count: an engine caches full blocks only")
        if "stored_bytes" in names and self.kv_bytes_per_token is None:
            raise PolicyError(
                "--objective stored_bytes: needs --kv-bytes-per-token or --model"
            )


def make_space(
    policies: Sequence[str],
    admissions: Sequence[str],
    tiers: TierBudget | None = None,
) -> Space:
    """Return the space of policies and admission rules by name, `BASELINE` first.

    Raises
    ------
    PolicyError
        For an unknown name, or a policy that cannot run in a server.
    """
    specs: list[PolicySpec] = [POLICIES.get(BASELINE)]
    for name in policies:
        spec = POLICIES.get(name)
        if spec.offline or spec.unbounded:
            raise PolicyError(f"--policy {name}: it cannot run in a server")
        specs.append(spec)
    rules: list[AdmissionSpec] = [ADMISSIONS.get(name) for name in admissions]
    if not rules:
        raise PolicyError("--admission: at least one is needed")
    return Space(
        list(dict.fromkeys(specs)),
        list(dict.fromkeys(rules)),
        tier_fields=() if tiers is None else tiers.fields,
    )


def first_candidates(plan: TunePlan) -> list[Candidate]:
    """Return what is tried before anything is searched, in this order.

    The baseline, defaults of `adaptive`, `relevance` and `marconi`, the user's
    current configuration, and the defaults of the other policies.
    """
    names = [spec.name for spec in plan.space.policies]
    rule = plan.space.admissions[0].name
    wanted = [BASELINE, *(name for name in _FIRST if name in names)]
    if all(spec.name != "always" for spec in plan.space.admissions):
        found = [candidate(BASELINE)]  # what gains are measured from
    else:
        found, rule = [], "always"
    found += [candidate(name, rule) for name in wanted]
    if plan.current is not None:
        found.append(plan.current)
    found += [candidate(name, rule) for name in names if name not in wanted]
    return list(dict.fromkeys(found))
