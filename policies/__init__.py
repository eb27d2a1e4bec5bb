"""Eviction and admission policies: one text for simulator and server.

A new policy is one file and one line here.
"""

from hotset.policies import (
    adaptive,
    admission,
    arc,
    belady,
    fifo,
    gdsf,
    guard,
    leader,
    lfu,
    lru,
    marconi,
    relevance,
    s3fifo,
    sieve,
    tinylfu,
    unbounded,
    weighted,
)
from hotset.policies.base import AdmissionSpec, Params, PolicySpec
from hotset.policies.errors import PolicyError
from hotset.policies.registry import ADMISSIONS, POLICIES

for _spec in (
    lru.SPEC,
    fifo.SPEC,
    marconi.SPEC,
    relevance.SPEC,
    belady.SPEC,
    unbounded.SPEC,
    weighted.SPEC,
    guard.SPEC,
    adaptive.SPEC,
    leader.SPEC,
    arc.SPEC,
    lfu.SPEC,
    gdsf.SPEC,
    sieve.SPEC,
    s3fifo.SPEC,
    tinylfu.SPEC,
):
    POLICIES.add(_spec)
for _rule in (admission.ALWAYS, admission.THRESHOLD):
    ADMISSIONS.add(_rule)

__all__ = [
    "ADMISSIONS",
    "POLICIES",
    "AdmissionSpec",
    "Params",
    "PolicyError",
    "PolicySpec",
]
