"""The spec of a CPU tier with an SSD tier behind it.

`hotset.adapter.spec.HotsetOffloadingSpec` is one of these where ``"hotset"`` has a key
``"ssd"``. From vLLM's tiering it has the memory that scheduler and workers share; what
goes where is decided by our own manager, the same in every version.
"""

from __future__ import annotations

from typing import Any

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError
from hotset.adapter.spec import HotsetOffloadingSpec
from hotset.adapter.ssd import vllm_tiering
from hotset.adapter.ssd.cache import SsdCache
from hotset.adapter.ssd.config import DEMOTE, SsdConfig
from hotset.adapter.ssd.namespace import HASH_SEED, RANDOM, Namespace

_GRACE_S = 1.0


class HotsetSsdSpec(HotsetOffloadingSpec, vllm_tiering.SPEC_BASE):  # type: ignore[misc]
    """vLLM's CPU offloading with hotset's policies, and an SSD tier behind it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        vllm_tiering.engine_config_of(self)  # now: who makes the manager may not know

    def _capacity(self, config: Any) -> int:
        """Return the slots of the CPU tier: its chunks but those that demotion needs.

        A small tier has a spare chunk as well, if it has a second one at all.
        """
        number = compat.num_chunks(self)
        return number - spare_chunks(config.ssd, number)

    def _make_manager(self, config: Any, **tier: Any) -> Any:
        """Return the manager, with the SSD cache open and checked."""
        from hotset.adapter.ssd.tier import SsdTier
        from hotset.adapter.ssd.tier_manager import SsdManager

        ssd: SsdConfig = config.ssd
        if not vllm_tiering.is_one_machine(self):
            raise AdapterError(
                '"hotset": "ssd" needs all workers on the machine of the scheduler'
            )
        row_bytes = compat.chunk_bytes(self)
        namespace = namespace_of(self, row_bytes)
        namespace.check(ssd.ephemeral)
        region = vllm_tiering.open_region(self, None)
        rows, whole = vllm_tiering.rows_of(region, compat.num_chunks(self))
        try:
            cache = SsdCache.open(ssd, namespace, row_bytes)
        except Exception:
            _free(region, rows, whole)
            raise
        compat.LOG.info("hotset: SSD tier, %s", ssd.describe())
        # The cache gives up first; what it cannot let go of is missed a little later.
        deadlines_s = ssd.load_deadline_s + _GRACE_S, ssd.store_deadline_s + _GRACE_S
        return SsdManager(
            SsdTier(cache, tier["driver"], rows, ssd.mode, deadlines_s),
            vllm_tiering.steps_in_flight(self),
            ssd.close_deadline_s,
            lambda: _free(region, rows, whole),
            **tier,
        )

    def _cpu_memory(self, kv_caches: Any) -> tuple[Any, Any]:
        """Return the memory that the CPU build's worker copies to and from."""
        views, region = vllm_tiering.worker_views(self, kv_caches)
        return views, region.cleanup


def spare_chunks(ssd: SsdConfig, number: int) -> int:
    """Return the chunks of the CPU tier that are no slots."""
    if ssd.mode != DEMOTE:
        return 0
    return min(number - 1, max(1, int(ssd.staging_share * number)))


def namespace_of(spec: Any, row_bytes: int) -> Namespace:
    """Return what two engines that share chunks have in common."""
    seed = vllm_tiering.hash_seed(spec)
    fields = vllm_tiering.identity(spec, row_bytes)
    return Namespace.of({**fields, HASH_SEED: RANDOM if seed is None else seed})


def _free(region: Any, rows: list[memoryview], whole: memoryview) -> None:
    """Give the shared memory back, unless some thread still has a part of it."""
    try:
        for row in rows:
            row.release()
        whole.release()
    except BufferError:
        compat.LOG.warning("hotset: the SSD tier still uses memory of the CPU tier")
    rows.clear()
    region.cleanup()
