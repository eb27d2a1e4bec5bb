"""Costs of a machine, fitted to requests that were measured on it.

A request that ran alone takes ``k + a*n + b*(n*n/2 + n*c) + bytes / bandwidth`` to its
first token, for n computed tokens behind c cached ones. The fit is linear in k, a, b
and 1 / bandwidth, and least in the sum of absolute relative errors: short requests
count as much as long ones, and outliers (a first request that warms things up) hardly
count at all. No value becomes negative.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotset.policies.arrays import Float64Array
from hotset.policies.errors import PolicyError
from hotset.traces.errors import shorten

_ROUNDS = 50
_SMALL = 0.03  # of the median error, below which errors count as squares

_ALIKE = 1e-5  # of the largest singular value, below which costs are one to the fit

_COSTS = ("start_s", "token_s", "pair_s", "load_bytes_per_s")
NEEDED = ("computed_tokens", "cached_tokens", "ttft_s")
OPTIONAL = ("load_bytes", "itl_s", "context_tokens")
_RANGES = {
    "computed_tokens": (1, 1e9),
    "cached_tokens": (0, 1e9),
    "ttft_s": (1e-9, 1e6),
    "load_bytes": (0, 1e18),
    "itl_s": (1e-9, 1e6),
    "context_tokens": (0, 1e9),
}


@dataclass(frozen=True)
class Measured:
    """Requests that ran alone, by column.

    Parameters
    ----------
    computed_tokens, cached_tokens : float64[N]
        n and c; n at least 1.
    ttft_s : float64[N]
        Seconds to the first token.
    load_bytes : float64[N]
        Bytes loaded before it; 0 where nothing was.
    itl_s, context_tokens : float64[N]
        Seconds of a decode step and the tokens attended to; NaN where unknown.
    """

    computed_tokens: Float64Array
    cached_tokens: Float64Array
    ttft_s: Float64Array
    load_bytes: Float64Array
    itl_s: Float64Array
    context_tokens: Float64Array


@dataclass(frozen=True)
class Calibration:
    """Fitted costs, and how well they fit.

    ``load_bytes_per_s`` is None where nothing was loaded, or loads took no time;
    ``decode_s`` and ``context_s`` are None where no decode step was measured. Where all
    steps attended to as many tokens, ``context_s`` is None: ``decode_s`` is all of it.
    """

    start_s: float
    token_s: float
    pair_s: float
    load_bytes_per_s: float | None
    decode_s: float | None
    context_s: float | None
    requests: int
    median_error: float  # relative, of TTFT
    p95_error: float
    max_error: float

    def ttft_s(
        self, computed: Float64Array, cached: Float64Array, load_bytes: Float64Array
    ) -> Float64Array:
        """Return the TTFTs that the fitted costs give."""
        pairs = computed * computed / 2 + computed * cached
        loads = load_bytes / self.load_bytes_per_s if self.load_bytes_per_s else 0.0
        return self.start_s + self.token_s * computed + self.pair_s * pairs + loads


def read_measured(path: Path) -> Measured:
    """Read measured requests from a CSV file with a header.

    Raises
    ------
    PolicyError
        If it cannot be read, lacks a column, or a value is no number in range.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "not CSV"
        raise PolicyError(f"{path}: {reason}") from None
    if not rows:
        raise PolicyError(f"{path}: no rows")
    lacking = [name for name in NEEDED if name not in rows[0]]
    if lacking:
        raise PolicyError(f"{path}: no column {', '.join(lacking)}")

    def column(name: str) -> Float64Array:
        return np.array(
            [_value(path, i, name, row.get(name)) for i, row in enumerate(rows, 2)]
        )

    return Measured(**{name: column(name) for name in (*NEEDED, *OPTIONAL)})


def _value(path: Path, line: int, name: str, text: str | None) -> float:
    if not text and name in OPTIONAL:
        return 0.0 if name == "load_bytes" else math.nan
    low, high = _RANGES[name]
    try:
        # Underscores are Python's, not a file's.
        value = float((text or "").replace("_", "no"))
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise PolicyError(
            f"{path}, line {line}: {name} is {_shown(text)}, a number from {low:g} to "
            f"{high:g} is needed"
        )
    return value


def _shown(text: str | None) -> str:
    return repr(text if text is None else shorten(text))


