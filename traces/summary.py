"""Summaries of traces on the terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from hotset.traces.catalogue import PublicTrace
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
    for table in (_lengths(summary), _reuse(summary), _ceilings(summary)):
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


def _reuse(summary: dict[str, Any]) -> Table:
    """Tabulate times and distances between two uses of a block."""
    reuse = summary["profile"]["reuse"]
    table = Table("until the next use", "p10", "p50", "p90", "p99", box=None)
    names = ("p10", "p50", "p90", "p99")
    for key, label in (("time_s", "seconds"), ("distance_blocks", "distinct blocks")):
        row = reuse[key]
        table.add_row(label, *(f"{row[name]:,.6g}" if row else "-" for name in names))
    return table


def _ceilings(summary: dict[str, Any]) -> Table:
    """Blocks, and the most that any cache could hit, by tail rule."""
    table = Table("unlimited cache", "accesses", "distinct", box=None)
    table.add_column("tokens hit")
    table.add_column("blocks hit")
    labels = {"drop": "full blocks (drop)", "count": "partial, too (count)"}
    for tail, row in summary["tails"].items():
        most = row["ceiling"]
        table.add_row(
            labels[tail],
            f"{row['accesses']:,}",
            f"{row['distinct_blocks']:,}",
            *(
                f"{100 * most[f'{unit}_hit_ratio']:.2f} %" if most else "unknown"
                for unit in ("token", "block")
            ),
        )
    return table


def _facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the first table."""
    about = summary["trace"]
    span_s = summary["span_s"]
    first = 100 * summary["commonest_first_block_ratio"]
    sessions = f"{summary['sessions']:,}"
    if summary["requests_without_session"]:
        sessions += f" ({summary['requests_without_session']:,} requests in none)"
    if turns := summary["profile"]["turns_per_session"]:
        sessions += f", {turns['mean']:.1f} requests each, at most {turns['max']:,}"
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
        ("span", _span(span_s, about["requests"])),
        ("clock", _clock(summary)),
        ("working set", _working_set(summary)),
        ("sessions", sessions),
        ("ids", _ids(about)),
        ("without block ids", f"{summary['requests_without_blocks']:,} requests"),
        ("commonest first block", f"in {first:.1f} % of requests"),
        ("long requests", _long(summary["profile"]["over_context"])),
    ]
    return facts


def _clock(summary: dict[str, Any]) -> str:
    times = summary["profile"]["timestamps"]
    one = times["distinct"] == 1
    text = "one time" if one else f"{times['distinct']:,} times"
    if times["median_step_s"] is not None:
        text += f", mostly {times['median_step_s']:.4g} s apart"
    return f"{text}, up to {times['most_requests_at_once']:,} at once"


def _span(span_s: float, requests: int) -> str:
    """Time from the first request to the last, and how many came in it."""
    text = f"{span_s:,.1f} s"
    for unit, length_s in (("days", 86400.0), ("hours", 3600.0)):
        if span_s > 2 * length_s:
            text += f" ({span_s / length_s:.1f} {unit})"
            break
    if not span_s:
        return text
    rate = requests / span_s
    if rate < 0.1:
        return f"{text}, {3600 * rate:.1f} requests per hour"
    return f"{text}, {rate:.2f} requests per second"


def _working_set(summary: dict[str, Any]) -> str:
    """Count the blocks in use at a time."""
    over_time = summary["profile"]["over_time"]
    if over_time is None or not any(over_time["accesses"]):
        return "unknown: " + ("no block ids" if over_time else "all at one time")
    in_use = sorted(filter(None, over_time["distinct_blocks"]))
    width_s = over_time["width_s"]
    return (
        f"{in_use[len(in_use) // 2]:,} distinct blocks in {width_s:,.4g} s, "
        f"at most {in_use[-1]:,}"
    )


def _ids(about: dict[str, Any]) -> str:
    meaning = "whole prefixes (chained)" if about["chained"] else "single blocks"
    return f"stand for {meaning}, scope {about['id_scope']}"


def _long(over: dict[str, Any]) -> str:
    share = 100 * over["request_ratio"]
    limit = f"{over['max_context_tokens']:,} tokens"
    return f"{over['requests']:,} ({share:.1f} %) over {limit}"


def print_catalogue(traces: Iterable[PublicTrace]) -> None:
    """Print the public traces that can be fetched.

    Parameters
    ----------
    traces : Iterable of PublicTrace
        The catalogue.
    """
    table = Table("name", "MB", "SHA-256", "licence", "address", box=None)
    for trace in traces:
        size = "?" if trace.size_bytes is None else f"{trace.size_bytes / 1e6:,.1f}"
        known = "known" if trace.sha256 else "?"
        table.add_row(trace.name, size, known, trace.licence, trace.address)
    console = Console(highlight=False)
    console.width = console.measure(
        table, options=console.options.update(max_width=_UNBOUNDED_WIDTH)
    ).maximum
    console.print(table)


@contextmanager
def transfer_bar() -> Iterator[Callable[[int, int | None], None] | None]:
    """Show how far a transfer is, on standard error where that is a terminal.

    Yields
    ------
    callable or None
        To be told bytes so far and in all.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("fetching", total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield report
