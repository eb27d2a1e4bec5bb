"""The plugin: names in vLLM's registries, whatever it finds there."""

import pytest
from support.trees import python

pytestmark = pytest.mark.vllm


def printed(done):
    """Lines of ours; some versions log to the standard output."""
    lines = done.stdout.splitlines()
    return [line[2:] for line in lines if line.startswith("> ")]


TWICE = "from hotset.adapter.plugin import register\nregister()\nregister()\n"
HEAVY = (
    "import sys\n"
    "print('>', [m for m in ('numba', 'llvmlite', 'pandas') if m in sys.modules])\n"
)
NAMES = (
    "from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory as names\n"
    "from hotset.policies import POLICIES\n"
    "for name in POLICIES.names():\n"
    "    cls = names.get_cache_policy_cls('hotset-' + name)\n"
    "    print('>', cls.__module__, cls.__name__, cls.text)\n"
)
SPEC = (
    "from vllm.v1.kv_offload.factory import OffloadingSpecFactory as specs\n"
    "print('>', specs._registry['HotsetOffloadingSpec']().__module__)\n"
)


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0", "0.33.0"])
def test_names_of_the_spec_and_of_every_policy(version, tmp_path):
    """Called twice; nothing heavy is loaded until a policy is asked for."""
    code = TWICE + HEAVY + SPEC + HEAVY + NAMES
    done = python(version, ["-c", code], tmp_path)
    heavy, spec, still, *policies = printed(done)
    assert heavy == still == "[]"
    assert spec == "hotset.adapter.spec"
    assert "hotset.adapter.policy HotsetMarconiPolicy marconi" in policies
    assert all(line.startswith("hotset.adapter.policy Hotset") for line in policies)
    assert "hotset:" not in done.stderr


def test_a_vllm_without_a_registry_of_policies(tmp_path):
    """0.24: its private table stays as it is, the spec has its name, no noise."""
    code = (
        TWICE
        + SPEC
        + HEAVY
        + "from vllm.v1.kv_offload.cpu.manager import _CACHE_POLICIES\n"
        + "print('>', sorted(_CACHE_POLICIES))\n"
    )
    done = python("0.24.0", ["-c", code], tmp_path)
    assert printed(done) == ["hotset.adapter.spec", "[]", "['arc', 'lru']"]
    assert "hotset:" not in done.stderr


def test_names_that_are_taken_stay_with_their_owners(tmp_path):
    code = (
        "from vllm.v1.kv_offload.factory import OffloadingSpecFactory as specs\n"
        "specs.register_spec('HotsetOffloadingSpec', 'json', 'JSONDecoder')\n"
        "from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory as n\n"
        "n.register_cache_policy('hotset-lru', 'json', 'JSONEncoder')\n"
        + TWICE
        + "print('>', n.get_cache_policy_cls('hotset-lru').__name__)\n"
        "print('>', n.get_cache_policy_cls('hotset-fifo').__name__)\n"
    )
    done = python("0.32.0", ["-c", code], tmp_path)
    assert printed(done) == ["JSONEncoder", "HotsetFifoPolicy"]
    said = [line for line in done.stderr.splitlines() if "hotset:" in line]
    assert len(said) == 2, said
    assert "the name 'HotsetOffloadingSpec' is left to whoever took it" in said[0]
    assert "the name 'hotset-lru' is left to whoever took it" in said[1]


@pytest.mark.parametrize(
    "missing",
    [
        "vllm.v1.kv_offload.factory",
        "vllm.v1.kv_offload",
        "vllm",
    ],
)
def test_a_vllm_that_lacks_everything(missing, tmp_path):
    """Said once for each thing that is lost; never raised."""
    code = f"import sys\nsys.modules[{missing!r}] = None\n" + TWICE + "print('> on')\n"
    done = python("0.32.0", ["-c", code], tmp_path)
    assert printed(done) == ["on"]
    said = [line for line in done.stderr.splitlines() if "hotset:" in line]
    assert len(said) == 1, said
    assert "names are not registered in this vLLM" in said[0]


def test_registries_that_changed(tmp_path):
    """A registry with other methods is a warning, not an engine that does not start."""
    code = (
        "from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory as n\n"
        "del n.register_cache_policy\n" + TWICE + SPEC
    )
    done = python("0.32.0", ["-c", code], tmp_path)
    assert printed(done) == ["hotset.adapter.spec"]
    said = [line for line in done.stderr.splitlines() if "hotset:" in line]
    assert len(said) == 1, said
