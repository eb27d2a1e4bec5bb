"""Regime maps as text for the terminal, as JSON values and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.regime_axes import Supply
from hotset.sim.regime_cells import Cell, Knob, Margin, Sum
from hotset.sim.regimes import RegimeMap
from hotset.sim.report import percent, print_whole_table
from hotset.traces.files import atomic_write

_MOST_PAIRS = 20_000
DEFINITIONS = {
    "token_hit_ratio": "tokens in hit blocks / all input tokens, over all seeds",
    "points_over_lru": "100 * (token_hit_ratio - that of lru at the same place)",
    "noise_points": "half the width of the 95 % confidence interval of "
    "points_over_lru: Student's t over the pairs that paired_by names",
    "tie": "a margin within its noise, or below least_points",
    "winner": "the policy that hits most, of those that do not know the future and are "
    "ahead of lru beyond their noise; lru where none is",
    "level": "all policies whose distance to the one that hits most is a tie. The best "
    "of many is chosen on the runs that show it: its margin is the more flattering the "
    "more policies are level",
    "scoring": "the knob: the scored policy named, beside lru",
    "distance": "the knob: the policy with a protecting distance, beside lru",
    "store_threshold": "the knob: lru that stores a block at its Nth sight only, at "
    "the best N tried",
    "budget": "the knob: lru with more memory",
    "knob": "the knob with most to gain over lru, null where each is a tie or loses",
    "ceiling": "the token hit ratio of an unbounded cache",
    "hit_tokens_by_pair, input_tokens_by_pair": "by seed, session or block of "
    "requests: from those of one and of lru follow points_over_lru and noise_points. "
    f"Left out of a map of more than {_MOST_PAIRS:,} pairs in all its places",
}


def as_json(result: RegimeMap) -> dict[str, Any]:
    """Return a map as JSON values."""
    plan = result.plan
    return {
        "settings": {
            "workload": plan.supply.name,
            "options": dict(plan.supply.options),
            "requests": plan.supply.requests if _counts_requests(result) else None,
            "x": {"name": plan.x.name, "label": plan.x.label},
            "y": {"name": plan.y.name, "label": plan.y.label},
            "seeds": list(plan.seeds),
            "budget": plan.budget,
            "engine": plan.engine.name,
            "gpu_blocks": plan.gpu_blocks,
            "chunk_tokens": plan.chunk_tokens,
            "step_tokens": plan.step_tokens,
            "kv_bytes_per_token": plan.kv_bytes_per_token,
            "store_thresholds": list(plan.thresholds),
            "more": plan.more,
            "least_points": 100 * plan.least,
            "warmup": plan.warmup,
            "paired_by": result.paired_by,
        },
        **_trace(plan.supply),
        "definitions": DEFINITIONS,
        "warnings": result.warnings,
        "x_values": list(plan.x.values),
        "y_values": list(plan.y.values),
        "cells": [_cell(cell, _writes_pairs(result)) for cell in result.cells],
    }


def _trace(supply: Supply) -> dict[str, Any]:
    """Return where a trace comes from; nothing for a generator."""
    if supply.trace is None:
        return {}
    provenance = supply.trace.provenance
    return {
        "trace": {
            "path": provenance.path,
            "sha256": provenance.sha256,
            "format": provenance.format,
            "requests": supply.trace.num_requests,
            "block_tokens": supply.trace.block_tokens,
            "rejected": provenance.rows_rejected,
            "options": dict(provenance.options),
            "steps": list(provenance.steps),
        }
    }


def _writes_pairs(result: RegimeMap) -> bool:
    return sum(len(cell.input_tokens) for cell in result.cells) <= _MOST_PAIRS


def _counts_requests(result: RegimeMap) -> bool:
    supply = result.plan.supply
    return supply.trace is None and "rounds" not in supply.defaults()


def _cell(cell: Cell, with_pairs: bool) -> dict[str, Any]:
    knob = cell.knob_that_helps()
    pairs = {"input_tokens_by_pair": list(cell.input_tokens)} if with_pairs else {}
    return {
        "x": cell.x,
        "y": cell.y,
        "capacity_blocks": list(cell.capacity_blocks),
        "input_tokens": sum(cell.input_tokens),
        **pairs,
        "ceiling": cell.ceiling,
        "sha256": list(cell.digests),
        "winner": cell.winner.label,
        "winner_policy": cell.winner.policy,
        "best": cell.best.label,
        "is_tie": cell.is_tie,
        "level": cell.level,
        **_margin(cell.margin(cell.shown)),
        "knob": None if knob is None else knob.name,
        "knobs": {each.name: _knob(each, with_pairs) for each in cell.knobs},
        "policies": [_policy(cell, one, with_pairs) for one in cell.policies],
    }


def _margin(margin: Margin) -> dict[str, Any]:
    return {
        "points_over_lru": 100 * margin.value,
        "noise_points": 100 * margin.noise,
        "tie": margin.is_tie,
    }


def _pairs(one: Sum, with_pairs: bool) -> dict[str, Any]:
    return {"hit_tokens_by_pair": list(one.hit_tokens)} if with_pairs else {}


def _knob(knob: Knob, with_pairs: bool) -> dict[str, Any]:
    return {
        "setting": knob.setting,
        "policy": knob.sum.policy,
        "hit_tokens": sum(knob.sum.hit_tokens),
        **_pairs(knob.sum, with_pairs),
        **_margin(knob.margin),
    }


def _policy(cell: Cell, one: Sum, with_pairs: bool) -> dict[str, Any]:
    return {
        "policy": one.policy,
        "label": one.label,
        "hit_tokens": sum(one.hit_tokens),
        **_pairs(one, with_pairs),
        "token_hit_ratio": cell.ratio(one),
        **_margin(cell.margin(one)),
    }


def write_map(result: RegimeMap, path: Path) -> None:
    """Write a row for each place and policy or knob as CSV.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    plan = result.plan
    names = [plan.x.name, plan.y.name, "kind", "name", "setting", "hit_tokens"]
    names += ["token_hit_ratio", "points_over_lru", "noise_points", "tie", "winner"]
    with atomic_write(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        for cell in result.cells:
            writer.writerows(_rows(cell))


def _rows(cell: Cell) -> Iterator[list[Any]]:
    knob_sums = {
        "scoring": cell.scored,
        "distance": cell.guarded,
        "budget": cell.larger,
    }
    rows = [("policy", one.policy, one) for one in cell.policies]
    rows += [("knob", name, one) for name, one in knob_sums.items()]
    rows += [("knob", "store_threshold", one) for one in cell.thresholds]
    for kind, name, one in rows:
        margin = cell.margin(one)
        is_winner = kind == "policy" and one is cell.winner
        yield [
            cell.x,
            cell.y,
            kind,
            name,
            one.label,
            sum(one.hit_tokens),
            cell.ratio(one),
            100 * margin.value,
            100 * margin.noise,
            int(margin.is_tie),
            int(is_winner),
        ]


def print_map(result: RegimeMap, console: Console) -> None:
    """Print a row for each place, and what the marks mean."""
    plan = result.plan
    about = f"{plan.supply.name}: {plan.x.label} by {plan.y.label}"
    console.print(Text(about), soft_wrap=True)
    pairs = len(result.cells[0].input_tokens)
    notes = [f"engine {plan.engine.name}", f"{pairs} pairs ({result.paired_by})"]
    if plan.gpu_blocks:
        notes.append(f"{plan.gpu_blocks:,} GPU blocks in front")
    console.print(Text(", ".join(notes)), style="dim", soft_wrap=True)
    console.print()
    table = _table(result)
    print_whole_table(table, console)
    console.print()
    for line in _notes(result):
        console.print(Text(line), soft_wrap=True)


def _table(result: RegimeMap) -> Table:
    plan = result.plan
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in (plan.y.name, plan.x.name):
        table.add_column(Text(title), justify="right", no_wrap=True)
    table.add_column("winner", no_wrap=True)
    titles = ["lru", "winner", "over lru", "ceiling"]
    titles += [knob.name for knob in result.cells[0].knobs]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what helps", no_wrap=True)
    before = None
    for cell in result.cells:
        knob = cell.knob_that_helps()
        table.add_row(
            Text(cell.y if cell.y != before else ""),
            Text(cell.x),
            Text(_winner(cell)),
            percent(cell.ratio(cell.baseline)),
            percent(cell.ratio(cell.shown)),
            points(cell.margin(cell.shown)),
            percent(cell.ceiling),
            *(points(each.margin) for each in cell.knobs),
            Text("nothing" if knob is None else knob.name),
        )
        before = cell.y
    return table


def _winner(cell: Cell) -> str:
    """Return the winner, and how many others are level with the best."""
    if cell.is_tie:
        return "tie"
    level = sum(label != cell.winner.label for label in cell.level)
    return cell.winner.label + (f" (+{level})" if level else "")


def points(margin: Margin) -> str:
    """Return a margin in points with its noise, "tie" where it is one."""
    if margin.is_tie:
        return "tie"
    return f"{100 * margin.value:+.1f} ± {100 * margin.noise:.1f}"


def _notes(result: RegimeMap) -> list[str]:
    cells = result.cells
    ties = sum(cell.is_tie for cell in cells)
    nothing = sum(cell.knob_that_helps() is None for cell in cells)
    least = 100 * result.plan.least
    return [
        "Input tokens served from the cache, and points over lru with their noise (95 "
        f"%); within it, or below {least:g} points, is a tie. (+n): so many others are "
        "level.",
        f"No policy shown is ahead of lru at {ties} of {len(cells)} places; no knob "
        f"helps at {nothing}.",
        f"Knobs: scoring is {cells[0].scored.label}, distance "
        f"{cells[0].guarded.label}; with lru, store_threshold is the best of "
        f"{', '.join(str(n) for n in result.plan.thresholds)}, and budget "
        f"{cells[0].larger.label}.",
    ]
