"""Dependencies between the packages point one way; heavy imports wait."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "policies": {"policies"},
    "traces": {"traces"},
    "sim": {"sim", "policies", "traces"},
    "adapter": {"adapter", "policies", "traces.record", "traces.metric_names"},
}
FOREIGN = {
    "policies": {"numpy", "numba"},
    "traces": {"numpy", "pandas", "pyarrow", "orjson", "zstandard", "typer", "rich"}
    | {"tokenizers"},
    "sim": {"numpy", "pandas", "simpy", "optuna", "typer", "rich", "matplotlib"}
    | {"sqlalchemy", "ray"},  # optuna brings along the first
    "adapter": {"numpy", "numba", "typer", "rich", "vllm", "torch"}
    | {"xxhash"},  # the extra `ssd`; zlib without it
}
MODULES = sorted(path for package in ALLOWED for path in (ROOT / package).rglob("*.py"))


@functools.cache
def imports(path):
    """Return every module that a file imports, wherever the statement stands."""
    return list(_imports(path))


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_one_way(path):
    package = path.relative_to(ROOT).parts[0]
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "hotset":
            assert any(
                rest == allowed or rest.startswith(f"{allowed}.")
                for allowed in ALLOWED[package]
            ), f"{path} imports {name}"
        elif top not in sys.stdlib_module_names:
            assert top in FOREIGN[package], f"{path} imports {name}"


def test_the_ssd_cache_knows_no_vllm():
    """What is in it but for the tier's own modules, which vLLM calls."""
    for path in sorted((ROOT / "adapter" / "ssd").glob("*.py")):
        if path.name.startswith(("tier", "vllm_")):
            continue
        for name in imports(path):
            assert not name.startswith(("vllm", "torch")), f"{path} imports {name}"
            assert not name.startswith("hotset.adapter.compat"), path
            assert name not in ("pickle", "marshal", "shelve"), f"{path}: {name}"


def test_plots_are_imported_by_commands_only():
    users = [path for path in MODULES if "hotset.sim.plots" in set(imports(path))]
    names = ("commands.py", "curve_commands.py", "page.py", "plots_page.py")
    names += ("plots_regimes.py",)
    names += ("plots_simulate.py", "plots_size.py", "plots_tune.py")
    names += ("regimes_commands.py", "simulate_commands.py", "size_commands.py")
    names += ("tune_session.py",)
    assert users == [ROOT / "sim" / name for name in names]
    of_one = {"plots_tune": "tune_session", "plots_simulate": "simulate_commands"}
    for name, user in of_one.items():
        users = [path for path in MODULES if f"hotset.sim.{name}" in set(imports(path))]
        assert users == [ROOT / "sim" / f"{user}.py"]
    of_two = {
        "plots_page": ["page_hits", "page_times"],
        "plots_regimes": ["page_places", "regimes_commands"],
        "plots_size": ["page_places", "size_commands"],
    }
    for name, pair in of_two.items():
        users = [path for path in MODULES if f"hotset.sim.{name}" in imports(path)]
        assert [path.stem for path in users] == pair
    users = [path for path in MODULES if "matplotlib" in set(imports(path))]
    assert users == [ROOT / "sim" / "plots.py"]


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("hotset.policies", "torch vllm pandas pyarrow matplotlib typer rich optuna"),
        ("hotset.policies.driver", "torch vllm pandas pyarrow matplotlib typer rich"),
        ("hotset.sim.cli", "numba numpy pandas pyarrow matplotlib optuna simpy"),
        ("hotset.sim.commands", "numba numpy pandas pyarrow matplotlib optuna simpy"),
        (
            "hotset.sim.simulate_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.adapter.gate_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy torch vllm",
        ),
        (
            "hotset.sim.curve_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.sim.compare_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.sim.page_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.sim.regimes_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.sim.tune_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy",
        ),
        (
            "hotset.adapter.export_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy vllm torch",
        ),
        ("hotset.traces.commands", "numba numpy pandas pyarrow matplotlib"),
        ("hotset.sim.replay", "matplotlib optuna simpy torch"),
        (
            "hotset.adapter.ssd_commands",
            "numba numpy pandas pyarrow matplotlib optuna simpy torch vllm",
        ),
        ("hotset.adapter.ssd.cache", "torch vllm pandas pyarrow matplotlib typer rich"),
    ],
)
def test_heavy_imports_wait(module, unwanted):
    code = (
        f"import sys, {module}\n"
        f"print(*[name for name in {unwanted.split()} if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == []


def test_a_new_policy_is_one_file_and_one_line():
    """Nothing but the list in `policies/__init__.py` names a policy's module."""
    for path in MODULES:
        if path.name == "__init__.py" or path.parent.name != "policies":
            continue
        for name in imports(path):
            if name in ("hotset.policies.marconi", "hotset.policies.relevance"):
                raise AssertionError(f"{path} imports {name}")
