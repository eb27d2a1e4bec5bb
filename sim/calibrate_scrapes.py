"""Costs of a machine, fitted to the metrics of a server that ran on it.

A scrape is what a vLLM server shows at ``/metrics``: sums since its start. Two scrapes
in a row tell of the requests that ended between them: how many there were, what they
computed behind how many cached tokens, and what their prefill took. That gives a row
for the fit of `hotset.sim.calibrate`; of several requests in a row only the means are
known, so scrapes between single requests, or few alike ones, tell most. Links and
decode steps need two scrapes, or one of a server from its start on.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.policies.errors import PolicyError
from hotset.sim.calibrate import (
    Calibration,
    calibrate,
    fit_relative,
    fit_step,
    indistinct,
    read_measured,
)
from hotset.traces.record import HEAD

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?\s+(\S+)(?:\s+-?\d+)?")
_PREFIX = "vllm:"
_NUM_COSTS = 3  # k, a, b
_LEAST_STEPS = 3  # rows, to tell a decode step from its context

_PREFILL = "request_prefill_time_seconds"
_COMPUTED = "request_prefill_kv_computed_tokens"
_PROMPT = "request_prompt_tokens"
_GENERATED = "request_generation_tokens"
_STEP = ("inter_token_latency_seconds", "time_per_output_token_seconds")
_NEEDED = (f"{_PREFILL}_sum", f"{_COMPUTED}_sum", f"{_PROMPT}_sum")

_USED = (
    *_NEEDED,
    f"{_PREFILL}_count",
    f"{_GENERATED}_sum",
    *(f"{name}_{part}" for name in _STEP for part in ("sum", "count")),
    *(
        f"kv_offload_{way}_{part}"
        for way in ("load", "store")
        for part in ("bytes", "time")
    ),
)
_MOST = 1e18  # of a sum

Scrape = dict[str, float]


@dataclass(frozen=True)
class ServerCalibration:
    """Costs fitted to scrapes, and how well they fit; None is unknown.

    Errors are relative, of the prefill seconds of a row. ``rows`` are pairs of scrapes
    with requests between them. ``note`` says why prefill costs are unknown.
    """

    start_s: float | None
    token_s: float | None
    pair_s: float | None
    load_bytes_per_s: float | None
    store_bytes_per_s: float | None
    decode_s: float | None
    context_s: float | None
    rows: int
    requests: int
    median_error: float | None
    p95_error: float | None
    max_error: float | None
    note: str | None


def fit_files(paths: Sequence[Path]) -> Calibration | ServerCalibration:
    """Fit costs to a file of requests, or to scrapes.

    Raises
    ------
    PolicyError
        If there are several files and one is no scrape, or they cannot be fitted.
    """
    others = [path for path in paths if not is_scrape(path)]
    if not others:
        return calibrate_scrapes(paths)
    if len(paths) > 1:
        raise PolicyError(
            f"{others[0]}: only scrapes of a server's metrics can be several files"
        )
    return calibrate(read_measured(others[0]))


def is_scrape(path: Path) -> bool:
    """Return whether a file is a server's metrics rather than columns of requests.

    Raises
    ------
    PolicyError
        If it is a recording, which has no times.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False  # whoever reads it says why
    if head.startswith(HEAD):
        raise PolicyError(
            f"{path}: a recording has no times to first token; give the server's "
            "metrics, scraped during the same run, or a CSV of requests"
        )
    head = head.removeprefix(codecs.BOM_UTF8).lstrip()
    return head.startswith((b"# HELP", b"# TYPE", _PREFIX.encode()))


