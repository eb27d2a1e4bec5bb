"""Sizes as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.kv_layout import SLIDING, STATE, KvLayout, Layers
from hotset.sim.report import percent, print_table
from hotset.sim.size import Prices, Tier, TraceFit


def print_size(layout: KvLayout, block_tokens: int, console: Console) -> None:
    """Print how large a block is and how that was worked out."""
    for group in layout.layers:
        console.print(Text(_line(layout, group)), soft_wrap=True)
    rank = layout.rank_block_bytes(block_tokens)
    about = f"A block of {block_tokens} tokens: {rank:,} bytes"
    if layout.ranks > 1:
        about += f" in each of {layout.ranks} ranks"
    if layout.copies > 1:
        about += f", {layout.block_bytes(block_tokens):,} together"
    elif layout.ranks > 1:
        about += (
            ", the same in all: a tier holds it once (from vLLM 0.28 on; before, "
            f"{layout.ranks} times, so that {layout.ranks} times the bytes are needed)"
        )
    console.print(Text(about + "."), soft_wrap=True)


def _line(layout: KvLayout, group: Layers) -> str:
    value_bytes = layout.value_bytes_of(group)
    bytes_of_all = group.count * group.values * value_bytes
    of = "state" if group.kind == STATE else "token"
    line = (
        f"{group.count} layers, {group.kind}: {group.arithmetic}, "
        f"{group.values:,} x {value_bytes} bytes a layer, "
        f"{bytes_of_all:,} bytes a {of}"
    )
    if layout.ranks > 1:
        line += " and rank"
    if group.kind == SLIDING:
        line += (
            f"; blocks behind the window of {group.window_tokens:,} tokens are stored "
            "as well"
        )
    return line


def print_tiers(layout: KvLayout, tiers: list[Tier], console: Console) -> None:
    """Print what fits in each tier."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("tier", no_wrap=True)
    for title in ("bytes", "a rank", "blocks", "tokens"):
        table.add_column(title, justify="right", no_wrap=True)
    for tier in tiers:
        table.add_row(
            tier.name,
            f"{tier.total_bytes:,}",
            f"{tier.total_bytes // layout.copies:,}",
            f"{tier.blocks:,}",
            f"{tier.tokens:,}",
        )
    console.print()
    print_table(table, console)


def print_fit(
    fit: TraceFit, tiers: list[Tier], prices: Prices | None, console: Console
) -> None:
    """Print what lru in the tiers would hit of a trace."""
    console.print()
    trace, curve = fit.trace, fit.curve
    about = (
        f"{trace.provenance.path}: {trace.num_requests:,} requests, "
        f"{curve.most_blocks * trace.block_tokens:,} distinct tokens in whole blocks"
    )
    console.print(Text(about), soft_wrap=True)
    for count in range(1, len(tiers) + 1):
        console.print(Text(_hits(fit, tiers[:count], prices)), soft_wrap=True)
    most = fit.token_hit_ratio(curve.most_blocks * trace.block_tokens)
    if most is not None:
        line = f"With room for everything: {percent(most)} of the input tokens."
        console.print(Text(line), soft_wrap=True)
    knee = curve.knee()
    if knee is not None:
        tokens = knee * trace.block_tokens
        ratio = fit.token_hit_ratio(tokens)
        line = f"Knee of lru: {tokens:,} tokens"
        if ratio is not None:
            line += f", {percent(ratio)}"
        line += f", {tokens * _bytes_of_a_token(tiers):,.0f} bytes."
        console.print(Text(line), soft_wrap=True)


def _bytes_of_a_token(tiers: list[Tier]) -> float:
    return tiers[0].block_bytes / tiers[0].block_tokens


def _hits(fit: TraceFit, tiers: list[Tier], prices: Prices | None) -> str:
    names = " + ".join(tier.name for tier in tiers)
    if len(tiers) > 1:
        names += " (demoting on eviction)"
    ratio = fit.token_hit_ratio(sum(tier.tokens for tier in tiers))
    if ratio is None:
        least = fit.curve.first_capacity * fit.trace.block_tokens
        what = "a block" if fit.curve.first_capacity == 1 else "the longest request"
        return f"{names}: smaller than {what} of the trace, {least:,} tokens"
    line = f"{names}: lru hits {percent(ratio)} of the input tokens"
    if prices is not None:
        money = fit.money_for_saved_hour(prices, tiers)
        line += (
            f", {_no_price(ratio)}"
            if money is None
            else f", {money:,.2f} for each hour of prefill saved"
        )
    return line


def _no_price(ratio: float) -> str:
    if ratio == 0:
        return "which saves nothing"
    return "whose price is not known: all requests come at one time"
