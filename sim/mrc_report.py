"""Miss-ratio curves as text for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.sim.mrc import LRU, CurveResult, miss_ratio
from hotset.sim.report import label_text, percent, print_about, print_table


def print_curves(result: CurveResult, console: Console) -> None:
    """Print the curves on the grid, and what there is to say on the one of LRU."""
    print_about(result.replays, console)
    print_table(_table(result), console)
    console.print()
    for line in _notes(result):
        console.print(Text(line), soft_wrap=True)


def _table(result: CurveResult) -> Table:
    """Return token miss ratios, a row for each capacity."""
    found = {
        (run.label, run.capacity_blocks): miss_ratio(run.hit_tokens, run.input_tokens)
        for run in result.replays.runs
    }
    labels = list(dict.fromkeys(run.label for run in result.replays.runs))
    curve = result.curve
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("capacity", "of distinct"):
        table.add_column(title, justify="right", no_wrap=True)
    for label in [LRU, *(label for label in labels if label != LRU)]:
        table.add_column(label_text(label), justify="right", no_wrap=True)
    for capacity in result.capacities:
        if curve.covers(capacity):
            found[LRU, capacity] = curve.counts(capacity)["token_miss_ratio"]
        ratios = [found[LRU, capacity]]
        ratios += [found[label, capacity] for label in labels if label != LRU]
        table.add_row(
            f"{capacity:,}",
            percent(capacity / max(curve.most_blocks, 1)),
            *(percent(ratio) for ratio in ratios),
        )
    return table


def _notes(result: CurveResult) -> list[str]:
    """Return the lines below the table."""
    curve, most = result.curve, result.replays.ceiling
    notes = [
        "Shown: input tokens that are not served from the cache; "
        f"{percent(1 - most.token_hit_ratio)} with room for everything."
    ]
    knee = curve.knee()
    if knee is not None:
        ratio = curve.counts(knee)["token_miss_ratio"]
        notes.append(
            f"Knee of lru: {knee:,} blocks, {percent(ratio)}. There its hits are "
            "furthest above a straight line from nothing to the most it can hit."
        )
    enough = [
        f"{share} % from {blocks:,} blocks"
        for share, blocks in result.enough_for().items()
        if blocks is not None
    ]
    if enough:
        notes.append(f"Of what could be hit, lru hits {', '.join(enough)}.")
    if curve.first_capacity > 1:
        notes.append(
            f"The curve of lru begins at the longest request, {curve.first_capacity:,} "
            "blocks: a block stands behind different prefixes in this trace."
        )
    return notes
