"""Comparisons as text for the terminal, as JSON values and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.compare import Plan
from hotset.sim.contest import OURS, Cell, Contest, Standing, Verdict
from hotset.sim.report import percent, print_table
from hotset.traces.files import atomic_write

DEFINITIONS = {
    "fit": "share of each trace's requests, from its start, that parameters are "
    "searched on; hits of the requests after it are what counts",
    "token_hit_ratio": "tokens in hit blocks / all input tokens, of the second part",
    "points_over_lru": "100 * (token_hit_ratio - that of lru)",
    "gap_closed": "(hit tokens - those of lru) / (those of belady - those of lru), "
    "null where belady has no more than lru",
    "noise_floor_points": "twice the standard error of the paired difference in the "
    "token hit ratio, by session, or by 50 blocks of consecutive requests where a "
    "session is not known; at most 0.5 points. Of a row against lru, of a verdict "
    "between the two policies named",
    "working_set_blocks": "the least capacity at which lru hits all that can be hit in "
    "the second part",
    "ranked": "whether the capacity is below the working set",
    "verdict": "the best of " + ", ".join(OURS) + " beside the best of the other "
    "policies but belady: ahead, level (within the noise floor) or behind",
}


def as_json(cells: Sequence[Cell], plan: Plan) -> dict[str, Any]:
    """Return a comparison as JSON values."""
    return {
        "settings": {
            "tail": plan.tail,
            "fit": plan.fit,
            "trials": plan.trials,
            "seed": plan.seed,
            "kv_bytes_per_token": plan.kv_bytes_per_token,
            "capacities": [capacity.text for capacity in plan.capacities],
            "policies": [who.name for who in plan.contestants],
        },
        "definitions": DEFINITIONS,
        "warnings": warnings_of(cells),
        "traces": [_trace(contest) for contest in _contests(cells)],
        "cells": [_cell(cell, i) for i, cell in _numbered(cells)],
    }


def warnings_of(cells: Sequence[Cell]) -> list[str]:
    """Return what the user should know of the traces."""
    every = [c.workload.trace.provenance.warnings for c in _contests(cells)]
    return list(dict.fromkeys(warning for each in every for warning in each))


def _contests(cells: Sequence[Cell]) -> list[Contest]:
    found: list[Contest] = []
    for cell in cells:
        if all(cell.contest is not contest for contest in found):
            found.append(cell.contest)
    return found


def _numbered(cells: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
    """Yield cells with the number of their trace."""
    contests = _contests(cells)
    for cell in cells:
        yield next(i for i, c in enumerate(contests) if c is cell.contest), cell


def _trace(contest: Contest) -> dict[str, Any]:
    workload, most = contest.workload, contest.ceiling
    trace = workload.trace
    return {
        "path": trace.provenance.path,
        "sha256": trace.provenance.sha256,
        "format": trace.provenance.format,
        "rejected": trace.provenance.rows_rejected,
        "requests": trace.num_requests,
        "accesses": int(workload.chunks.offsets[-1]),
        "distinct_blocks": workload.chunks.num_distinct,
        "block_tokens": trace.block_tokens,
        "judged_from_request": contest.first,
        "judged_input_tokens": most.input_tokens,
        "ceiling_token_hit_ratio": most.token_hit_ratio,
        "working_set_blocks": contest.working_set_blocks,
        "noise_by": contest.groups.kind,
        "noise_groups": len(contest.groups.input_tokens),
    }


def _cell(cell: Cell, trace: int) -> dict[str, Any]:
    verdict = cell.verdict()
    return {
        "trace": trace,
        "capacity": cell.capacity.text,
        "capacity_blocks": cell.capacity_blocks,
        "ranked": cell.is_ranked,
        "rows": [_row(cell, standing) for standing in cell.standings],
        "verdict": None if verdict is None else _verdict(verdict),
    }


def _row(cell: Cell, standing: Standing) -> dict[str, Any]:
    who = standing.contestant
    return {
        "policy": who.name,
        "ours": who.is_ours,
        "tuned": who.tuned,
        "params": dataclasses.asdict(who.params),
        "hit_tokens": standing.hit_tokens,
        "token_hit_ratio": cell.ratio(standing),
        "points_over_lru": 100 * cell.gain(standing),
        "noise_floor_points": 100 * cell.noise(standing, cell.baseline),
        "gap_closed": cell.gap_closed(standing),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome,
        "ours": verdict.ours.contestant.name,
        "others": verdict.others.contestant.name,
        "difference_points": 100 * verdict.difference,
        "noise_floor_points": 100 * verdict.noise_floor,
    }


_COLUMNS = (
    "trace",
    "capacity",
    "capacity_blocks",
    "ranked",
    "policy",
    "ours",
    "tuned",
    "label",
    "hit_tokens",
    "input_tokens",
    "token_hit_ratio",
    "points_over_lru",
    "noise_floor_points",
    "gap_closed",
)


def write_comparison(cells: Sequence[Cell], path: Path) -> None:
    """Write a row for each policy in each cell as CSV.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    with atomic_write(path) as out:
        writer = csv.DictWriter(
            out, _COLUMNS, lineterminator="\n", extrasaction="ignore"
        )
        writer.writeheader()
        for cell in cells:
            about = {
                "trace": cell.contest.workload.trace.provenance.path,
                "capacity": cell.capacity.text,
                "capacity_blocks": cell.capacity_blocks,
                "ranked": cell.is_ranked,
                "input_tokens": cell.contest.ceiling.input_tokens,
            }
            for standing in cell.standings:
                label = standing.contestant.label
                writer.writerow({**about, **_row(cell, standing), "label": label})


