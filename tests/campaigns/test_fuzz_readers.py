"""Every reader under a coverage-guided fuzzer: a trace or one clear error, in time."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
FULL_SECONDS = 60
# A single input may not take longer; libFuzzer ends the run then. It counts time on
# the clock, of which a busy machine may take much.
INPUT_SECONDS = 120
END_S = 10
DONE = re.compile(r"Done (\d+) runs in")
FILES = [
    *("jsonl", "csv", "mooncake", "bailian", "conversation", "tar", "chat"),
    *("sharegpt", "burstgpt", "azure", ".jsonl.gz", ".jsonl.zst", ".parquet"),
    "recording",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_nothing_but_a_trace_or_a_clear_error(name, campaign, tmp_path):
    # Broken input by hypothesis, tests/traces/test_broken_input.py, runs everywhere.
    pytest.importorskip("atheris", reason="atheris has no wheel for this Python")
    seconds = campaign.share(FULL_SECONDS)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    log = tmp_path / "log"
    with log.open("w") as out:
        fuzzer = subprocess.Popen(
            [
                *(sys.executable, "-m", "support.fuzz_reader"),
                *(name, tmp_path / "corpus"),
                *(f"-max_total_time={seconds}", f"-seed={campaign.seed + 1}"),
                *(f"-timeout={INPUT_SECONDS}", "-rss_limit_mb=4096", "-max_len=8192"),
                f"-artifact_prefix={tmp_path}/",
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            stdout=out,
            stderr=out,
        )
    code = ended(fuzzer, log, 20 * seconds + 300)
    assert code == 0, log.read_text()[-4000:]
    done = DONE.search(log.read_text())
    assert done is not None and int(done[1]) > 0, log.read_text()[-4000:]


def ended(fuzzer, log, limit_s):
    """Return the exit code of a fuzzer, 0 where it has said that all runs are done.

    atheris leaves with Python's lock held; a thread of pyarrow that waits for it to let
    its last buffer go is waited for in turn, so that the process may never end.
    """
    until_s = time.monotonic() + limit_s
    while fuzzer.poll() is None:
        is_done = DONE.search(log.read_text()) is not None
        if is_done or time.monotonic() > until_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return fuzzer.wait(END_S)
            fuzzer.kill()
            return 0 if is_done and fuzzer.wait() == -signal.SIGKILL else "no end"
        time.sleep(0.1)
    return fuzzer.returncode
