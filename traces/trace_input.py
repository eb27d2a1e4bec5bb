"""The trace that a command is given: its argument, options, and loading."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotset.traces.errors import ArgumentError, TraceError, one_line
from hotset.traces.options import ReadOptions

if TYPE_CHECKING:
    from hotset.traces.model import Trace


class OnBadRowChoice(StrEnum):
    """What to do with wrong rows."""

    STRICT = "strict"
    SKIP = "skip"


TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="Trace file (plain, .gz, .zst), folder or tar archive of files, '-' for "
        "standard input, or 'sample'.",
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="TRACE",
        help="A trace, to see what would be hit of it: as in other commands.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Format of the trace; told by content if absent."),
]
OnBadRowOption = Annotated[
    OnBadRowChoice,
    typer.Option("--on-bad-row", help="Stop at wrong rows, or leave them out."),
]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        help="Where 'skip' writes wrong rows; OUTPUT.rejects.jsonl if absent, "
        "in the current folder where there is no output file.",
    ),
]
MaxRejectShareOption = Annotated[
    float,
    typer.Option("--max-reject-share", help="Largest share that 'skip' may leave out."),
]


@dataclass(frozen=True)
class TraceInput:
    """A trace as a command's user names it.

    Attributes
    ----------
    trace : str
        TRACE as given.
    format, on_bad_row, rejects, max_reject_share
        The shared options as given.
    options : ReadOptions
        Options of the format.
    called : str
        What the user gave the trace as.
    prefixed : frozenset of str
        Options of the format that the command has with ``trace-`` before their name.
    """

    trace: str
    format: str | None
    on_bad_row: OnBadRowChoice
    rejects: Path | None
    max_reject_share: float
    options: ReadOptions
    called: str = "TRACE"
    prefixed: frozenset[str] = frozenset()

    def rejects_beside(self, output: Path | None) -> Path | None:
        """Where rejected rows go.

        Parameters
        ----------
        output : Path or None
            The command's output file.

        Returns
        -------
        Path or None
            As the user says; if he does not, beside the output, or in the
            current folder without one. None where none are left out.

        Raises
        ------
        TraceError
            If the user says where, but does not leave rows out.
        """
        if self.on_bad_row is OnBadRowChoice.STRICT:
            if self.rejects is not None:
                raise TraceError("--rejects: allowed only with --on-bad-row skip")
            return None
        if self.rejects is not None:
            return self.rejects
        if output is not None:
            return Path(f"{output}.rejects.jsonl")
        name = "stdin" if self.trace == "-" else Path(self.trace).resolve().name
        return Path(f"{name}.rejects.jsonl")

    def refuse_options(self, why: str) -> None:
        """Refuse options of reading where nothing is read.

        Raises
        ------
        TraceError
            If one is given.
        """
        plain = {name: default for name, (_, default) in _SHARED.items()}
        shared = [name for name in _SHARED if name != "trace"]
        names = [name for name in shared if getattr(self, name) != plain[name]]
        names += [name for name, _ in self.options.given()]
        if names:
            raise TraceError(f"{_as_option(names[0], self.prefixed)}: {why}")

    def load(
        self,
        outputs: dict[str, Path | None],
        inputs: dict[str, Path | None] | None = None,
        merge: Sequence[str] = (),
    ) -> Trace:
        """Read the trace; says where rejected rows went.

        Parameters
        ----------
        outputs : dict of str to Path
            The command's output files by option, None where not asked for;
            rejected rows go beside the first by default.
        inputs : dict of str to Path
            Its input files, apart from the trace.
        merge : sequence of str
            More files of the trace.

        Returns
        -------
        Trace
            The trace.

        Raises
        ------
        TraceError
            If it cannot be read, or an output not be written.
        """
        from hotset.traces.outputs import check_apart, check_outputs
        from hotset.traces.registry import read_trace

        wanted = {name: path for name, path in outputs.items() if path is not None}
        rejects = self.rejects_beside(next(iter(wanted.values()), None))
        if rejects is not None:
            wanted["--rejects"] = rejects
        others: dict[str, str | Path | None] = {**(inputs or {})}
        others["--tokenizer"] = self.options.tokenizer
        check_apart({self.called: self.trace}, merge)
        others |= {f"--merge {name}": name for name in merge}
        named = {name: path for name, path in others.items() if path is not None}
        check_outputs(wanted, {self.called: self.trace, **named})
        with options_named(lambda name: _as_option(name, self.prefixed)):
            loaded = read_trace(
                self.trace,
                self.format,
                self.on_bad_row.value,
                rejects,
                self.max_reject_share,
                self.options,
                merge,
            )
        if rejects is not None:
            rejected = loaded.provenance.rows_rejected
            where = one_line(rejects)
            typer.echo(f"rows rejected: {rejected}, written to {where}", err=True)
        return loaded


_SHARED: dict[str, tuple[Any, Any]] = {
    "trace": (TraceArgument, inspect.Parameter.empty),
    "format": (FormatOption, None),
    "on_bad_row": (OnBadRowOption, OnBadRowChoice.STRICT),
    "rejects": (RejectsOption, None),
    "max_reject_share": (MaxRejectShareOption, 0.1),
}
_PANEL = "Options of single formats"


def _format_options(prefixed: Set[str]) -> Iterator[tuple[str, str, Any]]:
    """Field, argument and annotation of the option of each `ReadOptions` field."""
    types = inspect.get_annotations(ReadOptions, eval_str=True)
    for each in dataclasses.fields(ReadOptions):
        option = typer.Option(
            _as_option(each.name, prefixed),
            help=each.metadata["help"],
            metavar=each.metadata["metavar"],
            show_default=False,
            rich_help_panel=_PANEL,
        )
        argument = f"trace_{each.name}" if each.name in prefixed else each.name
        yield each.name, argument, Annotated[types[each.name], option]


def takes_trace(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument TRACE and the options of reading one.

    Parameters
    ----------
    command : callable
        Its first parameter is a `TraceInput`, the others are its own options.

    Returns
    -------
    callable
        A command whose signature has the argument, then the command's own
        options, then the options of reading.
    """
    return _taking(command, _SHARED, "TRACE")


