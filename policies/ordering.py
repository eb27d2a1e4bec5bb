"""Whether a request's blocks were used in an order that lets tails age first.

Within a request, later calls make blocks look newer. Insert, then use of the prefix, is
in order; a second insertion, or one after a use, leaves tails newer than heads. The
request's scratch field carries this from call to call, so that a policy puts its blocks
in order when the request finishes only where that is needed.

Policies that tell a request's own blocks from others number requests with `number_of`.
"""

from __future__ import annotations

from hotset.policies.arrays import Float64Array, Int64Array
from hotset.policies.jit import inlined
from hotset.policies.request import HIT_BLOCKS, NUMBER, SCRATCH

_UNUSED, _IN_ORDER, _DISORDERED = 0.0, 1.0, 2.0


@inlined
def note_insert(request: Float64Array) -> None:
    """Note that blocks of the request were inserted."""
    fresh = request[SCRATCH] == _UNUSED
    request[SCRATCH] = _IN_ORDER if fresh else _DISORDERED


@inlined
def note_hit(request: Float64Array, num_used: int) -> None:
    """Note that ``num_used`` resident blocks of the request were used."""
    # More than the hit prefix: some stood behind a gap and are now newer than it.
    if num_used > request[HIT_BLOCKS] or request[SCRATCH] == _DISORDERED:
        request[SCRATCH] = _DISORDERED
    else:
        request[SCRATCH] = _IN_ORDER


@inlined
def needs_order(request: Float64Array) -> bool:
    """Return whether tails may look newer than heads; the caller mends that now."""
    disordered = request[SCRATCH] == _DISORDERED
    if disordered:
        request[SCRATCH] = _IN_ORDER
    return bool(disordered)


@inlined
def number_of(request: Float64Array, numbered: Int64Array) -> int:
    """Return the request's number, 1 or more, given at the first call.

    ``numbered`` counts the requests that have one, int64[1].
    """
    if request[NUMBER] == 0.0:
        numbered[0] += 1
        request[NUMBER] = numbered[0]
    return int(request[NUMBER])
