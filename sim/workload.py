"""A trace made ready for replay: blocks or chunks, what policies are told, the future.

One workload serves many runs; its arrays are only read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from hotset.policies.arrays import Int64Array, KeyArray
from hotset.policies.belady import next_uses
from hotset.policies.errors import PolicyError
from hotset.policies.request import (
    INPUT_TOKENS,
    NUM_BLOCKS,
    PRIORITY,
    REQUEST_FIELDS,
    SOURCE_TYPE,
    SOURCE_TYPES,
    TURN,
)
from hotset.sim.loop import Stream
from hotset.traces.model import Accesses, Tail, Trace

_MOST_CHUNK_TOKENS = 1 << 31  # of any prompt


class Workload:
    """A trace under one tail rule, cut into blocks or into chunks of several.

    Parameters
    ----------
    trace : Trace
        The requests.
    tail : "drop" or "count"
        Whether a last, partial block is left out.
    chunk_tokens : int, optional
        Tokens of a cached unit, a multiple of the trace's blocks; default one block.

    Raises
    ------
    PolicyError
        If the chunk is no multiple, larger than any prompt can be, or larger than a
        block with ``tail="count"``.
    """

    def __init__(
        self, trace: Trace, tail: Tail = "drop", chunk_tokens: int | None = None
    ) -> None:
        self.trace = trace
        self.tail = tail
        self.chunk_tokens = trace.block_tokens if chunk_tokens is None else chunk_tokens
        if self.chunk_tokens < 1 or self.chunk_tokens % trace.block_tokens:
            raise PolicyError(
                f"a chunk of {self.chunk_tokens} tokens: a multiple of the trace's "
                f"{trace.block_tokens} is needed"
            )
        if self.chunk_tokens > _MOST_CHUNK_TOKENS:
            raise PolicyError(
                f"a chunk of {self.chunk_tokens} tokens: at most "
                f"{_MOST_CHUNK_TOKENS:,} are allowed"
            )
        if self.chunk_tokens > trace.block_tokens and tail == "count":
            raise PolicyError("chunks hold full blocks only: --tail count needs none")
        self.blocks = trace.accesses(tail)
        self.chunks = _chunks(self.blocks, self.blocks_per_chunk)

    @property
    def blocks_per_chunk(self) -> int:
        """Trace blocks in a cached unit."""
        return self.chunk_tokens // self.trace.block_tokens

    @cached_property
    def stream(self) -> Stream:
        """The requests as the native loop reads them."""
        trace = self.trace
        features = np.zeros((trace.num_requests, REQUEST_FIELDS), np.float64)
        features[:, INPUT_TOKENS] = trace.input_tokens
        features[:, NUM_BLOCKS] = np.diff(self.chunks.offsets)
        features[:, SOURCE_TYPE] = _source_types(trace)
        features[:, PRIORITY] = 1.0 if trace.priority is None else trace.priority
        features[:, TURN] = _turns(trace.session)
        return Stream(
            offsets=self.chunks.offsets,
            ids=self.chunks.ids,
            input_tokens=trace.input_tokens,
            arrival_s=trace.arrival_s,
            features=features,
        )

    @cached_property
    def next_use(self) -> Int64Array:
        """By access, the request that next uses the block."""
        chunks = self.chunks
        return next_uses(chunks.offsets, chunks.ids, chunks.num_distinct)

    @property
    def longest_blocks(self) -> int:
        """Trace blocks of the longest request."""
        return int(np.diff(self.blocks.offsets).max(initial=0))


def beginning(trace: Trace, count: int) -> Trace:
    """Return the first requests of a trace."""
    accesses = trace.request_offsets[count]
    columns: dict[str, Any] = {
        name: getattr(trace, name)[:count]
        for name in ("arrival_s", "input_tokens", "output_tokens", "session")
    }
    for name in ("source_type", "priority", "tenant", "ttl_s", "end_session"):
        column = getattr(trace, name)
        columns[name] = None if column is None else column[:count]
    return replace(
        trace,
        request_offsets=trace.request_offsets[: count + 1],
        block_ids=trace.block_ids[:accesses],
        block_names=None,  # of all blocks and sessions; nothing here asks for them
        session_names=None,
        **columns,
    )


def _source_types(trace: Trace) -> Int64Array:
    """Translate the trace's source types to the policies' ones, -1 elsewhere."""
    if trace.source_type is None:
        return np.full(trace.num_requests, -1, np.int64)
    known = [
        SOURCE_TYPES.index(name) if name in SOURCE_TYPES else -1
        for name in trace.source_type_names
    ]
    # Code -1, no type at all, takes the last entry.
    return np.array([*known, -1], np.int64)[trace.source_type]


def _turns(session: Int64Array) -> Int64Array:
    """Return the 1-based place of each request in its session, 0 without one."""
    order = np.argsort(session, kind="stable")
    ordered = session[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    sizes = np.diff(starts, append=len(ordered))
    turns = np.empty(len(session), np.int64)
    turns[order] = np.arange(len(ordered)) - np.repeat(starts, sizes) + 1
    turns[session < 0] = 0
    return turns


def _chunks(blocks: Accesses, blocks_per_chunk: int) -> Accesses:
    """Name each full chunk by its last block, which stands for all before it."""
    if blocks_per_chunk == 1:
        return blocks
    counts = np.diff(blocks.offsets) // blocks_per_chunk
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    last = np.repeat(blocks.offsets[:-1], counts) + (within + 1) * blocks_per_chunk - 1
    names, first_at, ids = np.unique(
        blocks.ids[last], return_index=True, return_inverse=True
    )
    # Ids in order of first appearance, as everywhere.
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(first_at, kind="stable")] = np.arange(len(names))
    dense: KeyArray = rank[ids].astype(blocks.ids.dtype)
    return Accesses(offsets=offsets, ids=dense, num_distinct=len(names))
