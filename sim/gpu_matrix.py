"""A published GPU measurement, cell by cell: its workloads, and what is fitted to it.

The table's cells are runs of three workloads, one request at a time, under vLLM 0.24
with a CPU tier of several sizes. A prompt is a short common head, one long context,
then a question of its own. Lengths were not published: one set for each workload is
chosen so that the counters of the cells without the scored policy come out best, and
the timing is fitted to the same cells. The other cells check both.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotset.policies.admission import ALWAYS
from hotset.policies.errors import PolicyError
from hotset.policies.registry import POLICIES
from hotset.sim.engines import engine
from hotset.sim.questions import BLOCK_TOKENS as BLOCK_TOKENS
from hotset.sim.questions import prompts_trace
from hotset.sim.replay import Replay, RunConfig
from hotset.sim.workload import Workload
from hotset.traces.model import Provenance, Trace

CHUNK_TOKENS = 64
GPU_BLOCKS = 1080
STEP_TOKENS = 2048
KV_BYTES_PER_TOKEN = 57_344
CHUNK_BYTES = CHUNK_TOKENS * KV_BYTES_PER_TOKEN
BUDGET_BYTES = {
    "NA": 0,
    "B0": 8 << 30,
    "B1": 3 << 30,
    "B2": 3 << 29,
    "B3": 3 << 28,
}
SHARED_CONTEXTS = {"W1": {6: 2, 7: 5}, "W1S": {6: 2, 7: 5}, "W2": {}}
HOT_EXAMPLES = {"W1S": (0, 1)}
LENGTHS_OF = {"W1": "W1", "W1S": "W1", "W2": "W2"}
COUNTERS = ("prefix_cache_hits", "external_prefix_cache_hits", "offload_store_bytes")

_FILE = "gpu_matrix.json.gz"
_HEADS = (27, 43)  # looked through for the best lengths
_QUESTIONS = range(95, 160, 5)
_SHORTEST_TOKENS = max(_HEADS) + max(_QUESTIONS) + BLOCK_TOKENS
_LONGEST_TOKENS = (GPU_BLOCKS - 8) * BLOCK_TOKENS  # with an answer
_MOST = 1e15
_RELEVANCE = "relevance:order=given"


@dataclass(frozen=True)
class Cell:
    """One published run.

    Parameters
    ----------
    name : str
        Arm, workload and budget, such as ``A1_W1_B1``.
    workload : str
        W1, W1S or W2.
    capacity_bytes : int
        Of the CPU tier, 0 without one.
    counters : dict
        Published counters.
    examples : tuple of int
        By request, in order of issue.
    ttft_s : tuple of float
        By request.
    """

    name: str
    workload: str
    capacity_bytes: int
    counters: dict[str, float]
    examples: tuple[int, ...]
    ttft_s: tuple[float, ...]

    @property
    def has_tier(self) -> bool:
        """Whether there is a CPU tier."""
        return self.capacity_bytes > 0

    @property
    def is_fitted(self) -> bool:
        """Whether lengths and timing are fitted to this cell."""
        return self.name.startswith(("A0_", "A1_"))

    def policy(self, clamp: bool) -> str:
        """Return the text of the cell's policy.

        With ``clamp``, the cells that were measured with an earlier version of the
        scored policy get its rule.
        """
        if not self.name.startswith("A2_"):
            return "lru"
        if clamp and self.workload != "W1S":
            return f"{_RELEVANCE},floor_rule=clamp"
        return _RELEVANCE


@dataclass(frozen=True)
class Lengths:
    """Tokens of a prompt's parts: the common head, the context, the question."""

    head: int
    context: int
    question: int

    @property
    def total(self) -> int:
        """Tokens of a prompt."""
        return self.head + self.context + self.question


def locate_cells(path: Path) -> Path:
    """Return the file of the cells.

    Parameters
    ----------
    path : Path
        The file itself; a folder that holds `gpu_matrix.json.gz`; or a page (.md)
        beside it that tells of it.
    """
    if path.is_dir():
        return path / _FILE
    return path.with_name(_FILE) if path.suffix == ".md" else path


def read_cells(path: Path) -> list[Cell]:
    """Read the published cells from a file, plain or gzip.

    Raises
    ------
    PolicyError
        If the file cannot be read or does not hold them.
    """
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if path.suffix == ".gz" else raw
        cells = [_cell(values) for values in _listed(json.loads(text))]
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, EOFError, zlib.error, RecursionError):
        raise PolicyError(f"{path}: not the published cells") from None
    for name in LENGTHS_OF:
        mine = [cell for cell in cells if cell.is_fitted and cell.workload == name]
        if not any(cell.has_tier for cell in mine):
            raise PolicyError(
                f"{path}: no cell A1_{name}_... with a CPU tier, to which lengths and "
                "timing are fitted"
            )
    return cells


