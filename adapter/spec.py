"""The entry point: ``"spec_name": "HotsetOffloadingSpec"`` in vLLM's configuration.

``"spec_module_path": "hotset.adapter.spec"`` finds it, ``cpu_bytes_to_use`` sizes the
tier as for vLLM's own spec, and the ``"hotset"`` key holds policy and admission.
"""

from __future__ import annotations

import logging
from typing import Any

from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from hotset.adapter.errors import AdapterError

# Policies, and numba with them, are imported when the scheduler asks for its manager:
# workers and front ends import this module too, and vLLM's CPU build fails to start in
# a process that has loaded llvmlite before.

_LOG = logging.getLogger(__name__)


class HotsetOffloadingSpec(CPUOffloadingSpec):  # type: ignore[misc]
    """vLLM's CPU offloading with hotset's policies."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._hotset_manager: Any = None
        self._hotset_worker: Any = None

    def get_manager(self) -> Any:
        """Return the manager, made on the first call with its kernels compiled.

        Raises
        ------
        AdapterError
            If this vLLM lacks what the adapter needs.
        PolicyError
            If the configuration is wrong.
        """
        if self._hotset_manager is None:
            from hotset.adapter import compat
            from hotset.adapter.config import read_config
            from hotset.adapter.manager import HotsetManager
            from hotset.policies.driver import PolicyDriver

            missing = compat.missing_features()
            if missing:
                raise AdapterError(
                    "this vLLM is outside the supported range 0.22 to 0.33: it has no "
                    + ", ".join(missing)
                )
            config = read_config(self.extra_config)
            driver: PolicyDriver[Any] = PolicyDriver(
                config.policy,
                config.params,
                compat.num_chunks(self),
                config.admission,
                config.admission_params,
            )
            driver.warm_up()
            _LOG.info(
                "hotset: %s, %d chunks of %d blocks",
                config.describe(),
                driver.capacity,
                compat.blocks_per_chunk(self),
            )
            self._hotset_manager = HotsetManager(
                driver, compat.events_enabled(self), config.trusted_tags
            )
        return self._hotset_manager

    def get_worker(self, kv_caches: Any) -> Any:
        """Return vLLM's own worker, or the copying one on the CPU build."""
        from hotset.adapter import compat

        if not compat.is_cpu_platform():
            return super().get_worker(kv_caches)
        if self._hotset_worker is None:
            from hotset.adapter.cpu_worker import CpuTransferWorker

            self._hotset_worker = CpuTransferWorker(
                kv_caches, compat.blocks_per_chunk(self), compat.num_chunks(self)
            )
        return self._hotset_worker
