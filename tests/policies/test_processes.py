"""Kernels in processes of their own: the compile cache, plain Python, hash seeds."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotset.policies import driver, fifo, jit, lru, sources, verbs
from hotset.sim import loop
from hotset.traces import model

SCRIPT = Path(__file__).with_name("replay_everything.py")
PACKAGES = {
    "policies": Path(lru.__file__).parent,
    "sim": Path(loop.__file__).parent,
    "traces": Path(model.__file__).parent,
}


def run(folder, *policies, **environment):
    """Run the script in a folder; returns what it printed and what it logged."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *policies],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_second_process_hits_the_compile_cache(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first = json.loads(run(tmp_path, "lru", **cache)[0])
    second = json.loads(run(tmp_path, "lru", **cache)[0])
    assert first["cache"] == {"hits": 0, "misses": 1}
    assert second["cache"] == {"hits": 1, "misses": 0}
    assert first["results"] == second["results"]
    assert list(tmp_path.glob("hotset/*/*.replay_plain-*.nbc"))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    # Below a file no folder can be made, whoever runs the tests.
    (tmp_path / "file").write_text("")
    text, log = run(tmp_path, "lru", NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert json.loads(text)["cache"]["hits"] == 0
    assert log.count("no folder for compiled kernels can be written") == 1
    assert len(log.splitlines()) == 1


def test_an_edited_kernel_is_compiled_anew(tmp_path):
    """Its callers too, though their own files are as they were."""
    for name, source in PACKAGES.items():
        shutil.copytree(
            source,
            tmp_path / "hotset" / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    environment = {
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])
        ),
    }
    before = json.loads(run(tmp_path, "fifo", **environment)[0])["results"][0]
    linked = tmp_path / "hotset" / "policies" / "linked.py"
    text = linked.read_text()
    # Blocks stored together then leave head first, which costs hits.
    edited = text.replace(
        "for i in range(slots.shape[0] - 1, -1, -1):", "for i in range(slots.shape[0]):"
    )
    assert text.count("range(slots.shape[0] - 1, -1, -1)") == 1
    linked.write_text(edited)
    after = json.loads(run(tmp_path, "fifo", **environment)[0])
    assert after["cache"] == {"hits": 0, "misses": 1}
    assert after["results"][0]["hit_blocks"] < before["hit_blocks"]


OUTSIDER = """
from typing import NamedTuple

import numpy as np

from hotset.policies import PolicySpec
from hotset.policies.base import Params
from hotset.policies.driver import PolicyDriver
from hotset.policies.jit import kernel
from hotset.policies.verbs import Kernels, register_kernels


class State(NamedTuple):
    nothing: np.ndarray


@kernel
def select(state, n, blocked, now, out):
    out[0] = FIRST
    return 1


register_kernels(State, Kernels(select=select))
spec = PolicySpec("mine", "", Params, lambda *_: State(np.zeros(1, np.int64)))
driver = PolicyDriver(spec, Params(), 3)
driver.complete(driver.offer(driver.begin(), [7, 8, 9]).keys)
print(driver.evict(1), driver.num_faults)
"""


def test_an_edited_policy_of_another_package_is_compiled_anew(tmp_path):
    """The cached callers of its kernels stand beside hotset's own sources."""
    victims = []
    for first in ("0", "0", "2"):
        script = tmp_path / "mine.py"
        script.write_text(OUTSIDER.replace("FIRST", first))
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stderr
        victims.append(done.stdout)
    assert victims == ["[7] 0\n", "[7] 0\n", "[9] 0\n"]


def test_a_file_edited_under_a_process_leaves_no_stale_entry(tmp_path):
    """What runs is the text that was imported, not the one on disk by then."""
    head, tail = OUTSIDER.split("spec = ", 1)
    (tmp_path / "choice.py").write_text(head.replace("FIRST", "0"))
    script = tmp_path / "mine.py"
    script.write_text(
        "import os, pathlib\n"
        "from choice import *\n"
        "choice = pathlib.Path(__file__).with_name('choice.py')\n"
        "choice.write_text(choice.read_text().replace('= 0', os.environ['CHOICE']))\n"
        f"spec = {tail}"
    )
    victims = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-B", str(script)],
            env={
                **os.environ,
                "CHOICE": "= 2",
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            },
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stderr
        victims.append(done.stdout)
    assert victims == ["[7] 0\n", "[9] 0\n"]