def _listed(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError("a list is needed")
    return values


def _cell(values: dict[str, Any]) -> Cell:
    requests = _listed(values["requests"])
    name = values["cell"]
    if not isinstance(name, str) or not name.isprintable():
        raise TypeError("a cell has a name")
    if not requests or values["workload"] not in LENGTHS_OF:
        raise ValueError("a cell of a known workload has requests")
    queries = _number(values["metrics"]["prefix_cache_queries"])
    if not _SHORTEST_TOKENS < queries / len(requests) < _LONGEST_TOKENS:
        raise ValueError("no prompt of the workloads is as long")
    return Cell(
        name=name,
        workload=values["workload"],
        capacity_bytes=BUDGET_BYTES[values["budget"]],
        counters={name: _number(values["metrics"][name]) for name in COUNTERS}
        | {"queries": queries},
        examples=tuple(int(_number(request["example"])) for request in requests),
        ttft_s=tuple(_number(request["ttft_s"], least=1e-9) for request in requests),
    )


def _number(value: Any, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number is needed")
    if not least <= value <= _MOST:
        raise ValueError(f"a number from {least} to {_MOST} is needed")
    return float(value)


def make_trace(cell: Cell, lengths: Lengths, output_tokens: int = 24) -> Trace:
    """Return a cell's requests as a trace of GPU blocks."""
    shared_by = SHARED_CONTEXTS[cell.workload]
    contexts = [shared_by.get(e, e) for e in cell.examples]
    parts = (lengths.head, lengths.context, lengths.question)
    trace = prompts_trace(contexts, parts, output_tokens, "published cells")
    n = trace.num_requests
    provenance = Provenance("published cells", cell.name, "0" * 64, n, 0)
    return replace(trace, provenance=provenance)


def run_config(cell: Cell, clamp: bool) -> RunConfig:
    """Return a cell's policy, capacity and engine."""
    policy, params = POLICIES.parse(cell.policy(clamp))
    blocks = cell.capacity_bytes // CHUNK_BYTES * (CHUNK_TOKENS // BLOCK_TOKENS)
    return RunConfig(
        policy,
        params,
        ALWAYS,
        ALWAYS.params(),
        blocks,
        engine("vllm-0.24"),
        gpu_blocks=GPU_BLOCKS,
        step_tokens=STEP_TOKENS,
    )


def counters_of(gpu_tokens: int, hit_tokens: int, stores: int) -> dict[str, int]:
    """Return the counters as the server's metrics name them."""
    return {
        "prefix_cache_hits": gpu_tokens,
        "external_prefix_cache_hits": hit_tokens - gpu_tokens,
        "offload_store_bytes": stores * CHUNK_BYTES,
    }


def error_of(name: str, published: float, simulated: float) -> float:
    """Return the relative error of a counter."""
    return abs(simulated - published) / published if published else float(simulated > 0)


def is_within(name: str, published: float, simulated: float) -> bool:
    """Return whether a counter is within 3 %, or 2,000 tokens where it is small."""
    difference = abs(simulated - published)
    if name != "offload_store_bytes" and published < 60_000:
        return difference <= 2000
    return difference <= 0.03 * published


def fit_lengths(cells: Sequence[Cell]) -> dict[str, Lengths]:
    """Return the lengths of each workload that the fitted cells' counters agree with.

    The whole prompt is the mean of the published queries; the head and the question
    are looked for in ranges, by the largest relative error of any counter.
    """
    found = {}
    for name in sorted(set(LENGTHS_OF.values())):
        mine = [c for c in cells if c.is_fitted and LENGTHS_OF[c.workload] == name]
        queries = sum(cell.counters["queries"] for cell in mine)
        total = round(queries / sum(len(cell.examples) for cell in mine))
        with_tier = [cell for cell in mine if cell.has_tier]
        tried = [
            Lengths(head, total - head - question, question)
            for head in _HEADS
            for question in _QUESTIONS
        ]
        found[name] = min(tried, key=lambda lengths: _misfit(with_tier, lengths))
    return found


def _misfit(cells: Sequence[Cell], lengths: Lengths) -> tuple[int, float]:
    """Return how many counters miss the bar, then the sum of squared errors."""
    missed, squares = 0, 0.0
    for cell in cells:
        workload = Workload(make_trace(cell, lengths), chunk_tokens=CHUNK_TOKENS)
        result = Replay(workload, run_config(cell, clamp=True)).run()
        counters = counters_of(result.gpu_hit_tokens, result.hit_tokens, result.stores)
        for name, value in counters.items():
            published = cell.counters[name]
            missed += not is_within(name, published, value)
            if published >= 60_000:
                squares += error_of(name, published, value) ** 2
    return missed, squares
