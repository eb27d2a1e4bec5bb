"""One real engine in a process of its own, and hotset's command line beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
# The command line needs what vLLM's environment does not have.
CORE_PYTHON = os.environ.get("HOTSET_CORE_PYTHON", TESTS.parent / ".venv/bin/python")

_MAIN = "from hotset.sim.cli import main; main()"


def start(engine, folder, prompts, **job):
    """Serve prompts in a new process; return its answer, or fail with its log."""
    out = folder / "answer.json"
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "support.serve", str(out)],
        input=json.dumps({"engine": engine, "prompts": prompts, **job}),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-6000:])
    return {**json.loads(out.read_text()), "log": done.stdout + done.stderr}


def run_hotset(*words):
    """Run hotset's command line; return the process that ended."""
    return subprocess.run(
        [str(CORE_PYTHON), "-c", _MAIN, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def hotset(*words):
    """Run hotset's command line; return what it prints."""
    done = run_hotset(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
