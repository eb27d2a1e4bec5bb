"""The entry point: ``"spec_name": "HotsetOffloadingSpec"`` in vLLM's configuration.

``"spec_module_path": "hotset.adapter.spec"`` finds it, ``cpu_bytes_to_use`` sizes the
tier as for vLLM's own spec, and the ``"hotset"`` key holds policy and admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hotset.adapter import compat
from hotset.adapter.errors import AdapterError
from hotset.adapter.stock_keys import stock_faults

# Policies, and numba with them, are imported when the scheduler asks for its manager:
# workers and front ends import this module too, and vLLM's CPU build fails to start in
# a process that has loaded llvmlite before.

_MOST_CHUNKS = 1 << 30  # slots are numbered by 32 bits


class HotsetOffloadingSpec(compat.SPEC_BASE):  # type: ignore[misc]
    """vLLM's CPU offloading with hotset's policies.

    Parameters
    ----------
    *arguments
        What this vLLM makes a spec of.

    Raises
    ------
    AdapterError
        If vLLM's own keys are wrong; names everything that is wrong, the ``"hotset"``
        key included.
    """

    def __new__(cls, *arguments: Any) -> HotsetOffloadingSpec:
        """Return a spec of the class that the configuration needs."""
        if cls is HotsetOffloadingSpec and _asks_for_ssd(*arguments):
            from hotset.adapter.ssd.vllm_spec import HotsetSsdSpec

            return object.__new__(HotsetSsdSpec)
        return object.__new__(cls)

    def __init__(self, *arguments: Any) -> None:
        extra_config = compat.extra_config_of(*arguments)
        faults = stock_faults(extra_config, compat.has_blocks_per_chunk())
        if faults:
            raise AdapterError("\n".join(faults + _hotset_faults(extra_config)))
        super().__init__(*arguments)
        self._hotset_manager: Any = None
        self._hotset_worker: Any = None

    def get_manager(self) -> Any:
        """Return the manager, made on the first call with its kernels compiled.

        Raises
        ------
        AdapterError
            If this vLLM lacks what the adapter needs, or the configuration is wrong.
        """
        if self._hotset_manager is None:
            from hotset.adapter.config import read_config
            from hotset.adapter.hybrid import hybrid_faults
            from hotset.adapter.manager import HotsetManager
            from hotset.adapter.tally import Tally
            from hotset.policies.driver import PolicyDriver

            compat.refuse_unsupported(HotsetManager)
            faults = _hotset_faults(self.extra_config) + self._capacity_faults()
            if faults:
                raise AdapterError("\n".join(faults))
            config = read_config(self.extra_config)
            faults = hybrid_faults(
                getattr(self, "kv_cache_config", None), config.allow_hybrid
            )
            if faults:
                raise AdapterError("\n".join(faults))
            driver: PolicyDriver[Any] = PolicyDriver(
                config.policy,
                config.params,
                self._capacity(config),
                config.admission,
                config.admission_params,
            )
            driver.warm_up()
            compat.LOG.info(
                "hotset: %s, %d chunks of %d blocks",
                config.describe(),
                driver.capacity,
                compat.blocks_per_chunk(self),
            )
            tally = Tally(
                driver, config.log_every, compat.chunk_tokens(self), compat.LOG
            )
            self._hotset_manager = self._make_manager(
                config,
                driver=driver,
                enable_events=compat.events_enabled(self),
                trusted_tags=config.trusted_tags,
                tally=tally,
                endings=self._endings(config.record, tally),
                watcher=_watcher(config),
            )
        return self._hotset_manager

    @classmethod
    def build_metric_definitions(cls, extra_config: Any) -> dict[str, Any]:
        """Return vLLM's metrics and ours; vLLM asks in its front end, from 0.24 on."""
        if not compat.HAS_METRICS:
            return {}
        return {
            **super().build_metric_definitions(extra_config),
            **compat.metric_definitions(),
        }

    def get_worker(self, kv_caches: Any) -> Any:
        """Return vLLM's own worker, or the copying one on the CPU build."""
        if not compat.is_cpu_platform():
            return super().get_worker(kv_caches)
        if self._hotset_worker is None:
            from hotset.adapter.cpu_worker import CpuTransferWorker

            self._hotset_worker = CpuTransferWorker(
                kv_caches,
                compat.blocks_per_chunk(self),
                compat.num_chunks(self),
                *self._cpu_memory(kv_caches),
            )
        return self._hotset_worker

    def get_handlers(self, kv_caches: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield what vLLM up to 0.24 asks for: transfer handlers, each with its ends.

        They are vLLM's own, or on the CPU build one that copies both ways.
        """
        if not compat.is_cpu_platform():
            yield from super().get_handlers(kv_caches)
            return
        if self._hotset_worker is None:
            from hotset.adapter.cpu_worker import CpuTransferHandler

            self._hotset_worker = CpuTransferHandler(
                kv_caches,
                compat.blocks_per_chunk(self),
                compat.num_chunks(self),
                *self._cpu_memory(kv_caches),
            )
        for ends in compat.transfer_ends():
            yield *ends, self._hotset_worker

    def _capacity(self, config: Any) -> int:
        """Return the slots of the CPU tier."""
        return compat.num_chunks(self)

    def _make_manager(self, config: Any, **tier: Any) -> Any:
        from hotset.adapter.manager import HotsetManager

        return HotsetManager(**tier)

    def _cpu_memory(self, kv_caches: Any) -> tuple[Any, Any]:
        """Return the CPU tier's memory and what frees it; None for memory of its own.

        On the CPU build only.
        """
        return None, None

    def _endings(self, config: Any, tally: Any) -> Any:
        """Return what counts requests at their ends and records them."""
        from hotset.adapter.endings import Endings
        from hotset.adapter.recorder import Recorder

        find = compat.engine_requests()
        block, chunk = compat.block_tokens(self), compat.chunk_tokens(self)
        recorder = None
        if config is not None and find is None:
            compat.LOG.error(
                "hotset: nothing is recorded: this vLLM does not say how long a "
                "request is"
            )
        elif config is not None:
            recorder = Recorder(config, block)
        return Endings(tally, find, recorder, chunk // block, chunk)

    def _capacity_faults(self) -> list[str]:
        if 1 <= compat.num_chunks(self) <= _MOST_CHUNKS:
            return []
        if compat.num_chunks(self) > _MOST_CHUNKS:
            return [
                f'"cpu_bytes_to_use" is {self.extra_config["cpu_bytes_to_use"]}: that '
                f"is {compat.num_chunks(self)} chunks, at most {_MOST_CHUNKS} can be "
                "kept"
            ]
        return [
            f'"cpu_bytes_to_use" is {self.extra_config["cpu_bytes_to_use"]}: one chunk '
            f"of {compat.blocks_per_chunk(self)} blocks takes "
            f"{compat.chunk_bytes(self)} bytes"
        ]


def _hotset_faults(extra_config: Any) -> list[str]:
    from hotset.adapter.config import read_config
    from hotset.policies.errors import PolicyError

    try:
        read_config(extra_config)
    except PolicyError as error:
        return str(error).splitlines()
    return []


def _asks_for_ssd(*arguments: Any) -> bool:
    hotset = compat.extra_config_of(*arguments).get("hotset")
    return isinstance(hotset, Mapping) and hotset.get("ssd") is not None


def _watcher(config: Any) -> Any:
    """Return what watches the policy file; None where nothing is to be watched."""
    if config.tuned is None or config.watch_s == 0:
        return None
    from hotset.adapter.policy_file import PolicyWatcher
    from hotset.policies.driver import PolicyDriver

    def prepare(choice: Any) -> None:
        PolicyDriver(
            choice.policy, choice.params, 2, choice.admission, choice.admission_params
        ).warm_up()

    watcher = PolicyWatcher(
        config.tuned.path, config.watch_s, config.choice, prepare, compat.LOG
    )
    watcher.start()
    return watcher
