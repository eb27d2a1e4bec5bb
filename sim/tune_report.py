"""A tuning's answer as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.objectives import figure, gain_unit
from hotset.sim.report import print_table
from hotset.sim.tune import TuneResult
from hotset.sim.verdict import WITHOUT, Row


def print_tuning(result: TuneResult, console: Console) -> None:
    """Print what was searched, everyone's results on the holdout, and the verdict."""
    trace, plan = result.evaluator.trace, result.evaluator.plan
    verdict = result.verdict
    failed = sum(bool(each.fault) for each in result.settled)
    console.print(
        Text(
            f"{trace.provenance.path}: {trace.num_requests:,} requests, searched on "
            f"the first {verdict.first:,}, judged on the rest"
        ),
        soft_wrap=True,
    )
    console.print(
        Text(
            f"{result.evaluator.capacity_blocks:,} blocks, engine {plan.engine.name}, "
            f"{len(result.settled)} trials by {plan.sampler} with seed {plan.seed}, "
            f"{failed} failed; bounds by {len(verdict.groups.input_tokens)} "
            f"{verdict.groups.kind}"
        ),
        style="dim",
        soft_wrap=True,
    )
    console.print()
    print_table(_table(result), console)
    console.print()
    if len(plan.objectives) > 1:
        print_table(_front(result), console)
        console.print()
    console.print(Text(f"verdict: {verdict.decision}", style="bold"))
    console.print(Text(verdict.reason), soft_wrap=True)
    if result.drift is not None:
        console.print(Text(result.drift.text), soft_wrap=True)


def _table(result: TuneResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("on the holdout", no_wrap=True)
    objectives = result.evaluator.plan.objectives
    names = [each.name for each in objectives]
    titles = [each.title for each in objectives]
    gain = f"gain over lru, {gain_unit(names[0])}"
    for title in (*titles, gain, "at least", "at most"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in result.verdict.rows:
        told = [figure(name, row.objectives[name]) for name in names]
        label = "" if row.role == WITHOUT else row.candidate.label
        table.add_row(row.role, *told, *_gains(row), Text(label))
    return table


def _gains(row: Row) -> list[str]:
    if row.gain is None:
        return ["", "", ""]
    values = (row.gain.value, row.gain.lower, row.gain.upper)
    return [f"{100 * value:+.2f}" for value in values]


def _front(result: TuneResult) -> Table:
    """Return the Pareto front on the part searched on."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    names = [each.name for each in result.evaluator.plan.objectives]
    table.add_column("Pareto front", no_wrap=True)
    for each in result.evaluator.plan.objectives:
        table.add_column(each.title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for trial in result.front:
        told = [
            figure(name, value)
            for name, value in zip(names, trial.score.values, strict=True)
        ]
        table.add_row(f"trial {trial.place}", *told, Text(trial.candidate.label))
    return table
