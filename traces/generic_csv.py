"""Generic CSV: a header, then one request a line, columns and units as declared."""

import csv
import math
from collections.abc import Iterable
from typing import Any

from hotset.traces.declared import OPTIONS, Declaration, DeclaredRows, ids_of_text
from hotset.traces.errors import TraceError, shorten
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec
from hotset.traces.json_rows import Wrong, read_rows
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

NAME = "csv"

_MAX_CELL = 1 << 28


def cells(raw: bytes) -> list[str]:
    """Cells of a line; none holds a line end.

    Parameters
    ----------
    raw : bytes
        The line.

    Returns
    -------
    list of str
        The cells, quotes removed.

    Raises
    ------
    Wrong
        If it is not UTF-8, or its quotes do not match.
    """
    csv.field_size_limit(_MAX_CELL)
    try:
        (row,) = csv.reader((raw.decode("utf-8"),), strict=True)
    except UnicodeDecodeError as error:
        got = f"invalid UTF-8 at byte {error.start}"
        raise Wrong("row", got, "text in UTF-8") from None
    except (csv.Error, ValueError) as error:
        raise Wrong("row", f"no CSV ({error})", "cells with commas between") from None
    return row


class Table:
    """Rows of a CSV file as mappings from column to cell.

    Parameters
    ----------
    source : Source
        The open file; its first line is the header.

    Attributes
    ----------
    header : list of str
        The columns.
    lines : Iterator of (int, bytes)
        The lines behind the header.

    Raises
    ------
    TraceError
        If there is no header, or it has a column twice.
    """

    def __init__(self, source: Source) -> None:
        self.lines = source.lines()
        line, raw = next(self.lines, (1, b""))
        try:
            self.header = [name.strip() for name in cells(raw)] if raw else []
        except Wrong as wrong:
            raise TraceError(
                f"{source.path}:{line}: header: got {wrong.got}, allowed: "
                f"{wrong.allowed}"
            ) from None
        if not raw or len(set(self.header)) != len(self.header):
            raise TraceError(
                f"{source.path}:{line}: header: got "
                f"{shorten(', '.join(self.header))}, allowed: columns, each once"
            )
        self._path = source.path

    def need(self, columns: Iterable[str]) -> None:
        """Check that columns are there.

        Parameters
        ----------
        columns : Iterable of str
            Their names.

        Raises
        ------
        TraceError
            If one is missing.
        """
        if missing := sorted(set(columns) - set(self.header)):
            raise TraceError(
                f"{self._path}: no column {shorten(', '.join(missing))}; the header "
                f"has {shorten(', '.join(self.header))}"
            )

    def row(self, raw: bytes) -> dict[str, Any]:
        """Cells of a line by column.

        Parameters
        ----------
        raw : bytes
            The line.

        Returns
        -------
        dict
            Without blanks around them; empty cells are left out.

        Raises
        ------
        Wrong
            If the number of cells is another than the header's.
        """
        values = cells(raw)
        if len(values) != len(self.header):
            raise Wrong("row", f"{len(values)} cells", f"{len(self.header)}")
        pairs = zip(self.header, values, strict=True)
        return {name: value.strip() for name, value in pairs if value.strip()}


def number_of(text: str) -> Any:
    """Read the number that a cell holds.

    Parameters
    ----------
    text : str
        The cell.

    Returns
    -------
    int, float or str
        The text itself where it is no finite number.
    """
    if text.isascii() and text.isdigit() and len(text) < 400:
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) and "_" not in text else text


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read generic CSV.

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
    fields, table = declaration.fields, Table(source)
    table.need(fields[name] for name in ("time", "input", "ids"))

    def add(raw: bytes) -> None:
        row = table.row(raw)
        for name in ("time", "input", "output"):
            if fields[name] in row:
                row[fields[name]] = number_of(row[fields[name]])
        if fields["ids"] in row:
            row[fields["ids"]] = ids_of_text(row[fields["ids"]], fields["ids"])
        rows.add(row)

    read_rows(table.lines, bad_rows, add)
    return rows.build(NAME, source, bad_rows)


SPEC = FormatSpec(
    name=NAME,
    description="CSV of any source; --columns, --time-unit, --block-tokens",
    # Units are declared, never guessed, so it takes --format to get here.
    detect=lambda head: False,
    read=read,
    options=OPTIONS,
)
