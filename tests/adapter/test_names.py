"""Names are read from the list of policies without loading a policy."""

import subprocess
import sys

from hotset.adapter.names import class_name, policy_names, registered_name
from hotset.policies import POLICIES


def test_the_names_are_those_of_the_registry():
    assert policy_names() == POLICIES.names()


def test_every_policy_has_names_of_its_own():
    for name_of in (class_name, registered_name):
        assert len({name_of(policy) for policy in POLICIES.names()}) == len(
            POLICIES.names()
        )
    assert class_name("marconi") == "HotsetMarconiPolicy"
    assert registered_name("marconi") == "hotset-marconi"


def test_reading_them_loads_nothing_heavy():
    code = (
        "import sys; from hotset.adapter.names import policy_names\n"
        "import hotset.adapter.plugin\n"
        "assert 'lru' in policy_names()\n"
        "print([m for m in ('numpy', 'numba', 'vllm', 'torch') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
