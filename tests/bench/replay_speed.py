"""Figures of the replay command beside those of a peer, measured in one run.

Prints a table and exits with code 1 only if a ratio between things that ran here is
below its bar. Absolute times are aims and are reported only.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hotset.policies import ADMISSIONS, POLICIES
from hotset.sim.engines import engine
from hotset.sim.mrc import lru_curve
from hotset.sim.replay import Replay, RunConfig
from hotset.sim.workload import Workload
from hotset.traces.model import Trace
from hotset.traces.registry import read_trace

ROOT = Path(__file__).parents[2]
TRACES = Path(os.environ.get("HOTSET_TRACES", ROOT.parent / "shared" / "traces"))
HOTSET = Path(sys.executable).with_name("hotset")
COPIES = 40
ROUNDS = 5
# Block hits of LRU without and with the prefix rule are the same where ids are
# chained; libCacheSim counts misses by access, in order, without protecting requests.
CAPACITY = 18_279
BAR_LRU = 8.0
BAR_CURVE = 3.0  # runs of libCacheSim's LRU that the whole curve may take


def command_s(*arguments: str, **settings: Any) -> float:
    """Wall time of one run of the program, seconds."""
    start = time.perf_counter()
    subprocess.run(
        [str(HOTSET), *arguments], check=True, stdout=subprocess.DEVNULL, **settings
    )
    return time.perf_counter() - start


def start_up(table: Table) -> None:
    """Time the program's help, and the first and the second replay of the sample."""
    command_s("--help")
    helps = statistics.median(command_s("--help") for _ in range(ROUNDS))
    table.add_row("hotset --help", f"{helps:.2f} s", "aim 0.5 s", "")
    with tempfile.TemporaryDirectory() as cache:
        cold = {**os.environ, "NUMBA_CACHE_DIR": cache}
        replay = ["replay", "sample", "--policy=lru", "--capacity=5%"]
        first = command_s(*replay, env=cold)
        second = statistics.median(command_s(*replay, env=cold) for _ in range(ROUNDS))
    table.add_row("first replay of the sample", f"{first:.2f} s", "aim 15 s", "")
    table.add_row("second replay of the sample", f"{second:.2f} s", "aim 2 s", "")


def repeated(trace: Trace, copies: int) -> Trace:
    """Return a trace several times over, each time with fresh ids."""
    count, accesses = trace.num_blocks, trace.num_accesses
    span_s = trace.arrival_s[-1] + 1.0
    return Trace(
        block_tokens=trace.block_tokens,
        request_offsets=np.concatenate(
            [[0], *(trace.request_offsets[1:] + i * accesses for i in range(copies))]
        ),
        block_ids=np.concatenate([trace.block_ids + i * count for i in range(copies)]),
        arrival_s=np.concatenate([trace.arrival_s + i * span_s for i in range(copies)]),
        input_tokens=np.tile(trace.input_tokens, copies),
        output_tokens=np.tile(trace.output_tokens, copies),
        session=np.full(trace.num_requests * copies, -1, np.int64),
        provenance=trace.provenance,
    )


def replay_s(workload: Workload, policy: str) -> tuple[float, int]:
    """Seconds of one replay, set-up left out, and its block hits."""
    spec, params = POLICIES.parse(policy)
    admission, admission_params = ADMISSIONS.parse("always")
    replay = Replay(
        workload,
        RunConfig(spec, params, admission, admission_params, CAPACITY, engine("none")),
    )
    start = time.perf_counter()
    result = replay.run()
    return time.perf_counter() - start, result.hit_blocks


def curve_s(workload: Workload) -> tuple[float, int]:
    """Seconds of the LRU curve at all capacities, and its block hits at one."""
    start = time.perf_counter()
    curve = lru_curve(workload)
    return time.perf_counter() - start, int(curve.counts(CAPACITY)["hit_blocks"])


def peer(workload: Workload, folder: Path) -> Callable[[str], tuple[float, int]]:
    """Return a function that replays the same accesses under a libCacheSim policy."""
    import libcachesim

    record = [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]
    rows = np.zeros(len(workload.blocks.ids), record)
    rows["id"], rows["size"], rows["next"] = workload.blocks.ids, 1, -2
    file = folder / "accesses.oracleGeneral.bin"
    rows.tofile(file)
    kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
    reader = libcachesim.TraceReader(str(file), kind)

    def run(name: str) -> tuple[float, int]:
        reader.reset()
        cache = getattr(libcachesim, name)(CAPACITY)
        start = time.perf_counter()
        miss_ratio, _ = cache.process_trace(reader)
        seconds = time.perf_counter() - start
        return seconds, round((1 - miss_ratio) * len(rows))

    return run


def side_by_side(table: Table) -> list[str]:
    """Time LRU here and in libCacheSim, alternating; return the bars missed."""
    trace = repeated(read_trace(TRACES / "mooncake_conversation.jsonl.gz"), COPIES)
    workload = Workload(trace, "count")
    accesses = len(workload.blocks.ids)
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        theirs = peer(workload, Path(folder))
        ours_s, theirs_s, curves_s = [], [], []
        replay_s(workload, "lru")
        curve_s(workload)
        for _ in range(ROUNDS):
            seconds, hits = replay_s(workload, "lru")
            ours_s.append(seconds)
            assert hits == 3_218_640, hits
            seconds, hits = curve_s(workload)
            curves_s.append(seconds)
            assert hits == 3_218_640, hits
            seconds, hits = theirs("LRU")
            theirs_s.append(seconds)
            assert hits == 3_212_920, hits
    rate = accesses / statistics.median(ours_s) / 1e6
    their_rate = accesses / statistics.median(theirs_s) / 1e6
    ratio = rate / their_rate
    table.add_row("libCacheSim LRU", f"{their_rate:.1f} M accesses/s", "", "")
    table.add_row(
        "hotset lru", f"{rate:.1f} M accesses/s", f"bar {BAR_LRU:g}", f"{ratio:.1f} x"
    )
    if ratio < BAR_LRU:
        missed.append(f"lru: {ratio:.1f} x libCacheSim, the bar is {BAR_LRU:g}")
    runs = statistics.median(curves_s) / statistics.median(theirs_s)
    table.add_row(
        "LRU curve, all capacities",
        f"{statistics.median(curves_s):.2f} s",
        f"bar {BAR_CURVE:g} runs, aim 1",
        f"the time of {runs:.2f} runs",
    )
    if runs > BAR_CURVE:
        missed.append(f"curve: the time of {runs:.2f} runs, the bar is {BAR_CURVE:g}")
    for policy in ("fifo", "marconi", "relevance", "belady"):
        replay_s(workload, policy)
        seconds, hits = replay_s(workload, policy)
        rate = accesses / seconds / 1e6
        table.add_row(
            f"hotset {policy}",
            f"{rate:.1f} M accesses/s",
            "",
            f"{rate / their_rate:.1f} x",
        )
    return missed


def main() -> None:
    """Measure, print, and judge the ratios."""
    table = Table(
        "what", "measured", "aim or bar", "ratio to libCacheSim LRU", box=None
    )
    start_up(table)
    missed = []
    if TRACES.is_dir():
        missed = side_by_side(table)
    else:
        table.add_row("replay", f"no public traces at {TRACES}", "", "")
    Console(width=110).print(table)
    print(json.dumps({"bars_missed": missed}))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
