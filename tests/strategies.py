"""Hypothesis strategies: prefix forests as traces, and scripts of operations."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from hotset.policies.request import SOURCE_TYPES
from hotset.traces.model import Provenance, Trace

BLOCK_TOKENS = 4


@dataclass(frozen=True)
class Forest:
    """Requests as paths of block ids; an id has one parent, whoever asks for it.

    ``short`` tokens are missing from a request's last block; with 0 it is full.
    """

    paths: list[list[int]]
    short: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    priorities: list[float] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)

    def trace(self) -> Trace:
        """The trace; columns that are not given get plain values."""
        n = len(self.paths)
        sizes = np.array([len(path) for path in self.paths], np.int64)
        short = np.array(self.short or [0] * n, np.int64)
        return Trace(
            block_tokens=BLOCK_TOKENS,
            request_offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            block_ids=np.array([i for path in self.paths for i in path], np.int64),
            arrival_s=np.cumsum(self.waits_s or [1.0] * n),
            # A request without blocks still has a token.
            input_tokens=np.maximum(sizes * BLOCK_TOKENS - short, 1),
            output_tokens=np.array(self.outputs or [1] * n, np.int64),
            session=np.array(self.sessions or [-1] * n, np.int64),
            provenance=Provenance("test", "forest", "0" * 64, n, 0),
            source_type=np.array(self.sources, np.int16) if self.sources else None,
            source_type_names=SOURCE_TYPES if self.sources else (),
            priority=np.array(self.priorities) if self.priorities else None,
        )


def _paths(moves: list[tuple[int, int, int]]) -> list[list[int]]:
    """Grow a forest: each move keeps a prefix of an earlier path and adds new ids."""
    paths: list[list[int]] = []
    known = 0
    for back, keep, grow in moves:
        earlier = paths[-1 - back % len(paths)] if paths else []
        path = [*earlier[:keep], *range(known, known + grow)]
        known += grow
        paths.append(path)
    return paths


@st.composite
def forests(
    draw: st.DrawFn,
    max_requests: int = 60,
    max_keep: int = 9,
    max_grow: int = 3,
    tags: bool = False,
) -> Forest:
    """Prefix forests of up to ``max_keep + max_grow`` blocks a request.

    With ``tags`` requests carry source types and priorities, some unknown.
    """
    move = st.tuples(
        st.integers(0, 7), st.integers(0, max_keep), st.integers(0, max_grow)
    )
    # The length first: lists without one are short on average.
    n = draw(st.integers(1, max_requests))
    paths = _paths(draw(st.lists(move, min_size=n, max_size=n)))

    def column(values: st.SearchStrategy) -> list:
        return draw(st.lists(values, min_size=n, max_size=n))

    return Forest(
        paths=paths,
        short=column(st.sampled_from([0, 0, 0, 1, BLOCK_TOKENS - 1])),
        outputs=column(st.integers(0, 9)),
        waits_s=column(st.sampled_from([0.0, 0.5, 1.0, 600.0])),
        sources=column(st.integers(-1, 3)) if tags else [],
        priorities=column(
            st.sampled_from([1.0, 1.0, float("nan"), 0.0, 0.5, 0.51, 2.0, 100.0])
        )
        if tags
        else [],
        sessions=column(st.integers(-1, 3)) if tags else [],
    )


def capacities(longest: int, distinct: int) -> st.SearchStrategy[int]:
    """Capacities from 1 block to more than everything; tight ones more often."""
    return st.one_of(
        st.integers(1, max(longest, 1)),
        st.integers(max(longest, 1), max(distinct, longest, 1) + 2),
    )
