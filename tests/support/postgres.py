"""A PostgreSQL server of the distribution's packages, for one test."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path


def programs():
    """The folder of the newest server's programs; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@contextlib.contextmanager
def server():
    """Start a server that listens in a folder of its own; yield its URL.

    PostgreSQL does not run as root, for whom the packages' own user stands in.
    """
    folder = Path(tempfile.mkdtemp(prefix="hotset-pg-", dir="/tmp"))
    as_user = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["runuser", "-u", "postgres", "--"]

    def call(program, *words):
        words = [*as_user, str(programs() / program), *map(str, words)]
        subprocess.run(words, check=True, cwd="/", stdout=subprocess.DEVNULL)

    data = folder / "data"
    try:
        call("initdb", "-D", data, "-U", "tester", "-A", "trust", "-N")
        only_here = f"-c listen_addresses= -c unix_socket_directories={folder}"
        call("pg_ctl", "-D", data, "-l", folder / "log", "-o", only_here, "-w", "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
