"""The `ssd` commands: what an SSD tier holds, whether it is right, away with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hotset.adapter.ssd.inspect import Inspection, Seen

app = typer.Typer(
    no_args_is_help=True, help="Look at, check or remove an SSD tier's folder."
)

_MIB = 1 << 20
PathArgument = Annotated[Path, typer.Argument(help="Folder of the tier.")]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="File for the same as JSON.")
]


def _open(path: Path, json: Path | None = None) -> Inspection:
    from hotset.adapter.errors import AdapterError
    from hotset.adapter.gate_files import check_place
    from hotset.adapter.ssd.inspect import Inspection

    if json is not None:
        check_place(json)  # before work goes into it
    try:
        return Inspection(str(path))
    except AdapterError as error:
        typer.echo(f"hotset: {error}", err=True)
        raise typer.Exit(2) from None


def _write(json: Path | None, value: object) -> None:
    if json is not None:
        import json as json_module

        from hotset.adapter.gate_files import write_whole

        write_whole(json, json_module.dumps(value, indent=1) + "\n")


@app.command()
def inspect(path: PathArgument, json: JsonOption = None) -> None:
    """Show each namespace: what it takes, how old its blocks are, how often used.

    Exit code 1 where an index cannot be read.
    """
    opened = _open(path, json)
    try:
        found = opened.look()
    finally:
        opened.close()
    now_s = time.time()
    described = [_describe(seen, now_s) for seen in found]
    for seen, about in zip(found, described, strict=True):
        _say(seen, about)
    total = sum(seen.folder.used_bytes for seen in found)
    typer.echo(f"{path}: {len(found)} namespaces, {total / _MIB:.1f} MiB")
    _write(json, {"path": str(path), "used_bytes": total, "namespaces": described})
    raise typer.Exit(1 if any(seen.fault for seen in found) else 0)


def _describe(seen: Seen, now_s: float) -> dict[str, object]:
    about = seen.folder.about
    return {
        "name": seen.folder.name,
        "served": seen.is_served,
        "fault": seen.fault,
        "used_bytes": seen.folder.used_bytes,
        "block_bytes": None if about is None else about.payload_bytes,
        "fields": None if about is None else about.fields,
        "slots": seen.num_slots,
        "blocks": len(seen.rows),
        "last_use_ago": seen.ages(now_s),
        "uses": seen.uses(),
    }


def _shown(text: object) -> str:
    """Return a text of somebody's file as a terminal may show it."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in str(text)
    )


def _say(seen: Seen, about: dict[str, object]) -> None:
    folder = seen.folder
    typer.echo(f"{folder.name}: {folder.used_bytes / _MIB:.1f} MiB")
    if folder.about is not None:
        fields = ", ".join(f"{k} {v}" for k, v in sorted(folder.about.fields.items()))
        typer.echo(f"  {_shown(fields)}")
    if seen.is_served:
        typer.echo("  served by a process now: its index is not read")
    elif seen.fault:
        typer.echo(f"  {seen.fault}")
    else:
        typer.echo(f"  {len(seen.rows)} blocks in {seen.num_slots} slots")
        for title, name in (("last use before", "last_use_ago"), ("uses", "uses")):
            counts = about[name]
            assert isinstance(counts, dict)
            line = "  ".join(f"{bin_}: {number}" for bin_, number in counts.items())
            typer.echo(f"  {title}  {line}")


@app.command()
def verify(path: PathArgument, json: JsonOption = None) -> None:
    """Read every block and check it, its checksum included.

    Exit code 1 where one is not right; the tier would not give it out either.
    """
    opened = _open(path, json)
    results, is_right = [], True
    try:
        for checked in opened.verify():
            seen = checked.seen
            name = seen.folder.name
            faults = dict(sorted(checked.faults.items()))
            results.append(
                {
                    "name": name,
                    "served": seen.is_served,
                    "fault": seen.fault,
                    "right": checked.num_right,
                    "wrong": faults,
                }
            )
            if seen.is_served:
                typer.echo(f"{name}: served by a process now, not checked")
                continue
            is_right = is_right and not faults and not seen.fault
            wrong = ", ".join(f"{number} {why}" for why, number in faults.items())
            said = (
                seen.fault or f"{checked.num_right} blocks right, {wrong or '0'} wrong"
            )
            typer.echo(f"{name}: {said}")
    finally:
        opened.close()
    _write(json, {"path": str(path), "namespaces": results})
    raise typer.Exit(0 if is_right else 1)


@app.command()
def clear(
    path: PathArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove what hotset stored here; files of others stay.

    Exit code 1 where a namespace is served by a process and so stays.
    """
    opened = _open(path)
    try:
        if not yes:
            typer.confirm(f"Remove what hotset stored under {path}?", abort=True)
        removed, kept = opened.clear()
    finally:
        opened.close()
    for name in removed:
        typer.echo(f"{name}: removed")
    for name in kept:
        typer.echo(f"{name}: served by a process, or not hotset's alone: stays")
    raise typer.Exit(1 if kept else 0)
