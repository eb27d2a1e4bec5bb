"""Summaries of traces on the terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotset.traces.errors import one_line

_FILE_WIDTH = 120
_UNBOUNDED_WIDTH = 10_000


def print_summary(summary: dict[str, Any]) -> None:
    """Print a summary: facts a line each, then two tables.

    Parameters
    ----------
    summary : dict
        From `summarise`.
    """
    console = Console(highlight=False)
    if not console.is_terminal:  # a file has no width to keep to
        console.width = max(console.width, _FILE_WIDTH)
    facts = _facts(summary)
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        line = Text.assemble((name.ljust(width), "bold"), one_line(value))
        # Values such as digests are copied: the terminal may wrap, we do not.
        console.print(line, soft_wrap=True)
    for table in (_lengths(summary), _ceilings(summary)):
        console.print()
        _print_whole(console, table)


def _print_whole(console: Console, table: Table) -> None:
    """Print a table of numbers; it is wider than the terminal rather than cut."""
    for column in table.columns[1:]:
        column.justify = "right"
    unbounded = console.options.update(max_width=_UNBOUNDED_WIDTH)
    needed = console.measure(table, options=unbounded)
    console.width = max(console.width, needed.maximum)
    console.print(table)


def _lengths(summary: dict[str, Any]) -> Table:
    """Lengths per request."""
    table = Table("per request", "mean", "min", "p50", "p90", "p99", "max", box=None)
    for key in ("input_tokens", "output_tokens", "blocks_per_request"):
        row = summary[key]
        numbers = [f"{row[name]:,}" for name in ("min", "p50", "p90", "p99", "max")]
        table.add_row(key.replace("_", " "), f"{row['mean']:,.1f}", *numbers)
    return table


def _ceilings(summary: dict[str, Any]) -> Table:
    """Blocks, and the most that any cache could hit, by tail rule."""
    table = Table("partial last block", "accesses", "distinct", box=None)
    table.add_column("most tokens hit")
    table.add_column("most blocks hit")
    labels = {"drop": "not cached (drop)", "count": "cached (count)"}
    for tail, row in summary["tails"].items():
        most = row["ceiling"]
        table.add_row(
            labels[tail],
            f"{row['accesses']:,}",
            f"{row['distinct_blocks']:,}",
            f"{100 * most['token_hit_ratio']:.2f} %",
            f"{100 * most['block_hit_ratio']:.2f} %",
        )
    return table


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the first table."""
    about = summary["trace"]
    span_s = summary["span_s"]
    rate = f", {about['requests'] / span_s:.2f} per second" if span_s else ""
    first = 100 * summary["commonest_first_block_ratio"]
    sessions = f"{summary['sessions']:,}"
    if summary["requests_without_session"]:
        sessions += f" ({summary['requests_without_session']:,} requests in none)"
    facts = [
        ("trace", about["path"]),
        ("format", f"{about['format']}, {about['block_tokens']} tokens per block"),
        ("sha256", about["sha256"]),
    ]
    if about["origin"]:
        origin = about["origin"]
        facts.append(("made from", f"{origin['path']} ({origin['format']})"))
    for name, value in about["options"].items():
        facts.append(("read with", f"{name} {value}"))
    facts += [("step", step) for step in summary["steps"]]
    facts += [
        ("requests", f"{about['requests']:,} ({about['rejected']:,} rows rejected)"),
        ("span", f"{span_s:,.1f} s{rate}"),
        ("distinct times", f"{summary['distinct_timestamps']:,}"),
        ("sessions", sessions),
        ("without block ids", f"{summary['requests_without_blocks']:,} requests"),
        ("commonest first block", f"in {first:.1f} % of requests"),
    ]
    return facts
