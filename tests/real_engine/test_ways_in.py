"""The built wheel in a vLLM environment: entry points, the spec, vLLM's own manager."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.vllm_engine import BLOCK_BYTES, make_prompts
from support.wheel import install_wheel

pytestmark = pytest.mark.vllm

TESTS = Path(__file__).parent.parent
PROMPTS = make_prompts(120)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return install_wheel(tmp_path_factory.mktemp("wheel"))


def run(words, site, folder, stdin=""):
    """Run Python where the wheel, and no other copy of hotset, is found first."""
    path = os.pathsep.join([str(site), str(TESTS)])
    return subprocess.run(
        [sys.executable, *words],
        input=stdin,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def serve(engine, site, folder, **more):
    out = folder / "answer.json"
    job = json.dumps({"engine": engine, "prompts": PROMPTS, **more})
    done = run(["-m", "support.serve", str(out)], site, folder, job)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-6000:])
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def without_offload(site, tmp_path_factory):
    return serve({}, site, tmp_path_factory.mktemp("plain"))


def assert_served(served, without_offload, chunks):
    """The same tokens, after more stores than the tier holds, with loads."""
    assert served["outputs"] == without_offload["outputs"]
    counters = served["counters"]
    assert counters["vllm:kv_offload_store_bytes"] > 3 * chunks * BLOCK_BYTES
    assert counters["vllm:kv_offload_load_bytes"] > 0
    assert sum(served["cached"]) > sum(without_offload["cached"])


def test_the_wheel_is_what_runs_and_vllm_sees_its_plugin(site, tmp_path):
    code = (
        "import sys; from importlib.metadata import entry_points\n"
        "import hotset.adapter.plugin as plugin; print(plugin.__file__)\n"
        "(point,) = entry_points(group='vllm.general_plugins', name='hotset')\n"
        "print(point.value)\n"
        "print(*sorted(p.name for p in entry_points(group='hotset.commands')))\n"
        "from vllm.plugins import load_general_plugins\n"
        "load_general_plugins()\n"
        "from vllm.v1.kv_offload.factory import OffloadingSpecFactory as specs\n"
        "print(specs.get_spec_cls({'spec_name': 'HotsetOffloadingSpec'}).__module__)\n"
        "print([m for m in ('numba', 'llvmlite', 'pandas') if m in sys.modules])\n"
    )
    done = run(["-c", code], site, tmp_path)
    assert done.returncode == 0, done.stderr
    where, value, commands, spec, heavy = done.stdout.splitlines()[-5:]
    assert Path(where).is_relative_to(site)
    assert value == "hotset.adapter.plugin:register"
    assert {"replay", "trace"} <= set(commands.split())
    assert spec == "hotset.adapter.spec"
    assert heavy == "[]"


def test_the_spec_by_its_name_alone(site, without_offload, tmp_path):
    engine = {"chunks": 40, "by_name": True, "trusted_tags": True, "policy": "marconi"}
    served = serve(engine, site, tmp_path)
    assert_served(served, without_offload, 40)


@pytest.mark.parametrize("policy", ["hotset-marconi", "hotset-lru"])
def test_a_registered_policy_in_vllms_own_manager(
    policy, site, without_offload, tmp_path
):
    served = serve({"chunks": 40, "eviction_policy": policy}, site, tmp_path)
    assert_served(served, without_offload, 40)
    cls = {"hotset-marconi": "HotsetMarconiPolicy", "hotset-lru": "HotsetLruPolicy"}
    assert served["policies"] == [
        {"class": cls[policy], "resident": 40, "faults": 0, "invalid_tags": {}}
    ]


def test_a_policy_by_class_and_module_path(site, without_offload, tmp_path):
    """Clients send tags, good ones and wrong ones; every request is served."""
    engine = {
        "chunks": 40,
        "eviction_policy": "HotsetRelevancePolicy",
        "module_path": "hotset.adapter.policy",
    }
    tags = [
        {"hotset": {"priority": 2, "source_type": "user", "session": "s"}},
        {"hotset": {"priority": math.nan, "source_type": ["user"]}},
        {"evoke": {"priority": "high", "evoke_session": 3}},
        None,
        {"hotset": "priority"},
    ]
    served = serve(engine, site, tmp_path, tags=tags)
    assert_served(served, without_offload, 40)
    (policy,) = served["policies"]
    assert policy["class"] == "HotsetRelevancePolicy"
    wrong = len(PROMPTS) // len(tags)
    assert policy["invalid_tags"] == {
        "priority": 2 * wrong,
        "source_type": wrong,
        "hotset": wrong,
    }
