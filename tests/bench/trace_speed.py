"""How fast traces are read, beside a bare loop of the JSON parser on the same file.

Run by `make bench`. Exits with 1 if reading takes more than so many times the processor
time of the loop, which only parses and counts ids.
"""

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from hotset.traces.generate import generate
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.registry import read_trace

NUM_RUNS = 5
NUM_SESSIONS = 997
# A prompt of 512 tokens is 32 blocks of 16: these many of each are enough here.
NUM_SMALL_BLOCKS = 8

Row = dict[str, Any]


class Kind(NamedTuple):
    """Rows of one form."""

    name: str
    make: Callable[[int, Row], Row]
    most_times_the_loop: float
    format: str = "mooncake"
    ids: str = "hash_ids"
    options: ReadOptions = ReadOptions()
    num_copies: int = 4


def sessions(at: int, row: Row) -> Row:
    return {**row, "session_id": f"{at % NUM_SESSIONS:08x}-4bbb-9ccc"}


def delays(at: int, row: Row) -> Row:
    made = {**row, "session_id": at % NUM_SESSIONS}
    if at >= NUM_SESSIONS:
        made["delay"] = made.pop("timestamp") % 1000
    return made


def more_fields(at: int, row: Row) -> Row:
    return {**row, "model": "m-70b", "at": "2024-01-01T10:00:00Z", "ok": True, "n": -at}


def bailian(at: int, row: Row) -> Row:
    small = range(NUM_SMALL_BLOCKS)
    ids = [i * NUM_SMALL_BLOCKS + k for i in row["hash_ids"] for k in small]
    ids[7::16] = [7] * len(ids[7::16])  # a block's content that comes again
    return {
        "chat_id": at,
        "parent_chat_id": at - 1 if at % 3 else -1,
        "timestamp": row["timestamp"] / 1000,
        "input_length": 16 * len(ids),
        "output_length": row["output_length"],
        "type": "text",
        "turn": 1 + at % 3,
        "hash_ids": ids,
    }


def generic(at: int, row: Row) -> Row:
    made = {"time": row["timestamp"], "input": row["input_length"]}
    return {**made, "output": row["output_length"], "ids": row["hash_ids"]}


DECLARED = ReadOptions(time_unit="ms", block_tokens=512, chained=True)
KINDS = (
    Kind("mooncake", lambda _, row: row, 6),
    Kind("mooncake, sessions", sessions, 6),
    Kind("mooncake, delays", delays, 6.5),
    Kind("mooncake, more fields", more_fields, 6),
    Kind("qwen-bailian", bailian, 10, "qwen-bailian", num_copies=1),
    # Blocks behind parents are found in a hash table, which leaves the caches.
    Kind("qwen-bailian, longer", bailian, 18, "qwen-bailian"),
    Kind("jsonl", generic, 6, "jsonl", "ids", DECLARED),
)


def rows_of(trace: Trace, num_copies: int) -> Iterator[Row]:
    """Yield a trace's rows several times over, with fresh ids each time."""
    span_ms = 1000 * int(trace.arrival_s[-1] + 1)
    ids = trace.block_ids.tolist()
    bounds = list(itertools.pairwise(trace.request_offsets.tolist()))
    columns = (trace.arrival_s, trace.input_tokens, trace.output_tokens)
    for copy in range(num_copies):
        shift = copy * trace.num_blocks
        for (begin, end), arrival_s, tokens, output_tokens in zip(
            bounds, *(column.tolist() for column in columns), strict=True
        ):
            yield {
                "timestamp": int(1000 * arrival_s) + copy * span_ms,
                "input_length": tokens,
                "output_length": output_tokens,
                "hash_ids": [i + shift for i in ids[begin:end]],
            }


def bare_loop(path: Path, ids: str) -> int:
    """Parse every line and count its ids."""
    with path.open("rb") as file:
        return sum(len(orjson.loads(line)[ids]) for line in file)


def measure(kind: Kind, trace: Trace, path: Path) -> float:
    """Measure both in turns and print medians; return reading over the loop."""
    with path.open("wb") as file:
        for at, row in enumerate(rows_of(trace, kind.num_copies)):
            file.write(orjson.dumps(kind.make(at, row)) + b"\n")
    loop_s, read_s = [], []
    for _ in range(NUM_RUNS):
        begin = time.process_time()
        accesses = bare_loop(path, kind.ids)
        middle = time.process_time()
        found = read_trace(path, kind.format, options=kind.options)
        end = time.process_time()
        assert found.num_accesses == accesses
        loop_s.append(middle - begin)
        read_s.append(end - middle)
    loop, read = (float(np.median(times_s)) for times_s in (loop_s, read_s))
    print(
        f"{kind.name:22} {accesses / loop / 1e6:8.1f} {accesses / read / 1e6:8.1f} "
        f"{read / loop:8.1f} {kind.most_times_the_loop:8.1f}"
    )
    return read / loop


def main() -> int:
    """Measure each kind of row."""
    os.environ["HOTSET_TRACE_CACHE"] = "off"
    shared = Path(__file__).resolve().parents[3] / "shared" / "traces"
    folder = Path(os.environ.get("HOTSET_TRACES", shared))
    source = folder / "mooncake_conversation.jsonl.gz"
    trace = read_trace(source) if source.is_file() else generate("chat", 12_000, 0)
    print("M accesses/s on one core; reading over the loop, and how much is allowed")
    print(f"{'rows':22} {'orjson':>8} {'read':>8} {'times':>8} {'allowed':>8}")
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "trace.jsonl"
        missed = [
            kind.name
            for kind in KINDS
            if measure(kind, trace, path) > kind.most_times_the_loop
        ]
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
