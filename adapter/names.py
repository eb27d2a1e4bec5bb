"""Names under which vLLM finds our policies, known without loading any of them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

POLICY_MODULE = "hotset.adapter.policy"
SPEC_MODULE = "hotset.adapter.spec"
SPEC_NAME = "HotsetOffloadingSpec"


def policy_names() -> list[str]:
    """Return the registered policies, read from the list that registers them.

    Importing that list loads numba, and vLLM's CPU build cannot start in a process that
    has loaded llvmlite, so the list is parsed, not run.
    """
    found = importlib.util.find_spec("hotset.policies")
    if found is None or found.origin is None:
        return []
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    return [
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "SPEC"
        and isinstance(node.value, ast.Name)
    ]


def registered_name(policy: str) -> str:
    """Return the name that a policy has in vLLM's registry."""
    return f"hotset-{policy}"


def class_name(policy: str) -> str:
    """Return the name of a policy's class in `POLICY_MODULE`."""
    return f"Hotset{policy.capitalize()}Policy"
