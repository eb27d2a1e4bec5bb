"""The `report` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="JSON files of replay, mrc, compare, tune, simulate, regime-map "
            "and size.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The page, one .html file.")],
    title: Annotated[
        str, typer.Option("--title", help="Title of the page.")
    ] = "KV cache report",
) -> None:
    """Write one page of several results, which needs no network."""
    from hotset.policies.errors import PolicyError
    from hotset.sim.page import make_page
    from hotset.traces.files import atomic_write
    from hotset.traces.outputs import check_outputs

    if out.suffix.lower() not in (".html", ".htm"):
        raise PolicyError(f"--out {out}: allowed endings are .html and .htm")
    inputs = {f"RESULT {i}": path for i, path in enumerate(results, 1)}
    check_outputs({"--out": out}, {**inputs})
    text = make_page(results, title)
    with atomic_write(out) as file:
        file.write(text)
    typer.echo(f"{out}: {len(text.encode()):,} bytes")
