"""Generic JSON lines: one request a line, fields and units as declared."""

from typing import Any

from hotset.traces.declared import OPTIONS, Declaration, DeclaredRows
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec
from hotset.traces.json_ids import has_float
from hotset.traces.json_rows import are_keys_once, parse, read_rows
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

NAME = "jsonl"


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read generic JSON lines.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        `columns`, `time_unit`, `block_tokens`, `chained`, `no_sort`.

    Returns
    -------
    Trace
        Sorted by (time, line).

    Raises
    ------
    RowErrors
        If rows are wrong and wrong rows are not skipped.
    TraceError
        If the file as a whole is of no use, or an option is wrong.
    """
    declaration = Declaration(options)
    rows = DeclaredRows(declaration)
    names = (declaration.fields["ids"], declaration.fields["session"])

    def is_exact(raw: bytes, row: dict[str, Any]) -> bool:
        if any(has_float(row.get(name)) for name in names):
            return False
        return are_keys_once(raw, len(row))

    def add(raw: bytes) -> None:
        rows.add(parse(raw, is_exact))

    read_rows(source.lines(), bad_rows, add, rows.add_usual)
    return rows.build(NAME, source, bad_rows)


SPEC = FormatSpec(
    name=NAME,
    description="JSON lines of any source; --columns, --time-unit, --block-tokens",
    # Units are declared, never guessed, so it takes --format to get here.
    detect=lambda head: False,
    read=read,
    options=OPTIONS,
)
