"""Samplers of Optuna by name, made anew for every trial.

A sampler's chance depends on the seed and on the trial's place in the search alone, not
on the trials that the process has seen: a search that was interrupted goes on as if it
had not been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotset.policies.base import known_names
from hotset.policies.errors import PolicyError

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "random", "nsgaii")


def check_sampler(name: str) -> str:
    """Return the name of a sampler.

    Raises
    ------
    PolicyError
        If there is none of that name.
    """
    if name not in SAMPLERS:
        raise PolicyError(f"--sampler {name}: unknown{known_names(name, SAMPLERS)}")
    return name


def make_sampler(name: str, seed: int, place: int) -> BaseSampler:
    """Return the sampler of the trial at a place of the search."""
    import numpy as np
    from optuna import samplers

    own = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
    if name == "random":
        return samplers.RandomSampler(seed=own)
    if name == "nsgaii":
        return samplers.NSGAIISampler(seed=own)
    # All that has another default in some version of Optuna is stated.
    return samplers.TPESampler(seed=own, multivariate=False, constant_liar=False)
