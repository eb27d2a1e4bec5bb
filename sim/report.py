"""Results as text for the terminal, and as files of columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.replay import first_measured
from hotset.sim.study import Study, StudyResult
from hotset.traces.files import atomic_write

_LABEL_WIDTH = 24


def print_study(result: StudyResult, console: Console) -> None:
    """Print one line on the trace and a table of the runs."""
    print_about(result, console)
    print_table(_table(result), console)


def print_about(result: StudyResult, console: Console) -> None:
    """Print what was replayed, and how."""
    trace, study = result.trace, result.study
    chunks = result.workload.chunks
    first = first_measured(study.warmup, result.workload.trace.num_requests)
    about = (
        f"{trace.provenance.path}: {trace.num_requests:,} requests, "
        f"{chunks.offsets[-1]:,} accesses, {chunks.num_distinct:,} distinct blocks of "
        f"{result.workload.chunk_tokens} tokens"
    )
    console.print(Text(about), soft_wrap=True)
    notes = [f"engine {study.engine.name}", f"admission {_admission(study)}"]
    if study.flat:
        notes.append("flat: every access by itself")
    if study.gpu_blocks:
        notes.append(f"{study.gpu_blocks:,} GPU blocks in front")
    if first:
        notes.append(f"measured from request {first:,} on")
    console.print(Text(", ".join(notes)), style="dim", soft_wrap=True)
    console.print()


def print_table(table: Table, console: Console) -> None:
    """Print a table, all of it."""
    # A number that is cut off reads as another one: rather let lines run over.
    least = table.__rich_measure__(console, console.options).minimum
    console.width = max(console.width, least)
    console.print(table)


def print_whole_table(table: Table, console: Console) -> None:
    """Print a table of many columns, each on one line."""
    # A number that is cut off reads as another one: rather let lines run over.
    room = console.options.update(width=1000)
    console.width = max(console.width, table.__rich_measure__(console, room).maximum)
    console.print(table)


def _admission(study: Study) -> str:
    """Return the rule's name and its main parameter."""
    spec, params = study.admission
    main = [str(value) for value in vars(params).values()][:1]
    return ":".join([spec.name, *main])


def _table(result: StudyResult) -> Table:
    shares = result.study.gpu_blocks > 0
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("capacity", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for title in ("tokens hit", "blocks hit", "of ceiling"):
        table.add_column(title, justify="right", no_wrap=True)
    if shares:
        table.add_column("by GPU", justify="right", no_wrap=True)
    for title in ("stores", "evictions"):
        table.add_column(title, justify="right", no_wrap=True)
    most = result.ceiling.token_hit_ratio
    before = None
    for run in result.runs:
        row: list[str | Text] = [
            f"{run.capacity_blocks:,}" if run.capacity_blocks != before else "",
            label_text(run.label),
            percent(run.token_hit_ratio),
            percent(run.block_hit_ratio),
            percent(run.token_hit_ratio / most) if most else "-",
        ]
        if shares:
            row.append(percent(run.gpu_hit_tokens / max(run.input_tokens, 1)))
        table.add_row(*row, f"{run.stores:,}", f"{run.evictions:,}")
        before = run.capacity_blocks
    ceiling: list[str | Text] = [
        "any",
        Text("ceiling"),
        percent(most),
        percent(result.ceiling.block_hit_ratio),
        percent(1.0) if most else "-",
    ]
    table.add_row(*ceiling, style="dim")
    return table


def label_text(label: str) -> Text:
    """Return a policy's label, one parameter a line where it is long."""
    if len(label) <= _LABEL_WIDTH:
        return Text(label)
    name, _, parameters = label.partition(":")
    return Text(f"{name}:\n  " + ",\n  ".join(parameters.split(",")))


def percent(ratio: float) -> str:
    """Return a ratio in percent, two places."""
    return f"{100 * ratio:.2f} %"


def write_per_request(result: StudyResult, path: Path) -> None:
    """Write each request's hit tokens as CSV, a column for each run.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    trace = result.workload.trace  # of accesses, where the study is flat
    names = [f"{run.label}@{run.capacity_blocks}" for run in result.runs]
    columns = [
        np.arange(trace.num_requests).tolist(),
        trace.arrival_s.tolist(),
        trace.input_tokens.tolist(),
        *(hits.tolist() for hits in result.hit_tokens),
    ]
    with atomic_write(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["request", "arrival_s", "input_tokens", *names])
        writer.writerows(zip(*columns, strict=True))
