"""Every reader under a coverage-guided fuzzer: a trace or one clear error, in time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
FULL_SECONDS = 60
# A single input may not take longer; libFuzzer ends the run then. It counts time on
# the clock, of which a busy machine may take much.
INPUT_SECONDS = 120
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
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "support.fuzz_reader", name, tmp_path / "corpus"),
            *(f"-max_total_time={seconds}", f"-seed={campaign.seed + 1}"),
            *(f"-timeout={INPUT_SECONDS}", "-rss_limit_mb=4096", "-max_len=8192"),
            f"-artifact_prefix={tmp_path}/",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=20 * seconds + 300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    done = re.search(r"Done (\d+) runs in", ran.stderr)
    assert done is not None and int(done[1]) > 0, ran.stderr[-4000:]
