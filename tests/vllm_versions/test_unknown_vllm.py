"""A vLLM outside the supported range is refused in one line."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.vllm


@pytest.fixture
def compat():
    from hotset.adapter import compat

    return compat


@pytest.fixture
def manager():
    from hotset.adapter.manager import HotsetManager

    return HotsetManager


def refusal(compat, manager):
    from hotset.adapter.errors import AdapterError

    with pytest.raises(AdapterError) as raised:
        compat.refuse_unsupported(manager)
    (line,) = str(raised.value).splitlines()
    assert line.startswith("this vLLM is outside the supported range 0.22 to 0.33")
    return line


def test_this_vllm_is_supported(compat, manager):
    assert compat.missing_features(manager) == []
    compat.refuse_unsupported(manager)


def test_a_call_with_other_arguments(compat, manager, monkeypatch):
    def prepare_store(self, keys, requests, urgency):
        raise NotImplementedError

    monkeypatch.setattr(compat.base.OffloadingManager, "prepare_store", prepare_store)
    monkeypatch.delattr(compat.base.OffloadingManager, "touch")
    line = refusal(compat, manager)
    assert "OffloadingManager.prepare_store(keys, req_context)" in line
    assert "OffloadingManager.touch(keys, req_context)" in line


def test_a_call_that_we_do_not_know(compat, manager):
    class Wanting(manager):
        pass

    Wanting.__abstractmethods__ = frozenset({"prepare_swap"})
    assert "OffloadingManager.prepare_swap" in refusal(compat, Wanting)


@pytest.mark.parametrize("module", ["hotset.adapter.spec", "hotset.adapter.manager"])
def test_a_vllm_without_the_offloading_modules(module, tmp_path):
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("__version__ = '9.9'\n")
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import importlib, sys\n"
            "from hotset.adapter.errors import AdapterError\n"
            f"try: importlib.import_module({module!r})\n"
            "except AdapterError as error: print(error)\n",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("this vLLM is outside the supported range 0.22 to 0.33: ")
    assert "vllm.v1" in line
