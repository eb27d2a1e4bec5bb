"""Loads configurations through this vLLM's own factory; says what came of each.

Reads a JSON list of values of ``--kv-transfer-config`` and prints one line of JSON for
each, behind a mark, since some versions log to the standard output.
"""

import json
import sys

from support.core_config import kv_cache_config, vllm_config
from vllm.config import KVTransferConfig
from vllm.v1.kv_offload.factory import OffloadingSpecFactory

from hotset.adapter import compat
from hotset.adapter.plugin import register


class Connector:
    """Makes a spec as vLLM's connector does, which has the engine's configuration."""

    def __init__(self, given):
        self._vllm_config = vllm_config({})
        self._vllm_config.kv_transfer_config = KVTransferConfig(**given)

    def make_spec(self):
        """The spec, by vLLM's factory."""
        config, caches = self._vllm_config, kv_cache_config(64)
        if not compat.has_blocks_per_chunk():
            return OffloadingSpecFactory.create_spec(config, caches)
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading import (
            config as offloading_config,
        )

        return OffloadingSpecFactory.create_spec(
            offloading_config.build_offloading_config(config, caches)
        )


def made(given):
    """What the factory makes of a configuration."""
    spec = Connector(given).make_spec()
    manager = spec.get_manager()
    holder = manager if hasattr(manager, "driver") else manager._policy
    told = {
        "spec": type(spec).__name__,
        "chunks": compat.num_chunks(spec),
        "blocks_per_chunk": compat.blocks_per_chunk(spec),
        "policy": type(holder).__name__,
    }
    if hasattr(holder, "driver"):
        told["policy"] = holder.driver.spec.label(holder.driver._params)
    return told


def main():
    """Load each; a failure is told by its first line."""
    register()
    for given in json.load(sys.stdin):
        try:
            told = made(given)
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        print(">", json.dumps(told))


if __name__ == "__main__":
    main()
