"""Runs commands in this process, standard error apart from standard output."""

import inspect

from typer.testing import CliRunner


def runner():
    """A runner; click up to 8.1 mixes the two streams unless it is told not to."""
    if "mix_stderr" in inspect.signature(CliRunner.__init__).parameters:
        return CliRunner(mix_stderr=False)
    return CliRunner()
