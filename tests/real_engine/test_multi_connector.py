"""hotset's spec in one slot of vLLM's MultiConnector, a store on disk in the other."""

import pytest
from support.engine_process import start
from support.vllm_engine import make_prompts

pytestmark = pytest.mark.vllm

PROMPTS = make_prompts(100)


def test_beside_another_connector(tmp_path):
    """The same tokens, loads from the spec's tier, and stores in both."""
    plain = start({}, tmp_path, PROMPTS)
    store = tmp_path / "store"
    disk = {
        "kv_connector": "ExampleConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"shared_storage_path": str(store)},
    }
    served = start(
        {"chunks": 40, "policy": "marconi", "beside": disk}, tmp_path, PROMPTS
    )
    assert served["outputs"] == plain["outputs"]
    assert sum(served["cached"]) > sum(plain["cached"])
    assert served["counters"]["vllm:kv_offload_load_bytes"] > 0
    assert any(store.iterdir())
