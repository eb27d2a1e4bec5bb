"""The project's wheel, built from a copy and installed into a folder of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def pip(*words, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install_wheel(folder):
    """Build the wheel, install it without dependencies; return where it lies."""
    source = folder / "source"
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    # The environment's own setuptools: tests download nothing.
    offline = ["--quiet", "--no-deps", "--no-index"]
    wheels, site = folder / "wheels", folder / "site"
    pip("wheel", *offline, "--no-build-isolation", "-w", wheels, source, cwd=folder)
    (wheel,) = wheels.glob("hotset-*.whl")
    pip("install", *offline, "--target", site, wheel, cwd=folder)
    return site