def test_the_digest_follows_every_source_beside_a_file_of_another_package(tmp_path):
    def digest():
        sources._read.cache_clear()
        return sources.digest_of.__wrapped__(frozenset({str(tmp_path / "a.py")}))

    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.py").write_text("y = 1\n")
    seen = {digest()}
    for change in ("y = 2\n", "y = 1 \n", ""):
        (tmp_path / "b.py").write_text(change)
        seen.add(digest())
    (tmp_path / "c.py").write_text("")
    seen.add(digest())
    (tmp_path / "b.py").rename(tmp_path / "d.py")
    seen.add(digest())
    (tmp_path / "d.py").write_text("from hotset.policies.heap import Heap\n")
    seen.add(digest())
    assert len(seen) == 7
    (tmp_path / "notes.txt").write_text("no source")
    assert digest() in seen


def test_sources_are_what_a_module_imports():
    def names(module):
        return {name for name, _ in sources._all_sources([module.__file__])}

    found = names(fifo)
    assert {"policies/fifo.py", "policies/lru.py", "policies/heap.py"} <= found
    assert not {"policies/marconi.py", "policies/__init__.py"} & found
    # Names in parentheses, and a module imported as a name of its package.
    assert {"policies/slots.py", "policies/verbs.py"} <= names(loop)
    assert "policies/request.py" in names(driver)


def test_a_state_depends_on_the_sources_of_its_kernels():
    """Wherever the state's class itself stands."""
    for state_type, files in jit._KERNEL_FILES.items():
        for function in vars(verbs._KERNELS[state_type]).values():
            code = getattr(function, "py_func", function).__code__
            assert code.co_filename in files
    assert len(jit._KERNEL_FILES) > 8


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What the compiled kernels print for every policy."""
    return run(tmp_path_factory.mktemp("compiled"), PYTHONHASHSEED="0")[0]


def test_the_hash_seed_changes_no_byte(compiled, tmp_path):
    other = run(tmp_path, PYTHONHASHSEED="12345")[0]
    results = [json.loads(text)["results"] for text in (compiled, other)]
    assert results[0] == results[1]
    # The first process may have compiled; with that apart, byte by byte.
    assert compiled.partition('"cache"')[0] == other.partition('"cache"')[0]


def test_plain_python_gives_the_same_results(compiled, tmp_path):
    plain = json.loads(run(tmp_path, NUMBA_DISABLE_JIT="1")[0])
    mine = json.loads(compiled)
    for got, expected in zip(plain["results"], mine["results"], strict=True):
        assert got == expected, expected["label"]
    assert len(mine["results"]) >= 12
    assert sum(result["evictions"] > 0 for result in mine["results"]) >= 10


def test_the_name_of_a_type_holds_the_sources_of_states_within(monkeypatch):
    """A state that wraps another one reaches the kernels of both."""
    import numba
    import numpy as np

    from hotset.policies.heap import Heap, make_heap
    from hotset.policies.lru import Lru33State

    state = Lru33State(make_heap(2), np.zeros(2), np.zeros(2), np.zeros(1))
    monkeypatch.setattr(jit, "_sources_of", lambda made: f"<{made.__name__}>")
    name = jit._type_name(numba.typeof(state))
    assert "<Lru33State>" in name
    assert f"<{Heap.__name__}>" in name


def test_a_class_without_a_file_is_never_found_again(monkeypatch):
    digest = jit._sources_of.__wrapped__
    monkeypatch.setattr(jit.inspect, "getfile", lambda made: "<stdin>")
    assert digest(int) != digest(int)
