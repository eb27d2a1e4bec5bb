"""Requests as a generator emits them, and prompts that grow block by block."""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK_TOKENS = 512

_MS_PER_S = 1000.0


class LogColumns(NamedTuple):
    """Columns of a request log; names as in `Trace`, ids not interned."""

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    arrival_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    session: NDArray[np.int64]


class RequestLog:
    """Requests in order of time."""

    def __init__(self) -> None:
        self._time_s = array("d")
        self._session = array("q")
        self._input_tokens = array("q")
        self._output_tokens = array("q")
        self._sizes = array("q")
        self._ids = array("q")

    def __len__(self) -> int:
        return len(self._time_s)

    def add(
        self,
        time_s: float,
        session: int,
        input_tokens: int,
        output_tokens: int,
        ids: Iterable[int],
    ) -> None:
        """Append a request.

        Parameters
        ----------
        time_s : float
            Seconds, not before the last request's.
        session : int
            Number of its session in order of first appearance, or -1.
        input_tokens, output_tokens : int
            Lengths.
        ids : Iterable of int
            Block ids, head first, one for a partial last block too.
        """
        before = len(self._ids)
        self._ids.extend(ids)
        self._sizes.append(len(self._ids) - before)
        self._time_s.append(time_s)
        self._session.append(session)
        self._input_tokens.append(input_tokens)
        self._output_tokens.append(output_tokens)

    def columns(self) -> LogColumns:
        """Columns of all requests.

        Returns
        -------
        LogColumns
            Times in whole milliseconds, so that text forms keep them exactly.
        """
        sizes = np.array(self._sizes, np.int64)
        offsets = np.zeros(sizes.size + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return LogColumns(
            offsets=offsets,
            ids=np.array(self._ids, np.int64),
            arrival_s=np.rint(np.array(self._time_s) * _MS_PER_S) / _MS_PER_S,
            input_tokens=np.array(self._input_tokens, np.int64),
            output_tokens=np.array(self._output_tokens, np.int64),
            session=np.array(self._session, np.int64),
        )


class IdSource:
    """Ids that were never used."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        """Fresh ids.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        range
            Consecutive ids.
        """
        first = self._next
        self._next += count
        return range(first, self._next)


class SharedPrefix:
    """Text at the head of many prompts, with the ids of its full blocks.

    Parameters
    ----------
    tokens : int
        Its length.
    fresh : IdSource
        Where ids come from.
    """

    def __init__(self, tokens: int, fresh: IdSource) -> None:
        self.tokens = tokens
        self.ids = fresh.take(tokens // BLOCK_TOKENS)


class GrowingPrompt:
    """Prompt that only grows: each request's begins with the one before.

    A full block keeps its id. The partial block at the end has an id of its
    own in each request, since an id stands for all the text up to it.

    Parameters
    ----------
    prefix : SharedPrefix
        What the prompt begins with.
    fresh : IdSource
        Where ids come from.
    """

    def __init__(self, prefix: SharedPrefix, fresh: IdSource) -> None:
        self.tokens = prefix.tokens
        self._fresh = fresh
        self._full = array("q", prefix.ids)

    def grow(self, tokens: int) -> None:
        """Append text to the prompt.

        Parameters
        ----------
        tokens : int
            Length of the text.
        """
        self.tokens += tokens
        missing = self.tokens // BLOCK_TOKENS - len(self._full)
        self._full.extend(self._fresh.take(missing))

    def ids(self) -> "array[int]":
        """Ids of the prompt as it is now.

        Returns
        -------
        array of int64
            Head first, a new id for the partial last block if there is one.
        """
        partial = 1 if self.tokens % BLOCK_TOKENS else 0
        return self._full + array("q", self._fresh.take(partial))
