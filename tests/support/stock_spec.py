"""vLLM's own spec and manager with the worker for its CPU build, which vLLM lacks."""

from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from hotset.adapter import compat
from hotset.adapter.cpu_worker import CpuTransferWorker

MADE = []


class StockManagerSpec(CPUOffloadingSpec):
    """vLLM's spec but for the worker; none of hotset's checks."""

    _worker = None

    def get_worker(self, kv_caches):
        if self._worker is None:
            size = compat.blocks_per_chunk(self), compat.num_chunks(self)
            self._worker = CpuTransferWorker(kv_caches, *size)
        return self._worker

    def get_manager(self):
        """vLLM's own manager, under the ``eviction_policy`` that vLLM finds."""
        manager = CPUOffloadingSpec.get_manager(self)
        MADE.append(manager._policy)
        return manager


def described():
    """What the policies that were made are and hold."""
    return [
        {
            "class": type(policy).__name__,
            "resident": len(policy.driver),
            "faults": policy.driver.num_faults,
            "invalid_tags": dict(policy.tags.invalid),
        }
        for policy in {id(policy): policy for policy in MADE}.values()
    ]