def print_comparison(cells: Sequence[Cell], plan: Plan, console: Console) -> None:
    """Print a table for each trace, and the verdicts."""
    for _, of_trace in itertools.groupby(_numbered(cells), key=lambda pair: pair[0]):
        group = [cell for _, cell in of_trace]
        _print_about(group[0].contest, plan, console)
        print_table(_table(group), console)
        console.print()
    for line in _notes(cells):
        console.print(Text(line), soft_wrap=True)


def _print_about(contest: Contest, plan: Plan, console: Console) -> None:
    trace, groups = contest.workload.trace, contest.groups
    about = (
        f"{trace.provenance.path}: {trace.num_requests:,} requests, "
        f"{contest.workload.chunks.num_distinct:,} distinct blocks of "
        f"{trace.block_tokens} tokens"
    )
    console.print(Text(about), soft_wrap=True)
    notes = (
        f"judged from request {contest.first:,} on, searched before it in "
        f"{plan.trials} trials; noise by {len(groups.input_tokens)} {groups.kind}; "
        f"ceiling {percent(contest.ceiling.token_hit_ratio)}"
    )
    console.print(Text(notes), style="dim", soft_wrap=True)
    console.print()


def _table(cells: Sequence[Cell]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("capacity", justify="right", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for title in ("tokens hit", "over lru", "noise", "gap closed"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for cell in cells:
        verdict = cell.verdict()
        best = () if verdict is None else (verdict.ours, verdict.others)
        for i, standing in enumerate(cell.standings):
            marks = ["best of ours", "best of the others"]
            note = next(
                (m for m, s in zip(marks, best, strict=False) if s is standing), ""
            )
            if i == 0 and not cell.is_ranked:
                note = "not ranked: holds the working set"
            closed = cell.gap_closed(standing)
            table.add_row(
                f"{cell.capacity_blocks:,}" if i == 0 else "",
                Text(standing.contestant.name),
                percent(cell.ratio(standing)),
                f"{100 * cell.gain(standing):+.2f}",
                f"{100 * cell.noise(standing, cell.baseline):.2f}",
                "-" if closed is None else f"{100 * closed:.0f} %",
                Text(note),
            )
    return table


def _notes(cells: Sequence[Cell]) -> list[str]:
    """Return the verdicts, one a line, and what they mean."""
    notes = [
        "Over lru and noise in points of the token hit ratio; a difference within the "
        "noise means nothing.",
        f"Ours ({', '.join(OURS)}) beside the others:",
    ]
    for cell in cells:
        verdict = cell.verdict()
        where = (
            f"  {cell.contest.workload.trace.provenance.path} at {cell.capacity.text}"
        )
        if verdict is None:
            notes.append(f"{where}: not ranked")
            continue
        notes.append(
            f"{where}: {verdict.outcome}, {verdict.ours.contestant.name} "
            f"{100 * verdict.difference:+.2f} points over "
            f"{verdict.others.contestant.name}, noise "
            f"{100 * verdict.noise_floor:.2f}"
        )
    return notes
