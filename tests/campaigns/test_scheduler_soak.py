"""Ten thousand requests through vLLM's real scheduler, at 1 % capacity.

Requests are aborted at random and preempted where the GPU runs out (`support.core_*`);
every block that a request is given is compared with what it should hold.
"""

import pytest
from contract.serving import online_names

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

REQUESTS = 10_000
# About what the requests of a soak name: shared prefixes, and 1.4 full blocks each.
BLOCKS_PER_REQUEST = 1.4


def policies_of(campaign):
    """Return lru, always at full length, and two others.

    `test_manager_soak` has them all.
    """
    others = [name for name in online_names() if name != "lru"]
    return ["lru", *campaign.chance("soak").sample(others, 2)]


def test_no_error_no_fallback_no_pin(campaign):
    from support.core_scenarios import soak

    for name in policies_of(campaign):
        count = REQUESTS if name == "lru" else campaign.share(REQUESTS)
        chunks = max(8, int(count * BLOCKS_PER_REQUEST) // 100)
        engine = soak(
            count,
            chunks,
            campaign.chance("soak", name).randrange(10**6),
            hotset={"policy": name},
            store_steps=2,
            load_steps=2,
        )
        assert not any(engine.accounts().values()), (name, engine.accounts())
        assert engine.num_preempted > count // 500, name
        assert engine.victims, name
        assert engine.num_loads > 0, name
