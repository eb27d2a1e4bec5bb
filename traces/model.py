"""The trace: requests and the cache blocks they refer to, as columns."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotset.traces.errors import TraceError
from hotset.traces.intern import IdArray, densify, narrow
from hotset.traces.model_checks import OPTIONAL as OPTIONAL
from hotset.traces.model_checks import check

Tail = Literal["drop", "count"]
TAILS: tuple[Tail, ...] = ("drop", "count")

_NAMES = ("block_names", "session_names")


@dataclass(frozen=True)
class Provenance:
    """Where a trace came from and what was done to it.

    Attributes
    ----------
    format : str
        Name of the format that was read, or "generate".
    path : str
        The path as the user gave it, "-" for standard input.
    sha256 : str
        Digest of the file's raw (compressed, if it is) bytes; of the columns
        for a generated trace; of a folder, see `Folder.sha256`.
    rows_read, rows_rejected : int
        Rows seen, rejected ones included; rows rejected.
    steps : tuple of str
        What was done to the rows after reading, in order.
    warnings : tuple of str
        What the user should know before trusting results.
    origin : Provenance or None
        The source that an exchange file was made from.
    options : tuple of (str, value)
        Options of the format as they were used, defaults included.
    """

    format: str
    path: str
    sha256: str
    rows_read: int
    rows_rejected: int
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    origin: "Provenance | None" = None
    options: tuple[tuple[str, Any], ...] = ()


class Accesses(NamedTuple):
    """Block references of a trace under one tail rule.

    Attributes
    ----------
    offsets : int64[R+1]
        Request r refers to `ids[offsets[r]:offsets[r+1]]`, head first.
    ids : int32[A] or int64[A]
        Blocks, 0..D-1 in order of first appearance.
    num_distinct : int
        D.
    """

    offsets: NDArray[np.int64]
    ids: IdArray
    num_distinct: int


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in order of arrival, columnar; immutable and checked.

    The arrays become read-only; the caller hands them over and keeps no
    writable reference.

    Attributes
    ----------
    block_tokens : int
        Tokens per block, > 0.
    request_offsets : int64[R+1]
        Request r refers to `block_ids[request_offsets[r]:request_offsets[r+1]]`.
    block_ids : int32[A] or int64[A]
        Blocks, 0..U-1 in order of first appearance (int64 above 2**31). Equal
        ids mean equal content behind equal content.
    arrival_s : float64[R]
        Seconds, finite, non-decreasing.
    input_tokens, output_tokens : int64[R]
        Prompt tokens, > 0; generated tokens, >= 0.
    session : int64[R]
        Session of each request, -1 unknown.
    provenance : Provenance
        Source and history.
    id_scope : {"global", "local"}
        Whether ids mean the same in every file of the format.
    chained : bool
        Whether the format declares that an id stands for the whole prefix.
    source_type : int16[R] or None
        Codes into `source_type_names`, -1 none.
    priority : float64[R] or None
        The client's priority, NaN none.
    tenant : int32[R] or None
        Codes into `tenant_names`, -1 none.
    ttl_s : float64[R] or None
        Seconds that the client asked to keep the request, > 0, NaN none.
    end_session : bool[R] or None
        Whether the request is the last of its session.
    block_names, session_names : int64[U], int64[S] or None
        What the source calls each block and session, as numbers of 0 or more,
        each once: see `names`. None where its names mean nothing elsewhere.

    Raises
    ------
    TraceError
        If any of the above does not hold.
    """

    block_tokens: int
    request_offsets: NDArray[np.int64]
    block_ids: IdArray
    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    session: NDArray[np.int64]
    provenance: Provenance
    id_scope: Literal["global", "local"] = "global"
    chained: bool = True
    source_type: NDArray[np.int16] | None = None
    source_type_names: tuple[str, ...] = ()
    priority: NDArray[np.float64] | None = None
    tenant: NDArray[np.int32] | None = None
    tenant_names: tuple[str, ...] = ()
    ttl_s: NDArray[np.float64] | None = None
    end_session: NDArray[np.bool_] | None = None
    block_names: NDArray[np.int64] | None = None
    session_names: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name, dtype in (
            ("request_offsets", np.int64),
            ("block_ids", None),
            ("arrival_s", np.float64),
            ("input_tokens", np.int64),
            ("output_tokens", np.int64),
            ("session", np.int64),
            ("source_type", np.int16),
            ("priority", np.float64),
            ("tenant", np.int32),
            ("ttl_s", np.float64),
            ("end_session", np.bool_),
            ("block_names", np.int64),
            ("session_names", np.int64),
        ):
            value = getattr(self, name)
            if value is not None or name not in (*OPTIONAL, *_NAMES):
                object.__setattr__(
                    self, name, _column(f"{self.provenance.path}: {name}", value, dtype)
                )
        check(self)

    @property
    def num_requests(self) -> int:
        """R, the number of requests."""
        return self.arrival_s.size

    @property
    def num_accesses(self) -> int:
        """A, the number of block references, partial tails included."""
        return self.block_ids.size

    @property
    def num_blocks(self) -> int:
        """U, the number of distinct blocks, partial tails included."""
        return int(self.block_ids.max()) + 1 if self.block_ids.size else 0

    @property
    def full_blocks(self) -> NDArray[np.int64]:
        """Ids per request that cover a whole block, int64[R]."""
        return np.minimum(
            np.diff(self.request_offsets), self.input_tokens // self.block_tokens
        )

    def accesses(self, tail: Tail) -> Accesses:
        """Block references under a tail rule.

        Parameters
        ----------
        tail : {"drop", "count"}
            "drop" keeps full blocks only, "count" keeps partial ones too.

        Returns
        -------
        Accesses
            Read-only arrays, ids renumbered densely.

        Raises
        ------
        TraceError
            If `tail` is neither.
        """
        if tail not in TAILS:
            raise TraceError(f"tail: got {tail!r}, allowed: drop, count")
        sizes = np.diff(self.request_offsets)
        keep = self.full_blocks if tail == "drop" else sizes
        if np.array_equal(keep, sizes):
            return Accesses(self.request_offsets, self.block_ids, self.num_blocks)
        offsets = np.zeros(keep.size + 1, np.int64)
        np.cumsum(keep, out=offsets[1:])
        # Position of each kept access: its request's start plus its depth.
        shift = np.repeat(self.request_offsets[:-1] - offsets[:-1], keep)
        kept = self.block_ids[np.arange(offsets[-1], dtype=np.int64) + shift]
        dense, num_distinct = densify(kept)
        ids = narrow(dense)
        for array in (offsets, ids):
            array.flags.writeable = False
        return Accesses(offsets, ids, num_distinct)

    def named_blocks(self) -> IdArray:
        """Block references as the source has them, as numbers.

        Returns
        -------
        int32[A] or int64[A]
            `block_ids` where the source's names mean nothing elsewhere.
        """
        if self.block_names is None:
            return self.block_ids
        return narrow(self.block_names[self.block_ids])

    def named_sessions(self) -> NDArray[np.int64]:
        """Session of each request as the source has it, as a number.

        Returns
        -------
        int64[R]
            -1 unknown; `session` where names mean nothing elsewhere.
        """
        if self.session_names is None:
            return self.session
        # The last place is that of -1.
        return np.append(self.session_names, -1)[self.session]

    def equals(self, other: "Trace") -> bool:
        """Whether all columns of requests and declarations agree.

        Parameters
        ----------
        other : Trace
            Compared with this one; provenance is not, nor what the sources
            call blocks and sessions.

        Returns
        -------
        bool
            NaN equals NaN; dtypes must agree as well.
        """
        for name in self.__dataclass_fields__:
            if name in ("provenance", *_NAMES):
                continue
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                floats = mine.dtype.kind == "f"
                same = mine.dtype == theirs.dtype and np.array_equal(
                    mine, theirs, equal_nan=floats
                )
            else:
                same = type(mine) is type(theirs) and mine == theirs
            if not same:
                return False
        return True


def _column(where: str, value: Any, dtype: Any) -> NDArray[Any]:
    """One-dimensional read-only column of the declared type, without loss."""
    array = np.asarray(value)
    if array.ndim != 1:
        raise TraceError(f"{where}: got {array.ndim} dimensions, allowed: 1")
    if dtype is None:
        if array.dtype.kind not in "iu" and array.size:
            raise TraceError(f"{where}: got {array.dtype}, allowed: integers")
        # int32 stays as it is: it may be a file that is mapped into memory.
        if array.dtype != np.int32:
            array = narrow(array.astype(np.int64, copy=False))
    elif array.dtype != dtype:
        if array.size and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise TraceError(f"{where}: got {array.dtype}, allowed: {np.dtype(dtype)}")
        cast = array.astype(dtype)
        if not np.array_equal(cast, array, equal_nan=array.dtype.kind == "f"):
            raise TraceError(f"{where}: a value does not fit {np.dtype(dtype)}")
        array = cast
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
