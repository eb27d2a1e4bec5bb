"""The `export` command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_LEAST_CPU = 2**20  # bytes: a smaller number was meant as blocks, or lacks its unit


class FormChoice(StrEnum):
    """How vLLM finds the policy."""

    SPEC = "spec"
    POLICY = "policy"


class PartChoice(StrEnum):
    """What to print."""

    BOTH = "both"
    JSON = "json"
    SERVE = "serve"


def export(
    tuned: Annotated[
        Path | None,
        typer.Argument(metavar="TUNED", help="A file that hotset tune wrote."),
    ] = None,
    old: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="OLD.json",
            help="Instead of TUNED: a --kv-transfer-config of evoke-vllm or "
            "vllm-marconi-offload, which is translated.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="vllm-0.22 to vllm-0.33; as in TUNED if absent."),
    ] = None,
    cpu: Annotated[
        str | None,
        typer.Option(
            "--cpu", metavar="64GiB", help="Size of the CPU tier; as in the file."
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="What vllm serve is given.")
    ] = "MODEL",
    block_size: Annotated[
        int, typer.Option("--block-size", help="Tokens of a GPU block.")
    ] = 16,
    form: Annotated[
        FormChoice,
        typer.Option(
            "--form",
            help="hotset's spec, or a policy by its name in vLLM's own spec, which "
            "takes vLLM 0.28 and default parameters.",
        ),
    ] = FormChoice.SPEC,
    ignore_verdict: Annotated[
        bool,
        typer.Option(
            "--ignore-verdict", help="Export the best found, whatever the verdict."
        ),
    ] = False,
    ssd_path: Annotated[
        str | None,
        typer.Option(
            "--ssd-path",
            metavar="DIR",
            help="Folder of the SSD tier, where the file has one; it is made if its "
            "parent is there.",
        ),
    ] = None,
    part: Annotated[
        PartChoice, typer.Option("--print", help="Print both, or one alone.")
    ] = PartChoice.BOTH,
) -> None:
    """Print the configuration that a vLLM loads, and the command that starts it."""
    from hotset.adapter.export import Target, export_translated, export_tuned
    from hotset.adapter.foreign import translate
    from hotset.adapter.tuned_file import read_json, read_tuned
    from hotset.adapter.units import read_bytes
    from hotset.policies.errors import PolicyError

    if (tuned is None) == (old is None):
        raise PolicyError("TUNED or --from: one of them is needed")
    cpu_bytes = None if cpu is None else read_bytes(int(cpu) if cpu.isdigit() else cpu)
    if cpu is not None and (cpu_bytes is None or cpu_bytes < _LEAST_CPU):
        raise PolicyError(f"--cpu {cpu}: bytes are needed, such as 64GiB")
    if block_size < 1:
        raise PolicyError(f"--block-size {block_size}: at least 1 is needed")
    read = None if tuned is None else read_tuned(str(tuned))
    wanted = engine or ("none" if read is None else read.engine)
    if wanted == "none":
        raise PolicyError("--engine: needed, since the file is for no vLLM")
    target = Target(
        wanted, model, block_size, cpu_bytes, form.value, ignore_verdict, ssd_path
    )
    _ = target.minor  # refuses other engines
    if read is not None:
        made = export_tuned(read, target)
    else:
        made = export_translated(translate(read_json(str(old)), str(old)), target)
    if part is not PartChoice.SERVE:
        typer.echo(made.json)
    if part is not PartChoice.JSON:
        typer.echo(made.serve)
    for note in made.notes:
        typer.echo(note, err=True)