def may_take_trace(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option ``--trace`` and the options of reading one.

    Parameters
    ----------
    command : callable
        Its first parameter is a `TraceInput` or None, the others are its own options.
        Where one is named as an option of a format, that of the format has ``trace-``
        before its name.

    Returns
    -------
    callable
        As with `takes_trace`. Without a trace the options of reading are refused.
    """
    shared = {**_SHARED, "trace": (TraceOption, None)}
    return _taking(command, shared, "--trace")


def _taking(
    command: Callable[..., None],
    shared_options: Mapping[str, tuple[Any, Any]],
    called: str,
) -> Callable[..., None]:
    """Return the command with the options; it gets None where no trace is named."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = {each.name: (each.annotation, each.default) for each in own}
    names = {each.name for each in dataclasses.fields(ReadOptions)}
    prefixed = frozenset(names & parameters.keys())
    of_format = list(_format_options(prefixed))
    trace = shared_options["trace"]
    every: dict[str, tuple[Any, Any]] = {"trace": trace, **parameters, **shared_options}
    every |= {argument: (annotation, None) for _, argument, annotation in of_format}

    @functools.wraps(command)
    def taking(**values: Any) -> None:
        shared = {name: values.pop(name) for name in shared_options}
        with options_named(lambda name: _as_option(name, prefixed)):
            options = ReadOptions(
                **{name: values.pop(argument) for name, argument, _ in of_format}
            )
        source = TraceInput(**shared, options=options, called=called, prefixed=prefixed)
        if shared["trace"] is None:
            source.refuse_options(f"of {called}, which is absent")
            command(None, **values)
        else:
            command(source, **values)

    signature = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=default,
            )
            for name, (annotation, default) in every.items()
        ]
    )
    taking.__signature__ = signature  # type: ignore[attr-defined]
    taking.__annotations__ = {name: each[0] for name, each in every.items()}
    return taking


def _as_option(argument: str, prefixed: Set[str] = frozenset()) -> str:
    """Option that an argument of the package's functions comes from."""
    name = argument.replace("_", "-")
    return f"--trace-{name}" if argument in prefixed else f"--{name}"


@contextmanager
def options_named(option_of: Callable[[str], str]) -> Iterator[None]:
    """Let messages about a wrong argument name the option that the user typed.

    Parameters
    ----------
    option_of : callable
        Option of an argument's name.
    """
    try:
        yield
    except ArgumentError as error:
        option = option_of(error.name)
        raise ArgumentError(option, error.got, error.allowed) from None
