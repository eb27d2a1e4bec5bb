"""Wrong rows: collected and raised, or written to a reject file and counted."""

import json
from typing import IO

from hotset.traces.errors import MAX_ROW_ERRORS, RowError, RowErrors, TraceError

_MAX_RAW_CHARS = 2000


class TooManyRejects(TraceError):
    """More rows were rejected than allowed; the reject file says which."""


class BadRows:
    """Wrong rows of one file.

    Parameters
    ----------
    path : str
        The file that is read, as the user gave it.
    skip : bool
        False raises `RowErrors` at the 20th wrong row or at the end; True
        counts them and goes on.
    rejects : IO[str] or None
        Where skipped rows go, one JSON object a line.
    max_share : float
        Largest share of rows that may be rejected, in [0, 1].

    Attributes
    ----------
    count, rows_read : int
        Rows rejected; rows seen, once `finish` was called.
    left_out : int
        Rows that are right but are no request that a cache would see.
    """

    def __init__(
        self,
        path: str,
        skip: bool = False,
        rejects: IO[str] | None = None,
        max_share: float = 0.1,
    ) -> None:
        self.path = path
        self.count = 0
        self.left_out = 0
        self.rows_read = 0
        self._skip = skip
        self._rejects = rejects
        self._max_share = max_share
        self._errors: list[RowError] = []

    def add(
        self,
        line: int,
        raw: bytes,
        field: str,
        got: str,
        allowed: str,
        file: str | None = None,
    ) -> None:
        """Reject a row.

        Parameters
        ----------
        line : int
            1-based line number.
        raw : bytes
            The line, or what of it is the row.
        field, got, allowed : str
            What is wrong; see `RowError`.
        file : str or None
            The file, where a trace has several; None means the trace's path.

        Raises
        ------
        RowErrors
            If not skipping and this is the 20th.
        """
        self.count += 1
        if len(self._errors) < MAX_ROW_ERRORS:
            where = self.path if file is None else file
            self._errors.append(RowError(where, line, field, got, allowed))
        if not self._skip and self.count == MAX_ROW_ERRORS:
            raise RowErrors(self._errors, stopped=True)
        if self._rejects is not None:
            row: dict[str, object] = {} if file is None else {"file": file}
            row |= {
                "line": line,
                "field": field,
                "got": got,
                "allowed": allowed,
                "raw": raw[:_MAX_RAW_CHARS].decode("utf-8", "backslashreplace"),
            }
            self._rejects.write(json.dumps(row) + "\n")

    def finish(self, rows_read: int) -> None:
        """Say whether the rows that are left may be used.

        Parameters
        ----------
        rows_read : int
            Rows seen, rejected ones included.

        Raises
        ------
        RowErrors
            If not skipping and any row was wrong.
        TooManyRejects
            If more than the allowed share was rejected, or nothing is left.
        TraceError
            If there were no rows.
        """
        self.rows_read = rows_read
        if rows_read == 0:
            raise TraceError(f"{self.path}: no rows, only blank lines")
        if self.count and not self._skip:
            raise RowErrors(self._errors, stopped=False)
        if self.left_out == rows_read:
            raise TraceError(f"{self.path}: no row is a request that was served")
        useless = self.count + self.left_out == rows_read
        if self.count > self._max_share * rows_read or (self.count and useless):
            raise TooManyRejects(
                f"{self.path}: {self.count} of {rows_read} rows rejected, allowed: "
                f"a share of {self._max_share:g}; the first: {self._errors[0]}"
            )
