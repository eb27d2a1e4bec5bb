"""Requests as a reader finds them, growing columns that become a trace."""

from array import array
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.intern import Codes, densify, intern_ids
from hotset.traces.json_batch import Ids
from hotset.traces.model import Provenance, Trace
from hotset.traces.names import id_names, session_names
from hotset.traces.rows import BadRows


class Columns:
    """Requests read so far, in the order of the file.

    Parameters
    ----------
    other_ids : Codes or None
        The source's ids that are no small integers, where its ids mean something
        in other files too; filled while rows are read.
    sessions : Codes or None
        The source's sessions, likewise.
    """

    def __init__(
        self, other_ids: Codes | None = None, sessions: Codes | None = None
    ) -> None:
        self.other_ids = other_ids
        self.sessions = sessions
        self.arrival = array("d")
        self.input_tokens = array("q")
        self.output_tokens = array("q")
        self.session = array("q")
        self.source_type = array("h")
        self.sizes = array("q")
        self.ids = array("q")
        self.type_codes = Codes()

    def __len__(self) -> int:
        return len(self.arrival)

    def add(
        self,
        arrival: float,
        input_tokens: int,
        output_tokens: int,
        session: int,
        ids: "array[int]",
        source_type: str | None = None,
    ) -> None:
        """Append a request.

        Parameters
        ----------
        arrival : float
            Its time, in any unit.
        input_tokens, output_tokens : int
            Lengths.
        session : int
            Code of its session, -1 for none.
        ids : array of int64
            Codes of its blocks, head first: equal codes mean equal (scope, id).
        source_type : str or None
            Where the request comes from.
        """
        self.arrival.append(arrival)
        self.input_tokens.append(input_tokens)
        self.output_tokens.append(output_tokens)
        self.session.append(session)
        self.sizes.append(len(ids))
        self.ids.extend(ids)
        if source_type is not None:
            missing = len(self.arrival) - 1 - len(self.source_type)
            if missing:
                self.source_type.extend([-1] * missing)
            self.source_type.append(self.type_codes.code(source_type))

    def extend(
        self,
        arrivals: list[float],
        input_tokens: list[int],
        output_tokens: list[int],
        sessions: list[int],
        ids: Ids,
        source_types: list[str | None] | None = None,
    ) -> None:
        """Append requests.

        Parameters
        ----------
        arrivals : list of float
            As of `add`, as all others.
        input_tokens, output_tokens, sessions : list of int
            One for each.
        ids : Ids
            Ids of all of them.
        source_types : list of str or None, or None
            None where no request has one.
        """
        if source_types is not None:
            self._extend_types(source_types)
        self.arrival.extend(arrivals)
        self.input_tokens.extend(input_tokens)
        self.output_tokens.extend(output_tokens)
        self.session.extend(sessions)
        self.sizes.extend(ids.sizes)
        self.ids.extend(ids.ids)

    def _extend_types(self, source_types: list[str | None]) -> None:
        """Append where requests come from; those before them had no type."""
        missing = len(self.arrival) - len(self.source_type)
        self.source_type.extend([-1] * missing)
        code = self.type_codes.code
        self.source_type.extend(
            -1 if text is None else code(text) for text in source_types
        )


Moved = tuple[NDArray[np.float64], NDArray[np.int64]]


@dataclass(frozen=True)
class Described:
    """What a format knows about its requests as a whole.

    Attributes
    ----------
    format : str
        Its name.
    block_tokens : int
        Tokens per block.
    units_per_s : float
        Of the arrival times.
    chained : bool
        Whether an id stands for its whole prefix.
    id_scope : {"global", "local"}
        See `Trace`.
    options : tuple of (str, value)
        Options of the format as they were used, defaults included.
    no_sort : bool
        Whether rows that are earlier than the row before them are an error.
    """

    format: str
    block_tokens: int
    units_per_s: float = 1.0
    chained: bool = True
    id_scope: Literal["global", "local"] = "global"
    options: tuple[tuple[str, Any], ...] = ()
    no_sort: bool = False


def build(
    columns: Columns,
    about: Described,
    source: Source,
    bad_rows: BadRows,
    warnings: tuple[str, ...] = (),
    moved: Moved | None = None,
) -> Trace:
    """Sort and intern the requests.

    Parameters
    ----------
    columns : Columns
        The requests; at least one.
    about : Described
        Of the format.
    source : Source
        What they were read from.
    bad_rows : BadRows
        Knows how many rows were seen and rejected.
    warnings : tuple of str
        What the reader noticed.
    moved : tuple of (float64[R], int64[R]) or None
        For files whose order is not meant to be the order of time: arrivals
        that count in place of the columns', and what orders equal ones before
        their place does.

    Returns
    -------
    Trace
        Sorted by (arrival, place in the file).
    """
    arrival = np.frombuffer(columns.arrival, np.float64)
    sizes = np.frombuffer(columns.sizes, np.int64)
    ids = np.frombuffer(columns.ids, np.int64) if columns.ids else np.zeros(0, np.int64)
    noticed = list(warnings)
    if moved is None:
        if num_backward := int(np.count_nonzero(np.diff(arrival) < 0)):
            text = f"rows earlier than the row before them: {num_backward}"
            if about.no_sort:
                raise TraceError(f"{source.path}: {text}, allowed: none (no_sort)")
            noticed.append(f"{text}; sorted by time, then line")
        order = np.argsort(arrival, kind="stable")
    else:
        arrival = moved[0]
        order = np.lexsort((moved[1], arrival))
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes[order], out=offsets[1:])
    if np.any(np.diff(order) < 0):
        starts = (np.cumsum(sizes) - sizes)[order]
        shift = np.repeat(starts - offsets[:-1], sizes[order])
        ids = ids[np.arange(ids.size, dtype=np.int64) + shift]
    others = columns.other_ids
    named = None if others is None else id_names(ids, others)
    interned = intern_ids(ids, offsets, about.chained, named)
    if interned.num_unchained:
        noticed.append(
            f"ids behind more than one parent: {interned.num_unchained}; they do not "
            "stand for whole prefixes, so blocks are told apart by (parent, id)"
        )
    session = np.frombuffer(columns.session, np.int64)[order]
    sessions = None
    if columns.sessions is not None and columns.sessions:
        sessions = session_names(session, columns.sessions.values())
    names = columns.type_codes.values()
    types = None
    if names:
        types = np.full(order.size, -1, np.int16)
        types[: len(columns.source_type)] = columns.source_type
        types = types[order]
    return Trace(
        block_tokens=about.block_tokens,
        request_offsets=offsets,
        block_ids=interned.ids,
        arrival_s=arrival[order] / about.units_per_s,
        input_tokens=np.frombuffer(columns.input_tokens, np.int64)[order],
        output_tokens=np.frombuffer(columns.output_tokens, np.int64)[order],
        session=_in_order(session),
        provenance=Provenance(
            format=about.format,
            path=source.path,
            sha256=source.sha256(),
            rows_read=bad_rows.rows_read,
            rows_rejected=bad_rows.count + bad_rows.left_out,
            warnings=tuple(noticed),
            options=about.options,
        ),
        id_scope=about.id_scope,
        chained=about.chained,
        source_type=types,
        source_type_names=tuple(map(str, names)),
        block_names=None if others is None else interned.names,
        session_names=sessions,
    )


def _in_order(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sessions renumbered in order of first appearance; -1 stays."""
    known = session >= 0
    numbered = session.copy()
    numbered[known] = densify(session[known])[0]
    return numbered
