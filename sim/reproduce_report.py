"""A reproduction as text for the terminal: published beside simulated."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim import gpu_matrix
from hotset.sim.report import print_whole_table
from hotset.sim.reproduce import Outcome, Reproduction

_TITLES = {
    "prefix_cache_hits": "GPU hit",
    "external_prefix_cache_hits": "CPU hit",
    "offload_store_bytes": "stored GB",
}


def print_reproduction(result: Reproduction, console: Console) -> None:
    """Print what was fitted, and published against simulated for each cell."""
    for name, lengths in result.lengths.items():
        console.print(
            f"{name}: prompts of {lengths.head} + {lengths.context:,} + "
            f"{lengths.question} tokens (fitted to A1)",
            soft_wrap=True,
        )
    timing = result.timing
    console.print(
        f"timing (fitted to A0 and A1): k {timing.start_s:.4f} s, a "
        f"{timing.token_s:.3g} s, b {timing.pair_s:.3g} s, loads at "
        f"{(timing.load_bytes_per_s or 0) / 1e9:.1f} GB/s; median error "
        f"{100 * timing.median_error:.1f} %",
        soft_wrap=True,
    )
    if result.clamp:
        about = "A2 cells of W1 and W2: floor as a clamp (--no-clamp: released)"
        console.print(about, soft_wrap=True)
    console.print()
    print_whole_table(_table(result), console)


def _table(result: Reproduction) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("cell", no_wrap=True)
    for title in _TITLES.values():
        table.add_column(f"{title}: published", justify="right")
        table.add_column("simulated", justify="right", no_wrap=True)
        table.add_column("off", justify="right", no_wrap=True)
    for title in ("hot TTFT off", "verdicts"):
        table.add_column(title, justify="right")
    for outcome in result.outcomes:
        table.add_row(*_row(outcome))
    return table


def _row(outcome: Outcome) -> list[Text]:
    row = [outcome.cell.name]
    for name in _TITLES:
        published, value = outcome.cell.counters[name], outcome.counters[name]
        is_bytes = name == "offload_store_bytes"
        row += [
            f"{v / 1e9:.2f}" if is_bytes else f"{v:,.0f}" for v in (published, value)
        ]
        mark = "" if gpu_matrix.is_within(name, published, value) else " !"
        row.append(f"{100 * gpu_matrix.error_of(name, published, value):.1f} %{mark}")
    hot, verdicts = outcome.hot_ttft_s, outcome.verdicts
    row.append("" if hot is None else f"{100 * (hot[1] / hot[0] - 1):+.1f} %")
    row.append("" if verdicts is None else f"{verdicts[0]}/{verdicts[1]}")
    return [Text(cell) for cell in row]
