"""Traces of arrivals and lengths alone: BurstGPT and Azure LLM inference (CSV).

BurstGPT: `Timestamp` (seconds), `Request tokens`, `Response tokens`, and in its
second version `Session ID`. Azure: `TIMESTAMP` (date and time, UTC where no zone
is given), `ContextTokens`, `GeneratedTokens`.

They say nothing about what prompts share. A trace read from them has no blocks,
and no hit ratio, unless `synthetic_reuse` names a model that makes reuse up.
Requests without input tokens failed: they are left out and counted as rejected.
"""

from array import array
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import shorten
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec
from hotset.traces.generic_csv import Table, number_of
from hotset.traces.json_rows import SessionCodes, Wrong, count, number, read_rows
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows
from hotset.traces.synthetic_reuse import DEFAULT_BLOCK_TOKENS, reuse_model

_SECONDS = "a number of seconds, 0 or more, below 2**63"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _plain_seconds(text: str, field: str) -> float:
    return number({field: number_of(text)}, field, _SECONDS)


def _date_seconds(text: str, field: str) -> float:
    """Seconds of a date and time since 1970."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        allowed = "a date and time, for example 2023-11-16 18:15:46.68"
        raise Wrong(field, shorten(text), allowed) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    seconds = (when - _EPOCH).total_seconds()
    if seconds < 0:
        raise Wrong(field, shorten(text), "a date and time from 1970 on")
    return seconds


class _Layout(NamedTuple):
    """Columns of a format."""

    name: str
    time: str
    input: str
    output: str
    session: str | None
    seconds: Callable[[str, str], float]


_BURSTGPT = _Layout(
    "burstgpt",
    "Timestamp",
    "Request tokens",
    "Response tokens",
    "Session ID",
    _plain_seconds,
)
_AZURE = _Layout(
    "azure-llm", "TIMESTAMP", "ContextTokens", "GeneratedTokens", None, _date_seconds
)


def read(
    layout: _Layout, source: Source, bad_rows: BadRows, options: ReadOptions
) -> Trace:
    """Read a trace of lengths.

    Parameters
    ----------
    layout : _Layout
        The format's columns.
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        `synthetic_reuse`, `trace_seed`, `block_tokens`, `no_sort`.

    Returns
    -------
    Trace
        Sorted by (time, line); without block ids, or with made-up ones.

    Raises
    ------
    RowErrors
        If rows are wrong and wrong rows are not skipped.
    TraceError
        If the file as a whole is of no use, or an option is wrong.
    """
    model = reuse_model(options)
    table = Table(source)
    table.need((layout.time, layout.input, layout.output))
    columns, sessions = Columns(), SessionCodes()

    def add(raw: bytes) -> None:
        row = table.row(raw)
        for name in (layout.input, layout.output):
            if name in row:
                row[name] = number_of(row[name])
        if layout.time not in row:
            raise Wrong(layout.time, "nothing", "a time")
        time_s = layout.seconds(row[layout.time], layout.time)
        input_tokens = count(row, layout.input, 0)
        output_tokens = count(row, layout.output, 0)
        session = sessions.code(row, layout.session) if layout.session else -1
        if input_tokens == 0:
            bad_rows.left_out += 1
            return
        columns.add(time_s, input_tokens, output_tokens, session, array("q"))

    read_rows(table.lines, bad_rows, add)
    warnings = []
    if bad_rows.left_out:
        warnings.append(
            f"requests without input tokens, which failed: {bad_rows.left_out}; left "
            "out and counted as rejected"
        )
    if model is None:
        warnings.append("no reuse information: this format has lengths alone")
    else:
        columns = _with_ids(columns, model.ids)
        warnings.append(
            f"reuse is made up by --synthetic-reuse {model.text}: hit ratios show the "
            "model, not the traffic"
        )
    used = () if model is None else model.used()
    about = Described(
        layout.name,
        DEFAULT_BLOCK_TOKENS if model is None else model.block_tokens,
        options=used + ((("no_sort", True),) if options.no_sort else ()),
        no_sort=bool(options.no_sort),
    )
    return build(columns, about, source, bad_rows, tuple(warnings))


def _with_ids(
    columns: Columns,
    ids_of: Callable[["array[int]", "array[int]"], list["array[int]"]],
) -> Columns:
    """Give requests ids by a model that wants them in order of time."""
    order = np.argsort(np.array(columns.arrival), kind="stable").tolist()

    def sorted_(values: "array[int]") -> "array[int]":
        return array("q", [values[i] for i in order])

    by_time = ids_of(sorted_(columns.input_tokens), sorted_(columns.output_tokens))
    ids_at = dict(zip(order, by_time, strict=True))
    made = Columns()
    for at in range(len(columns)):
        made.add(
            columns.arrival[at],
            columns.input_tokens[at],
            columns.output_tokens[at],
            columns.session[at],
            ids_at[at],
        )
    return made


def _detect(layout: _Layout, head: bytes) -> bool:
    first = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    names = [name.strip().strip(b'"') for name in first.split(b",")]
    return all(
        name.encode() in names for name in (layout.time, layout.input, layout.output)
    )


def _spec(layout: _Layout, description: str) -> FormatSpec:
    return FormatSpec(
        name=layout.name,
        description=description,
        detect=partial(_detect, layout),
        read=partial(read, layout),
        options=("synthetic_reuse", "trace_seed", "block_tokens", "no_sort"),
    )


BURSTGPT = _spec(_BURSTGPT, "BurstGPT CSV: lengths alone; --synthetic-reuse")
AZURE = _spec(_AZURE, "Azure LLM inference CSV: lengths alone; --synthetic-reuse")
