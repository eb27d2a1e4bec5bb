"""The `hotset` program: finds the packages' commands and loads them on use."""

from __future__ import annotations

import errno
import io
import signal
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

_GROUP = "hotset.commands"
_TYPED = "hotset.typed"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CommandGroup(TyperGroup):
    """Commands from entry points, each loaded when it is needed.

    A wrong input of the user's ends the program with its message and exit code 2;
    anything else that is raised is our fault and shows its traceback.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return sorted(entry_points(group=_GROUP).names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None where there is none of that name."""
        for entry in entry_points(group=_GROUP, name=cmd_name):
            loaded = entry.load()
            if isinstance(loaded, typer.Typer):
                return typer.main.get_command(loaded)
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            single.command(cmd_name)(loaded)
            return typer.main.get_command(single)
        return None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what was typed, for results to say, and read it."""
        ctx.meta[_TYPED] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        from hotset.traces.made_by import running

        try:
            with running(ctx.meta[_TYPED]):
                return super().invoke(ctx)
        except ValueError as error:
            if not _is_users_fault(error):
                raise
            for line in str(error).splitlines():
                typer.echo(f"hotset: {line}", err=True)
            raise typer.Exit(2) from None
        except ModuleNotFoundError as error:
            # As after an installation without dependencies, in a server.
            if error.name is None or error.name.partition(".")[0] == "hotset":
                raise
            typer.echo(
                f"hotset: this needs the package {error.name}, which is not installed "
                "here: pip install hotset in an environment of its own",
                err=True,
            )
            raise typer.Exit(2) from None
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # Files say so by name; what is left is what is printed.
            typer.echo(f"hotset: cannot print: {error.strerror}", err=True)
            raise typer.Exit(2) from None


def _is_users_fault(error: ValueError) -> bool:
    # Imported here: without an error the program need not wait for them.
    from hotset.policies.errors import PolicyError
    from hotset.traces.errors import TraceError

    return isinstance(error, (PolicyError, TraceError))


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Program:
    """What the program offers to the commands of other packages."""

    def draw_summary(self, summary: dict[str, Any], path: Path) -> None:
        """Draw the summary of a trace."""
        from hotset.sim.commands import draw_summary

        draw_summary(summary, path)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hotset {version('hotset')}")
        raise typer.Exit()


@app.callback()
def root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Find, prove and deploy the eviction policy of a vLLM KV-cache tier."""
    context.obj = Program()


def main() -> None:
    """Run the program; a request to end it cleans up as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, a terminal that is closed ends nothing.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        # A file's name may hold what the terminal's encoding does not.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
