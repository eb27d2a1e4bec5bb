"""How fast traces are read, beside a bare loop of the JSON parser on the same file.

Run by `make bench`. Exits with 1 if reading takes more than six times the processor
time of the loop, which only parses and counts ids.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson

from hotset.traces.generate import generate
from hotset.traces.registry import read_trace
from hotset.traces.write import write_trace

NUM_COPIES = 12
NUM_RUNS = 5
MOST_TIMES_THE_LOOP = 6.0


def write_copies(path: Path) -> int:
    """Write a trace several times over with fresh ids; return its accesses."""
    shared = Path(__file__).resolve().parents[3] / "shared" / "traces"
    folder = Path(os.environ.get("HOTSET_TRACES", shared))
    source = folder / "mooncake_conversation.jsonl.gz"
    one = read_trace(source) if source.is_file() else generate("chat", 12_000, 0)
    single = path.with_suffix(".one.jsonl")
    write_trace(one, single)
    rows = [orjson.loads(line) for line in single.read_bytes().splitlines()]
    span_ms = 1000 * int(one.arrival_s[-1] + 1)
    with path.open("wb") as file:
        for copy in range(NUM_COPIES):
            for row in rows:
                moved = {
                    **row,
                    "timestamp": row["timestamp"] + copy * span_ms,
                    "hash_ids": [i + copy * one.num_blocks for i in row["hash_ids"]],
                }
                moved.pop("session_id", None)
                file.write(orjson.dumps(moved) + b"\n")
    return NUM_COPIES * one.num_accesses


def bare_loop(path: Path) -> int:
    """Parse every line and count its ids."""
    with path.open("rb") as file:
        return sum(len(orjson.loads(line)["hash_ids"]) for line in file)


def main() -> int:
    """Measure both in turns, and print medians."""
    loop_s, read_s = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        accesses = write_copies(path)
        for _ in range(NUM_RUNS):
            begin = time.process_time()
            assert bare_loop(path) == accesses
            middle = time.process_time()
            assert read_trace(path).num_accesses == accesses
            end = time.process_time()
            loop_s.append(middle - begin)
            read_s.append(end - middle)
    ratio = float(np.median(read_s) / np.median(loop_s))
    for name, times_s in (("bare loop of orjson", loop_s), ("read_trace", read_s)):
        speed = accesses / float(np.median(times_s)) / 1e6
        print(f"{name:20} {speed:6.1f} M accesses/s on one core")
    print(f"reading takes {ratio:.1f} times the loop, allowed {MOST_TIMES_THE_LOOP:g}")
    return int(ratio > MOST_TIMES_THE_LOOP)


if __name__ == "__main__":
    sys.exit(main())