def calibrate(measured: Measured) -> Calibration:
    """Fit costs to requests that ran alone.

    Raises
    ------
    PolicyError
        If there are fewer requests than values to fit, or they are too much alike to
        tell the values apart.
    """
    n, c = measured.computed_tokens, measured.cached_tokens
    columns = [np.ones_like(n), n, n * n / 2 + n * c]
    has_loads = bool((measured.load_bytes > 0).any())
    if has_loads:
        columns.append(measured.load_bytes)
    if len(n) <= len(columns):
        raise PolicyError(
            f"{len(n)} requests: more than {len(columns)} are needed to fit "
            f"{len(columns)} values"
        )
    matrix = np.stack(columns, axis=1)
    alike = indistinct(matrix, measured.ttft_s)
    if alike:
        names = ", ".join(_COSTS[i] for i in alike)
        raise PolicyError(
            f"{len(n)} requests do not tell {names} apart: requests are needed that "
            "compute from few to many tokens, behind none and many cached ones, with "
            "and without loads"
        )
    values = fit_relative(matrix, measured.ttft_s)
    decode_s, context_s = _fit_decoding(measured)
    slow = float(values[3]) if has_loads else 0.0
    fitted = matrix @ values
    errors = np.abs(fitted - measured.ttft_s) / np.maximum(measured.ttft_s, 1e-9)
    return Calibration(
        start_s=float(values[0]),
        token_s=float(values[1]),
        pair_s=float(values[2]),
        load_bytes_per_s=1 / slow if slow > 0 else None,
        decode_s=decode_s,
        context_s=context_s,
        requests=len(n),
        median_error=float(np.median(errors)),
        p95_error=float(np.quantile(errors, 0.95)),
        max_error=float(errors.max()),
    )


def _fit_decoding(measured: Measured) -> tuple[float | None, float | None]:
    known = ~(np.isnan(measured.itl_s) | np.isnan(measured.context_tokens))
    if known.sum() < 3:
        return None, None
    context = measured.context_tokens[known]
    return fit_step(context, measured.itl_s[known])


def fit_step(
    context_tokens: Float64Array, step_s: Float64Array
) -> tuple[float, float | None]:
    """Return the seconds of a decode step, and of each token that it attends to.

    The latter is None where the former are of steps that all attended to as many.
    """
    matrix = np.stack([np.ones_like(context_tokens), context_tokens], axis=1)
    if indistinct(matrix, step_s):
        return float(np.median(step_s)), None
    values = fit_relative(matrix, step_s)
    return float(values[0]), float(values[1])


def indistinct(matrix: Float64Array, target: Float64Array) -> list[int]:
    """Return the columns that others make up: no fit tells what each is worth.

    Parameters
    ----------
    matrix : float64[N, P]
        What costs, by row and value; not negative.
    target : float64[N]
        Seconds, above 0.
    """
    weighed = matrix / np.maximum(target, 1e-9)[:, None]
    size = np.linalg.norm(weighed, axis=0)
    absent = np.flatnonzero(size == 0)
    if len(absent):
        return [int(i) for i in absent]
    _left, sizes, mixtures = np.linalg.svd(weighed / size, full_matrices=False)
    weak = mixtures[sizes < _ALIKE * sizes[0]]
    return [int(i) for i in np.flatnonzero((np.abs(weak) > 0.1).any(axis=0))]


def fit_relative(matrix: Float64Array, target: Float64Array) -> Float64Array:
    """Return the fit of least absolute relative errors without negative values."""
    known = np.maximum(target, 1e-9)
    matrix, target = matrix / known[:, None], np.ones(len(target))
    scale = np.abs(matrix).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = matrix / scale
    weights = np.ones(len(target))
    for _ in range(_ROUNDS):
        values = _least_squares(scaled * weights[:, None], target * weights)
        residuals = np.abs(scaled @ values - target)
        small = _SMALL * float(np.median(residuals))
        if small <= 1e-14:
            break
        # The square root, since both sides are multiplied before squaring.
        weights = 1 / np.sqrt(np.maximum(residuals, small))
    return np.asarray(values / scale)


def _least_squares(matrix: Float64Array, target: Float64Array) -> Float64Array:
    """Return the least squares without negative values, few columns given.

    The best of all fits in which some columns count and the others are left out.
    """
    num_columns = matrix.shape[1]
    best, best_error = np.zeros(num_columns), float(target @ target)
    for chosen in range(1, 1 << num_columns):
        columns = [i for i in range(num_columns) if chosen >> i & 1]
        found, *_rest = np.linalg.lstsq(matrix[:, columns], target, rcond=None)
        if (found < 0).any():
            continue
        error = float(np.square(matrix[:, columns] @ found - target).sum())
        if error < best_error:
            best = np.zeros(num_columns)
            best[columns] = found
            best_error = error
    return best
