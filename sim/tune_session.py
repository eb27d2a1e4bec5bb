"""What the `tune` command does with its traces and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from hotset.policies.errors import PolicyError
from hotset.sim.candidate import from_configuration
from hotset.sim.drift import promise_of
from hotset.sim.ledger import Settled
from hotset.sim.options import print_warnings, table_console
from hotset.sim.trials import best_of
from hotset.sim.tune import TuneResult, run_tune
from hotset.sim.tune_plan import TunePlan
from hotset.sim.tune_report import print_tuning
from hotset.sim.tuned import as_json
from hotset.sim.watch import fresh_recordings
from hotset.traces.commands import write_json
from hotset.traces.errors import TraceError
from hotset.traces.trace_input import TraceInput


@dataclass(frozen=True)
class Session:
    """Where a tuning's files are, and how it is run.

    Parameters
    ----------
    plan : TunePlan
        What to do, but for the current configuration.
    out : Path
        Where the answer goes.
    plot : Path or None
        Where the picture goes.
    storage : str or None
        Where trials are kept; a journal beside the answer where it is not given.
    jobs : int
        Processes.
    current : Path or None
        The current configuration.
    inputs : mapping
        Other input files by option, None where not given.
    cluster : str or None
        A Ray cluster that runs the trials.
    """

    plan: TunePlan
    out: Path
    plot: Path | None
    storage: str | None
    jobs: int
    current: Path | None
    inputs: Mapping[str, Path | None]
    cluster: str | None = None

    def run(self, source: TraceInput) -> TuneResult:
        """Tune on a trace; write the answer and show it.

        Raises
        ------
        PolicyError, TraceError
            For wrong input, see `run_tune`.
        """
        plan = self.plan
        if self.current is not None:
            values = _read(self.current)
            plan = replace(
                plan,
                current=from_configuration(values, f"--current {self.current}"),
                promise=promise_of(values),
            )
        kept = self.storage or str(self.out.with_suffix(".journal"))
        journal = None if "://" in kept else Path(kept)
        trace = source.load(
            {"--out": self.out, "--storage": journal, "--plot": self.plot},
            {**self.inputs, "--current": self.current},
        )
        with _live_line(plan) as (started, progress):
            result = run_tune(
                trace, plan, kept, self.jobs, progress, started, self.cluster
            )
        # The file before the table: standard output may be gone by now.
        write_json(as_json(result), self.out)
        if self.plot is not None:
            from hotset.sim.plots import save_picture
            from hotset.sim.plots_tune import plot_tuning

            save_picture(plot_tuning(result), self.plot)
        print_tuning(result, table_console())
        print_warnings(result.warnings)
        return result

    def watch(
        self,
        source: TraceInput,
        every_s: float,
        recordings: Iterable[Path] | None = None,
    ) -> None:
        """Tune on each recording that is finished in a folder.

        The first answer is written where it was asked for, later ones beside it with
        the recording's name: what is deployed changes only when somebody deploys it.

        Parameters
        ----------
        source : TraceInput
            The folder, and how to read what is in it.
        every_s : float
            Seconds between two looks.
        recordings : iterable of Path, optional
            Instead of the folder's.

        Raises
        ------
        PolicyError
            If the folder cannot be read.
        """
        folder = Path(source.trace)
        if self.out.resolve().parent == folder.resolve():
            raise PolicyError(
                f"--out {self.out}: lies in {folder}, where it would be a recording"
            )
        for recording in recordings or fresh_recordings(folder, every_s):
            session = self
            if self.out.exists():
                name = f"{self.out.stem}.{recording.name}.json"
                out = self.out.with_name(name)
                session = replace(self, out=out, current=self.out)
            try:
                session.run(replace(source, trace=str(recording)))
                typer.echo(f"{recording}: to {session.out}")
            except (PolicyError, TraceError) as error:
                # The next recording may be a good one.
                typer.echo(str(error), err=True)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(f"--current {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"--current {path}: no JSON: {error}") from None


@contextmanager
def _live_line(
    plan: TunePlan,
) -> Iterator[tuple[Callable[[int], None], Callable[[Sequence[Settled]], None] | None]]:
    """Show best so far, trials per second and time left, on a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)

    def started(num_known: int) -> None:
        if num_known:
            console.print(f"going on from {num_known} trials", highlight=False)

    if not console.is_terminal:
        yield started, None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("tuning", total=plan.trials, speed="")

        def progress(settled: Sequence[Settled]) -> None:
            done = bar.tasks[0]
            speed = "" if done.speed is None else f"{done.speed:.1f} trials/s"
            able = [each for each in settled if not each.fault]
            told = "tuning"
            if able:
                best = best_of(able, plan.objectives)
                told = f"best {best.score.values[0]:.4g} {best.candidate.policy.name}"
            bar.update(task, completed=len(settled), description=told, speed=speed)

        yield started, progress