def read_scrape(path: Path) -> Scrape:
    """Read a scrape; series of one name are added up.

    Raises
    ------
    PolicyError
        If it cannot be read, is not in Prometheus' text format, or no vLLM's.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise PolicyError(f"{path}: {reason}") from None
    found: Scrape = {}
    # A label's value may hold what other line ends are made of.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        value = None if match is None else _number(match[2])
        if match is None or value is None:
            raise PolicyError(
                f"{path}, line {number}: {line[:60]!r} is no line of a server's metrics"
            )
        name = match[1].removeprefix(_PREFIX).removesuffix("_total")
        if match[1].startswith(_PREFIX):
            found[name] = found.get(name, 0.0) + value
    lacking = [name for name in _NEEDED if name not in found]
    if lacking:
        raise PolicyError(
            f"{path}: no {_PREFIX}{lacking[0]}: a vLLM server's metrics are needed"
        )
    return found


def calibrate_scrapes(paths: Sequence[Path]) -> ServerCalibration:
    """Fit costs to scrapes of one server, in order.

    Raises
    ------
    PolicyError
        If a file is no scrape, a sum falls, or no request ended between two.
    """
    scrapes = [read_scrape(path) for path in paths]
    if len(scrapes) == 1:
        scrapes.insert(0, dict.fromkeys(scrapes[0], 0.0))
        paths = [Path("the server's start"), *paths]
    steps = [
        _difference(paths[i], scrapes[i], paths[i + 1], scrapes[i + 1])
        for i in range(len(scrapes) - 1)
    ]
    rows = [step for step in steps if step.get(f"{_PREFILL}_count", 0) > 0]
    if not rows:
        raise PolicyError(f"{paths[-1]}: no request ended before this scrape")
    whole = _difference(paths[0], scrapes[0], paths[-1], scrapes[-1])
    decode_s, context_s = _decoding(rows)
    costs, errors = _prefill(rows)
    return ServerCalibration(
        *costs,
        load_bytes_per_s=_ratio(whole, "kv_offload_load_bytes", "kv_offload_load_time"),
        store_bytes_per_s=_ratio(
            whole, "kv_offload_store_bytes", "kv_offload_store_time"
        ),
        decode_s=decode_s,
        context_s=context_s,
        rows=len(rows),
        requests=round(whole[f"{_PREFILL}_count"]),
        median_error=None if errors is None else float(np.median(errors)),
        p95_error=None if errors is None else float(np.quantile(errors, 0.95)),
        max_error=None if errors is None else float(errors.max()),
        note=None if errors is not None else _why_unknown(len(rows)),
    )


def _why_unknown(num_rows: int) -> str:
    if num_rows <= _NUM_COSTS:
        return (
            f"{num_rows} scrapes with requests before them: more than {_NUM_COSTS} are "
            "needed to fit start_s, token_s and pair_s"
        )
    return (
        "requests too much alike to tell start_s, token_s and pair_s apart: scrapes "
        "are needed between requests that compute from few to many tokens"
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _difference(before: Path, old: Scrape, after: Path, new: Scrape) -> Scrape:
    """Return what came between two scrapes."""
    for name in _USED:
        if not 0 <= new.get(name, 0.0) - old.get(name, 0.0) <= _MOST:
            raise PolicyError(
                f"{after}: {_PREFIX}{name} is {new.get(name, 0.0):g}, behind "
                f"{old.get(name, 0.0):g} in {before}: scrapes of one server are "
                "needed, in order"
            )
    return {name: value - old.get(name, 0.0) for name, value in new.items()}


def _prefill(
    rows: Sequence[Scrape],
) -> tuple[tuple[float | None, float | None, float | None], Float64Array | None]:
    """Return k, a and b, and the relative errors.

    None where rows are too few, or too much alike to tell them apart.
    """
    if len(rows) <= _NUM_COSTS:
        return (None, None, None), None
    count = _column(rows, f"{_PREFILL}_count")
    computed, prompt = (
        _column(rows, f"{_COMPUTED}_sum"),
        _column(rows, f"{_PROMPT}_sum"),
    )
    taken_s = _column(rows, f"{_PREFILL}_sum")
    cached = np.maximum(prompt - computed, 0.0)
    # n*n/2 + n*c of the mean request, as many times as there were.
    pairs = computed * computed / count / 2 + computed * cached / count
    matrix = np.stack([count, computed, pairs], axis=1)
    if indistinct(matrix, taken_s):
        return (None, None, None), None
    values = fit_relative(matrix, taken_s)
    errors = np.abs(matrix @ values - taken_s) / np.maximum(taken_s, 1e-9)
    return (float(values[0]), float(values[1]), float(values[2])), errors


def _decoding(rows: Sequence[Scrape]) -> tuple[float | None, float | None]:
    """Return the seconds of a decode step, and of each token that it attends to."""
    name = next((name for name in _STEP if f"{name}_count" in rows[0]), _STEP[0])
    kept = [row for row in rows if row.get(f"{name}_count", 0) > 0]
    if not kept:
        return None, None
    step_s = _column(kept, f"{name}_sum") / _column(kept, f"{name}_count")
    if len(kept) < _LEAST_STEPS:
        return float(step_s.mean()), None
    count = np.maximum(_column(kept, f"{_PREFILL}_count"), 1.0)
    prompt, generated = (
        _column(kept, f"{_PROMPT}_sum"),
        _column(kept, f"{_GENERATED}_sum"),
    )
    context = (prompt + generated / 2) / count
    return fit_step(context, step_s)


def _column(rows: Sequence[Scrape], name: str) -> Float64Array:
    return np.array([row.get(name, 0.0) for row in rows])


def _ratio(whole: Scrape, part: str, of: str) -> float | None:
    num, seconds = whole.get(part, 0.0), whole.get(of, 0.0)
    return num / seconds if num > 0 and seconds > 0 else None
