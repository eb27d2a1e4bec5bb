"""Every access by itself: a trace whose requests are the single accesses of another.

This is what cache simulators without a prefix rule replay. No prefix has to be whole
for a hit, nothing is protected while other blocks of its prompt are stored, and what
counts things by request counts accesses.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hotset.policies.errors import PolicyError
from hotset.traces.model import Tail, Trace


def flatten(trace: Trace, tail: Tail) -> Trace:
    """Return a trace with one request for each access, in prompt order.

    Parameters
    ----------
    trace : Trace
        The trace.
    tail : "drop" or "count"
        Whether last, partial blocks are left out, and their tokens with them.

    Raises
    ------
    PolicyError
        If there is no access at all.
    """
    accesses = trace.accesses(tail)
    sizes = np.diff(accesses.offsets)
    if len(accesses.ids) == 0:
        raise PolicyError("--flat: the trace has no full block, so nothing to replay")

    def repeated(column: Any) -> Any:
        return None if column is None else np.repeat(column, sizes)

    depth = np.arange(len(accesses.ids)) - np.repeat(accesses.offsets[:-1], sizes)
    left = repeated(trace.input_tokens) - depth * trace.block_tokens
    return dataclasses.replace(
        trace,
        request_offsets=np.arange(len(accesses.ids) + 1, dtype=np.int64),
        block_ids=accesses.ids,
        block_names=None,  # of other blocks and sessions than these
        session_names=None,
        arrival_s=repeated(trace.arrival_s),
        input_tokens=np.minimum(left, trace.block_tokens),
        output_tokens=np.zeros(len(accesses.ids), np.int64),
        session=repeated(trace.session),
        source_type=repeated(trace.source_type),
        priority=repeated(trace.priority),
        tenant=repeated(trace.tenant),
        ttl_s=repeated(trace.ttl_s),
        end_session=None,
    )
