from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hotset.traces.model import Provenance, Trace


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Trace]:
    """Trace from rows of ids; a row's length fills its blocks."""

    def make(rows: list[list[int]], block_tokens: int = 4, **columns: Any) -> Trace:
        sizes = np.array([len(row) for row in rows], np.int64)
        fields: dict[str, Any] = {
            "block_tokens": block_tokens,
            "request_offsets": np.concatenate([[0], np.cumsum(sizes)]),
            "block_ids": np.array([i for row in rows for i in row], np.int64),
            "arrival_s": np.arange(len(rows), dtype=np.float64),
            "input_tokens": np.maximum(1, sizes * block_tokens),
            "output_tokens": np.ones(len(rows), np.int64),
            "session": np.full(len(rows), -1, np.int64),
            "provenance": Provenance("test", "rows", "0" * 64, len(rows), 0),
        }
        return Trace(**{**fields, **columns})

    return make
