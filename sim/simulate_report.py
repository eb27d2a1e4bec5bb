"""Simulations as text for the terminal, and their requests as a file of columns."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.policies.errors import PolicyError
from hotset.sim.report import percent, print_whole_table
from hotset.sim.simulate import Run, SimulationResult
from hotset.traces.files import atomic_write

ENDINGS = (".csv", ".parquet")


def print_simulations(result: SimulationResult, console: Console) -> None:
    """Print one line on the machine and a table of the runs."""
    plan, spec, trace = result.plan, result.spec, result.trace
    about = (
        f"{trace.provenance.path}: {trace.num_requests:,} requests on "
        f"{plan.profile.name}" + (" (estimated)" if plan.profile.is_estimated else "")
    )
    console.print(Text(about), soft_wrap=True)
    notes = [
        f"engine {plan.engine.name}",
        f"{spec.gpu_blocks - 1:,} GPU blocks",
        f"{result.cpu_blocks:,} CPU blocks of {trace.block_tokens} tokens",
    ]
    if plan.ssd is not None:
        blocks = result.runs[0].summary["ssd"]["capacity_blocks"]
        notes.append(f"{blocks:,} SSD blocks, {plan.ssd.mode}")
    if plan.users is not None:
        notes.append(f"{plan.users} users")
    loads = [run.summary["offered_load"] for run in result.runs]
    if all(load is not None for load in loads):
        low, high = f"{min(loads):.2f}", f"{max(loads):.2f}"
        names = dict.fromkeys(run.summary["bottleneck"] for run in result.runs)
        range_of = low if low == high else f"{low} to {high}"
        notes.append(f"offered load {range_of} ({', '.join(names)})")
    if result.first_measured:
        notes.append(f"measured from request {result.first_measured:,} on")
    notes.append(f"ceiling {percent(result.ceiling_token_hit_ratio)}")
    console.print(Text(", ".join(notes)), style="dim", soft_wrap=True)
    console.print()
    table = _table(result)
    print_whole_table(table, console)


def _table(result: SimulationResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("policy", no_wrap=True)
    titles = ["TTFT mean", "p50", "p95", "ITL p50", "tokens hit", "by GPU", "by CPU"]
    has_ssd = result.plan.ssd is not None
    if has_ssd:
        titles.append("by SSD")
    if result.plan.slo_ttft_s is not None or result.plan.slo_itl_s is not None:
        titles.append("in SLO")
    titles += ["prefill saved", "loaded", "stored"]
    if has_ssd:
        titles += ["SSD read", "SSD written", "a day"]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for run in result.runs:
        table.add_row(Text(run.label), *_row(run, "in SLO" in titles, has_ssd))
    return table


def _row(run: Run, has_slo: bool, has_ssd: bool) -> Iterator[str]:
    summary = run.summary
    ttft, itl, tokens = summary["ttft_s"], summary["itl_s"], summary["tokens"]
    for key in ("mean", "p50", "p95"):
        yield f"{ttft[key]:.3f} s"
    yield "-" if itl is None else f"{itl['p50'] * 1000:.1f} ms"
    whole = max(tokens["input"], 1)
    for key in ("hit", "gpu_hit", "cpu_hit", *(["ssd_hit"] if has_ssd else [])):
        yield percent(tokens[key] / whole)
    if has_slo:
        yield percent(summary["goodput"]["share"])
    yield f"{summary['saved_prefill_s']:,.1f} s"
    loaded = summary["cpu"]["load_bytes"]
    yield gigabytes(loaded)
    yield gigabytes(summary["cpu"]["store_bytes"])
    if has_ssd:
        ssd = summary["ssd"]
        yield gigabytes(ssd["read_bytes"])
        yield gigabytes(ssd["write_bytes"])
        a_day = ssd["writes_per_day_bytes"]
        yield "-" if a_day is None else f"{a_day / 1e12:,.1f} TB"


def gigabytes(num_bytes: int) -> str:
    """Return bytes as GB."""
    return f"{num_bytes / 1e9:,.1f} GB"


def check_ending(path: Path) -> None:
    """Refuse a file of requests that would be neither CSV nor Parquet.

    Raises
    ------
    PolicyError
        If the ending is another one.
    """
    if path.suffix.lower() not in ENDINGS:
        allowed = " and ".join(ENDINGS)
        raise PolicyError(f"--per-request {path}: allowed endings are {allowed}")


def write_requests(result: SimulationResult, path: Path) -> None:
    """Write a row for each request of each run, as CSV or Parquet.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    by_run = [run.records.columns() for run in result.runs]
    columns: dict[str, Any] = {
        "policy": [
            run.label
            for run, of in zip(result.runs, by_run, strict=True)
            for _ in of["request"]
        ]
    }
    for name in by_run[0]:
        columns[name] = np.concatenate([of[name] for of in by_run])
    if path.suffix.lower() == ".csv":
        rows = zip(*(_as_text(of) for of in columns.values()), strict=True)
        with atomic_write(path) as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
        return
    import pandas as pd

    with atomic_write(path, "wb") as out:
        pd.DataFrame(columns).to_parquet(out, index=False)


def _as_text(column: Any) -> list[Any]:
    """Return plain values; what is not there is left empty."""
    values = column if isinstance(column, list) else column.tolist()
    return ["" if value != value else value for value in values]
