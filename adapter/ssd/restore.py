"""What was stored before a restart, told to the policy that goes on with it.

The policy hears of requests that stored the blocks one after another, in the order of
their last uses, each block as often as it was used, up to a bound. So orders, counts
and depths go on; what a policy knew of blocks that were not stored does not. Requests
of which nothing else is known may be put together, so that this takes a bounded number
of calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hotset.adapter.ssd.index import Row
from hotset.policies.driver import PolicyDriver
from hotset.policies.request import Request

MAX_BATCHES = 4096
MAX_USES = 16  # of a block that the policy is told of


def tell(
    driver: PolicyDriver[bytes], rows: list[Row], now_s: float, wall_s: float
) -> None:
    """Put stored blocks into an empty driver.

    Parameters
    ----------
    driver : PolicyDriver
        It must have room for them.
    rows : list of Row
        The one used longest ago first.
    now_s, wall_s : float
        The time by the driver's clock and in seconds since the epoch.
    """
    for batch in _batches(rows):
        head_first = batch[::-1]
        keys = [row.key for row in head_first]
        ago_s = max(0.0, wall_s - max(row.used_s for row in batch))
        driver.now_s = max(driver.now_s, now_s - ago_s)
        driver.begin()
        request = Request.of(num_blocks=len(keys))
        driver.observe(request, keys)
        driver.insert(request, keys, [row.depth for row in head_first])
        driver.complete(keys)
        for again in range(1, MAX_USES):
            used = [row.key for row in head_first if row.uses > again]
            if not used:
                break
            driver.hit(request, used)
        driver.finish(request, keys)
    driver.now_s = now_s


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    requests = [list(same) for _, same in itertools.groupby(rows, lambda row: row.used)]
    together = -(-len(requests) // MAX_BATCHES) or 1
    for i in range(0, len(requests), together):
        yield list(itertools.chain.from_iterable(requests[i : i + together]))
