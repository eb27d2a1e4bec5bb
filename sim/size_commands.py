"""The `size` command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotset.sim.options import PlotOption, check_picture, print_warnings, table_console
from hotset.traces.commands import JsonOption, write_json
from hotset.traces.trace_input import TraceInput, may_take_trace

_BLOCK_TOKENS = 16
_LEAST, _MOST = 1e-9, 1e12  # of a price or a speed
_PRICES = ("--ram-price", "--ssd-price", "--prefill-tokens-per-s")


@may_take_trace
def size(
    source: TraceInput | None,
    model: Annotated[
        Path,
        typer.Option(
            "--model",
            metavar="CONFIG.json",
            help="The model's Hugging Face config.",
        ),
    ],
    cpu: Annotated[
        str, typer.Option("--cpu", metavar="64GiB", help="The CPU tier, all ranks.")
    ],
    ssd: Annotated[
        str | None,
        typer.Option("--ssd", metavar="1TiB", help="An SSD tier behind it, all ranks."),
    ] = None,
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel ranks.")] = 1,
    block_tokens: Annotated[
        int | None,
        typer.Option(
            "--block-tokens",
            help=f"Tokens of a block; {_BLOCK_TOKENS} if absent. A model with states "
            "saves one a block, so there it must be given.",
            show_default=False,
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(
            "--kv-dtype",
            help="Type of the KV cache, such as bfloat16 or fp8; the model's if "
            "absent.",
            show_default=False,
        ),
    ] = None,
    ram_price: Annotated[
        float | None,
        typer.Option("--ram-price", help="Money for a GiB of RAM and month."),
    ] = None,
    ssd_price: Annotated[
        float | None,
        typer.Option("--ssd-price", help="Money for a GiB of SSD and month."),
    ] = None,
    prefill_tokens_per_s: Annotated[
        float | None,
        typer.Option(
            "--prefill-tokens-per-s", help="How fast the engine prefills; for prices."
        ),
    ] = None,
    json: JsonOption = None,
    plot: PlotOption = None,
) -> None:
    """Show what a budget holds of a model's KV cache, and what it hits of a trace."""
    from hotset.policies.errors import PolicyError
    from hotset.sim.kv_layout import STATE, read_layout
    from hotset.sim.size import ModelFile, Prices, TraceFit, as_json, make_tier
    from hotset.sim.size_report import print_fit, print_size, print_tiers
    from hotset.traces.outputs import check_outputs

    layout = read_layout(model, tp, kv_dtype)
    if block_tokens is None:
        if any(group.kind == STATE for group in layout.layers):
            raise PolicyError(
                f"--model {model}: it saves a state every block, so --block-tokens is "
                "needed"
            )
        block_tokens = _BLOCK_TOKENS
    if block_tokens < 1:
        raise PolicyError(f"--block-tokens {block_tokens}: at least 1 is needed")
    budgets = {"cpu": cpu, **({"ssd": ssd} if ssd is not None else {})}
    tiers = [
        make_tier(name, text, layout, block_tokens) for name, text in budgets.items()
    ]
    values = (ram_price, ssd_price, prefill_tokens_per_s)
    given = dict(zip(_PRICES, values, strict=True))
    prices = None
    if any(value is not None for value in given.values()):
        check_prices(given, source is not None, ssd is not None)
        prices = Prices(ram_price or 0.0, ssd_price or 0.0, prefill_tokens_per_s or 0.0)
    check_picture(plot)
    fit = None
    if source is not None:
        loaded = source.load({"--json": json, "--plot": plot}, {"--model": model})
        fit = TraceFit.of(loaded)
    elif plot is not None:
        raise PolicyError("--plot: the picture is of hits, so --trace is needed")
    elif json is not None:
        check_outputs({"--json": json}, {"--model": model})
    found = as_json(ModelFile.of(model), layout, tiers, block_tokens, fit, prices)
    if json is not None:
        write_json(found, json)
    if plot is not None:
        from hotset.sim.plots import save_picture
        from hotset.sim.plots_size import plot_size

        save_picture(plot_size(found), plot)
    console = table_console()
    print_size(layout, block_tokens, console)
    print_tiers(layout, tiers, console)
    if fit is not None:
        print_fit(fit, tiers, prices, console)
        print_warnings(fit.trace.provenance.warnings)


def check_prices(
    given: dict[str, float | None], has_trace: bool, has_ssd: bool
) -> None:
    """Raise PolicyError unless prices that were given are whole and positive."""
    from hotset.policies.errors import PolicyError

    if not has_trace:
        raise PolicyError("prices are of hits, so --trace is needed")
    for option, value in given.items():
        if option == "--ssd-price" and value is not None and not has_ssd:
            raise PolicyError("--ssd-price: it is the price of --ssd, which is absent")
        if value is None and (option != "--ssd-price" or has_ssd):
            raise PolicyError(f"{option}: it is needed beside the other prices")
        if value is not None and not _LEAST <= value <= _MOST:
            raise PolicyError(f"{option} {value}: allowed is {_LEAST:g} to {_MOST:g}")
