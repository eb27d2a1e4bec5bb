"""Files as `hotset tune` writes them, and configurations of other packages."""

import json

OLD_EVOKE = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "spec_name": "EvokeOffloadingSpec",
        "spec_module_path": "evoke_vllm.spec",
        "cpu_bytes_to_use": 34359738368,
        "block_size": 256,
        "store_threshold": 2,
        "max_tracker_size": 5000,
        "offload_prompt_only": True,
        "evoke": {
            "w_recency": 0.4,
            "w_reuse": 0.6,
            "w_attention": 0.0,
            "recency_half_life": 64,
            "source_floors": {"system": 0.6, "user": 0.2},
        },
        "unheard_of": 1,
    },
}
OLD_MARCONI = {
    "kv_connector": "SimpleCPUOffloadConnector",
    "kv_connector_module_path": "vllm_marconi_offload",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "cpu_pool_path": "/dev/shm/l1",
        "cpu_bytes_to_use": 6442450944,
        "l2_pool_path": "/kvcache/l2",
        "l2_bytes_to_use": 322122547200,
        "eviction_policy": "marconi",
        "eviction_decay": 0.005,
        "eviction_reuse_mode": "linear",
        "admission_threshold": 1,
        "lazy_offload": False,
    },
}


TUNED_SSD = {
    "asked": "1TiB",
    "per_ram": 20.0,
    "writes_per_day": "2tb",
    "searched": ["ram_share", "mode", "min_count"],
    "mode": "demote",
    "min_count": 3,
    "cpu_blocks": 30,
    "cpu_bytes": 1 << 30,
    "blocks": 3000,
    "bytes": 100 << 30,
    "given_bytes": 40 << 30,
    "writes_per_day_bytes": 2 * 10**12,
}


def tuned_file(path, **changes):
    """Write a file with the keys that a server reads; return its name."""
    values = {
        "format": "hotset-tuned",
        "version": 1,
        "verdict": "deploy",
        "reason": "it gains much",
        "policy": {"name": "guard", "distance": 104, "growth": 5.22},
        "admission": {"name": "always"},
        "engine": {
            "name": changes.pop("engine", "none"),
            "chunk_tokens": changes.pop("chunk_tokens", 512),
        },
        "cpu": {"bytes": changes.pop("cpu_bytes", None)},
        **changes,
    }
    path.write_text(json.dumps(values))
    return str(path)
