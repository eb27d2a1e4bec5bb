"""Seeded generators of traces; same kind, options and seed, same trace.

All randomness is the uniform stream of numpy's default generator, turned into
other distributions here: the library's own samplers may change between
versions, its stream does not.
"""

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hotset.traces.errors import ArgumentError, TraceError
from hotset.traces.generate_sessions import (
    LONGEST_TEXT_TOKENS,
    AgentsOptions,
    ChatOptions,
    agents,
    chat,
)
from hotset.traces.intern import intern_ids
from hotset.traces.model import Provenance, Trace
from hotset.traces.random_values import Draws
from hotset.traces.registry import unknown
from hotset.traces.request_log import BLOCK_TOKENS, RequestLog

_MAX_REQUESTS = 10_000_000

# Limits keep texts in memory and times within a trace's range.
_TOKENS = (1, LONGEST_TEXT_TOKENS)
_BLOCKS = (1, LONGEST_TEXT_TOKENS // BLOCK_TOKENS)
_COUNTS = (1, 1_000_000)
_SHARES = (0, 1)
_SHAPES = (0.001, 8)
_RATES = (1e-6, 1e6)


@dataclasses.dataclass(frozen=True)
class UniformOptions:
    """Independent uniform draws over equal contexts, each request exactly one.

    Attributes
    ----------
    contexts : int
        Contexts there are.
    context_blocks : int
        Blocks of a context; no context shares a block with another.
    output_tokens : int
        Tokens generated per request.
    rate_per_s : float
        Requests per second, Poisson.
    """

    contexts: int = 200
    context_blocks: int = 16
    output_tokens: int = 128
    rate_per_s: float = 2.0


@dataclasses.dataclass(frozen=True)
class HotScanOptions:
    """A hot set drawn uniformly, mixed with contexts that never come back.

    Attributes
    ----------
    hot_contexts : int
        Contexts of the hot set.
    context_blocks : int
        Blocks of a context, hot or not.
    scan_ratio : float
        Share of requests that belong to the scan, in [0, 1].
    output_tokens : int
        Tokens generated per request.
    rate_per_s : float
        Requests per second, Poisson.
    """

    hot_contexts: int = 40
    context_blocks: int = 16
    scan_ratio: float = 0.5
    output_tokens: int = 128
    rate_per_s: float = 2.0


def _uniform(options: UniformOptions, requests: int, draws: Draws) -> RequestLog:
    log = RequestLog()
    time_s = 0.0
    for _ in range(requests):
        time_s += draws.exponential(1.0 / options.rate_per_s)
        context = draws.below(options.contexts)
        _whole_context(log, time_s, context, options.context_blocks, options)
    return log


def _hot_scan(options: HotScanOptions, requests: int, draws: Draws) -> RequestLog:
    log = RequestLog()
    time_s = 0.0
    next_scan = options.hot_contexts
    for _ in range(requests):
        time_s += draws.exponential(1.0 / options.rate_per_s)
        if draws.uniform() < options.scan_ratio:
            context, next_scan = next_scan, next_scan + 1
        else:
            context = draws.below(options.hot_contexts)
        _whole_context(log, time_s, context, options.context_blocks, options)
    return log


def _whole_context(
    log: RequestLog,
    time_s: float,
    context: int,
    blocks: int,
    options: UniformOptions | HotScanOptions,
) -> None:
    """Append a request whose prompt is one context, to the last token."""
    ids = range(context * blocks, (context + 1) * blocks)
    log.add(time_s, -1, blocks * BLOCK_TOKENS, options.output_tokens, ids)


_KINDS: dict[str, tuple[type[Any], Callable[[Any, int, Draws], RequestLog]]] = {
    "uniform": (UniformOptions, _uniform),
    "hot-scan": (HotScanOptions, _hot_scan),
    "chat": (ChatOptions, chat),
    "agents": (AgentsOptions, agents),
}

KINDS = tuple(_KINDS)
"""Names of the generators."""


def generate(kind: str, requests: int, seed: int, **options: float) -> Trace:
    """Generate a trace.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    requests : int
        R, 1 or more.
    seed : int
        0 or more.
    **options : float
        Fields of the kind's options class.

    Returns
    -------
    Trace
        Blocks of 512 tokens, times in whole milliseconds; its provenance has
        a digest of the columns and the options.

    Raises
    ------
    TraceError
        If the kind or an option is unknown, or a value is out of range.
    """
    if kind not in _KINDS:
        raise TraceError(unknown("kind of trace", kind, _KINDS))
    if not 1 <= requests <= _MAX_REQUESTS:
        raise ArgumentError("requests", requests, f"1..{_MAX_REQUESTS}")
    if seed < 0:
        raise ArgumentError("seed", seed, "0 or more")
    options_type, generator = _KINDS[kind]
    chosen = _options(options_type, options)
    log = generator(chosen, requests, Draws(seed))
    settings = [f"{name}={value}" for name, value in dataclasses.asdict(chosen).items()]
    step = f"generate {kind} requests={requests} seed={seed} {' '.join(settings)}"
    return _build(log, kind, step)


def options_of(kind: str) -> dict[str, float]:
    """Options of a kind with their defaults.

    Parameters
    ----------
    kind : str
        One of `KINDS`.

    Returns
    -------
    dict
        Name to default.

    Raises
    ------
    TraceError
        If the kind is unknown.
    """
    if kind not in _KINDS:
        raise TraceError(unknown("kind of trace", kind, _KINDS))
    return dataclasses.asdict(_KINDS[kind][0]())


def _options(options_type: type[Any], given: dict[str, float]) -> Any:
    """Options checked against the type and range of their defaults."""
    defaults = dataclasses.asdict(options_type())
    for name, value in given.items():
        if name not in defaults:
            raise TraceError(unknown("option", name, defaults))
        whole = type(defaults[name]) is int
        least, most = _limits(name, whole)
        fits = not isinstance(value, bool) and isinstance(value, int | float)
        if not fits or not least <= value <= most or (whole and value % 1):
            kind = "a whole number" if whole else "a number"
            raise ArgumentError(name, value, f"{kind}, {_range(least, most)}")
    typed = {name: type(defaults[name])(value) for name, value in given.items()}
    return options_type(**typed)


def _limits(name: str, whole: bool) -> tuple[float, float]:
    """Least and most of an option, from what its name says it is."""
    if whole:
        by_unit = {"_tokens": _TOKENS, "_blocks": _BLOCKS}
        return next((by_unit[unit] for unit in by_unit if name.endswith(unit)), _COUNTS)
    if name.endswith("_ratio"):
        return _SHARES
    return _SHAPES if name.endswith(("_spread", "_exponent")) else _RATES


def _range(least: float, most: float) -> str:
    """Text of a range, for a message."""
    return f"at least {least:.12g}, at most {most:.12g}"


def _build(log: RequestLog, kind: str, step: str) -> Trace:
    """Trace of a request log, which is in order of time."""
    columns = log.columns()
    interned = intern_ids(columns.ids, columns.offsets, chained=True)
    digest = hashlib.sha256()
    arrays: tuple[NDArray[Any], ...] = (
        columns.offsets,
        interned.ids,
        columns.arrival_s,
        columns.input_tokens,
        columns.output_tokens,
        columns.session,
    )
    for array in arrays:
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return Trace(
        block_tokens=BLOCK_TOKENS,
        request_offsets=columns.offsets,
        block_ids=interned.ids,
        arrival_s=columns.arrival_s,
        input_tokens=columns.input_tokens,
        output_tokens=columns.output_tokens,
        session=columns.session,
        provenance=Provenance(
            format="generate",
            path=f"generate:{kind}",
            sha256=digest.hexdigest(),
            rows_read=columns.arrival_s.size,
            rows_rejected=0,
            steps=(step,),
        ),
        id_scope="global",
        chained=True,
    )
