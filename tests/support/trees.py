"""Python processes with one of several versions of vLLM.

The environment's own vLLM is the CPU build that runs. Others are wheels that `make
test` unpacks into ``build/vllm/VERSION``: their Python part runs with the dependencies
of the installed one.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
TREES = Path(os.environ.get("HOTSET_VLLM_TREES", TESTS.parent / "build" / "vllm"))
INSTALLED = "0.32.0"


def python(version, words, folder, stdin="", **variables):
    """Run Python with a vLLM on the path; return its output, or fail with its log."""
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    if version != INSTALLED:
        tree = TREES / version
        if not (tree / "vllm").is_dir():
            raise FileNotFoundError(
                f"no vLLM {version} at {tree}: make test unpacks it"
            )
        path.insert(0, str(tree))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        input=stdin,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-6000:])
    return done
