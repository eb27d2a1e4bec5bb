"""Files of `hotset tune` as far as a server reads them."""

import json


def tuned(policy, admission="always", verdict="deploy", **more):
    """Content of a file that asks for a policy and a rule."""
    return json.dumps(
        {
            "format": "hotset-tuned",
            "version": 1,
            "verdict": verdict,
            "reason": "a test",
            "policy": policy,
            "admission": admission,
            "engine": {"name": "vllm-0.32", "chunk_tokens": 32},
            "cpu": {"bytes": None},
            **more,
        }
    )
