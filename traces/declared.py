"""Files whose columns the user declares: names, unit of time, block size."""

import re
from collections.abc import Mapping
from typing import Any

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.files import Source
from hotset.traces.json_batch import (
    counts,
    flat_rows,
    have_fitting,
    numbers,
    session_codes,
    session_names,
    small_ids,
    texts,
)
from hotset.traces.json_ids import IdCodes
from hotset.traces.json_rows import SessionCodes, Wrong, count, number, short_text
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.qwen_bailian import check_number
from hotset.traces.rows import BadRows

OPTIONS = ("columns", "time_unit", "block_tokens", "chained", "no_sort")

_UNITS_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_NAMES = ("time", "input", "output", "ids", "session", "type")
_PAIR = re.compile(r"([a-z]+)=(.+)", re.DOTALL)

# Outside these the unit of time is wrong, whoever recorded the trace.
_MAX_SPAN_S = 20 * 366 * 86400.0
_MAX_REQUESTS_PER_S = 100_000.0
_FEW_REQUESTS = 100


class Declaration:
    """What the user says about a file.

    Parameters
    ----------
    options : ReadOptions
        `time_unit` and `block_tokens` are needed.

    Attributes
    ----------
    fields : dict of str to str
        The file's column for each of ours.
    units_per_s : float
        Of its times.
    block_tokens : int
        Tokens per block.

    Raises
    ------
    ArgumentError
        If an option is missing or wrong.
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.time_unit not in _UNITS_PER_S:
            raise ArgumentError("time_unit", options.time_unit, ", ".join(_UNITS_PER_S))
        if options.block_tokens is None:
            allowed = "tokens per block: this format does not tell"
            raise ArgumentError("block_tokens", None, allowed)
        self._options = options
        self.fields = _fields(options.columns)
        self.units_per_s = _UNITS_PER_S[options.time_unit]
        self.block_tokens = options.block_tokens
        self._unit = options.time_unit

    def described(self, format: str) -> Described:
        """Describe the requests of a format that is read so.

        Parameters
        ----------
        format : str
            Name of the format.

        Returns
        -------
        Described
            With the options as used.
        """
        columns = ",".join(f"{name}={field}" for name, field in self.fields.items())
        options = self._options
        used: list[tuple[str, Any]] = [
            ("columns", columns),
            ("time_unit", self._unit),
            ("block_tokens", self.block_tokens),
            ("chained", bool(options.chained)),
        ]
        if options.no_sort:
            used.append(("no_sort", True))
        return Described(
            format=format,
            block_tokens=self.block_tokens,
            units_per_s=self.units_per_s,
            chained=bool(options.chained),
            options=tuple(used),
            no_sort=bool(options.no_sort),
        )

    def check_clock(self, path: str, columns: Columns) -> None:
        """Check that the times make sense in the declared unit.

        Parameters
        ----------
        path : str
            The file, for the message.
        columns : Columns
            Its requests.

        Raises
        ------
        TraceError
            If they do not; suggests a unit in which they would.
        """
        span = max(columns.arrival) - min(columns.arrival)

        def fits(units_per_s: float) -> bool:
            span_s = span / units_per_s
            many = len(columns) >= _FEW_REQUESTS
            dense = many and len(columns) > _MAX_REQUESTS_PER_S * span_s > 0
            return span_s <= _MAX_SPAN_S and not dense

        if fits(self.units_per_s):
            return
        fitting = [unit for unit, per_s in _UNITS_PER_S.items() if fits(per_s)]
        hint = f"; did you mean {' or '.join(fitting)}?" if fitting else ""
        raise TraceError(
            f"{path}: time_unit: got {self._unit}, in which {len(columns)} requests "
            f"span {span / self.units_per_s:g} s{hint}"
        )


def _fields(text: str | None) -> dict[str, str]:
    """Columns by our names; those not named have our names."""
    fields = {name: name for name in _NAMES}
    for pair in text.split(",") if text is not None else ():
        matched = _PAIR.fullmatch(pair)
        if matched is None or matched[1] not in fields:
            allowed = f"NAME=COLUMN,... with names {', '.join(_NAMES)}"
            raise ArgumentError("columns", text, allowed)
        fields[matched[1]] = matched[2]
    if len(set(fields.values())) != len(fields):
        raise ArgumentError("columns", text, "each column once")
    return fields


class DeclaredRows:
    """Checks rows of a declared file and appends them to columns.

    Parameters
    ----------
    declaration : Declaration
        What the user says.
    """

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._sessions = SessionCodes()
        self._ids = IdCodes()
        self.columns = Columns(self._ids.others, self._sessions.seen)

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row; raises `Wrong` and changes no column.

        Parameters
        ----------
        row : mapping
            Values by the file's columns.
        """
        fields = self._declaration.fields
        time = number(row, fields["time"], "a number, 0 or more, below 2**63")
        input_tokens = count(row, fields["input"], 1)
        output = fields["output"]
        output_tokens = 0 if row.get(output) is None else count(row, output, 0)
        session = self._sessions.code(row, fields["session"])
        type_codes = self.columns.type_codes
        source_type = short_text(row, fields["type"], type_codes)
        ids = self._ids.codes(row, fields["ids"])
        block_tokens = self._declaration.block_tokens
        check_number(len(ids), input_tokens, block_tokens, fields["ids"])
        self.columns.add(time, input_tokens, output_tokens, session, ids, source_type)

    def add_usual(self, raws: list[bytes]) -> bool:
        """Append JSON rows at once where all are of the usual form.

        Parameters
        ----------
        raws : list of bytes
            The lines.

        Returns
        -------
        bool
            Whether they are; nothing is appended if not.
        """
        fields = self._declaration.fields
        if (rows := flat_rows(raws)) is None:
            return False
        output = fields["output"]
        times = numbers(rows, fields["time"])
        tokens = counts(rows, fields["input"], 1)
        has_output = any(row.get(output) is not None for row in rows)
        outputs = counts(rows, output, 0) if has_output else [0] * len(rows)
        ids = small_ids(rows, fields["ids"])
        names = session_names(rows, fields["session"])
        types = texts(rows, fields["type"], self.columns.type_codes)
        if times is None or tokens is None or outputs is None or ids is None:
            return False
        if names is None or types is None:
            return False
        block_tokens = self._declaration.block_tokens
        if not have_fitting(ids.sizes, tokens, block_tokens, partial=None):
            return False
        sessions = session_codes(names, self._sessions)
        given = types if set(types) != {None} else None
        self.columns.extend(times, tokens, outputs, sessions, ids, given)
        return True

    def build(self, format: str, source: Source, bad_rows: BadRows) -> Trace:
        """Trace of all rows.

        Parameters
        ----------
        format : str
            Name of the format.
        source : Source
            The file.
        bad_rows : BadRows
            After `finish`.

        Returns
        -------
        Trace
            Sorted by (time, line).

        Raises
        ------
        TraceError
            If the unit of time cannot be right, or no row has ids.
        """
        declaration = self._declaration
        if not self.columns.ids:
            raise TraceError(
                f"{source.path}: no reuse information: no row has ids in the column "
                f"{declaration.fields['ids']} (lengths alone say nothing about hits)"
            )
        declaration.check_clock(source.path, self.columns)
        return build(self.columns, declaration.described(format), source, bad_rows)


def ids_of_text(text: str, field: str) -> list[int | str]:
    """Ids in a cell of a table.

    Parameters
    ----------
    text : str
        Ids apart by blanks, ";" or "|", in brackets or not; or a JSON list.
        Digits alone are an integer, anything else is a string.
    field : str
        The column, for the message.

    Returns
    -------
    list of int or str
        The ids.

    Raises
    ------
    Wrong
        If one is longer than 256 characters.
    """
    items = text.strip().strip("[]").replace(",", " ").replace(";", " ")
    ids: list[int | str] = []
    for item in items.replace("|", " ").split():
        bare = item.strip("\"'")
        if len(bare) > 256:
            raise Wrong(field, "an id of more than 256 characters", "shorter ids")
        quoted = bare != item
        plain = bare.isascii() and bare.isdigit()
        ids.append(int(bare) if plain and not quoted else bare)
    return ids
