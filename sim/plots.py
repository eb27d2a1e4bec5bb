"""Pictures of results. Only commands and notebooks import this module.

A policy has the same colour, line and marker in every picture.
"""

from __future__ import annotations

import io
import itertools
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from hotset.sim.mrc import LRU, CurveResult, by_policy, miss_ratio
from hotset.sim.plots_axes import capacity_axis, legend_below
from hotset.sim.replay import RunResult
from hotset.sim.study import StudyResult
from hotset.traces.files import atomic_write

# Colours that stay apart for colour-blind readers (Okabe and Ito); lines and markers
# tell apart what shares one, also in grey.
_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
_BLUE, _RED, _PINK = "#0072B2", "#D55E00", "#CC79A7"
_STYLES = {
    "lru": (_BLACK, "-", "o"),
    "adaptive": (_RED, "-", "D"),
    "leader": (_GREEN, "-", "H"),
    "guard": (_ORANGE, "-", "s"),
    "weighted": (_PINK, "-", "^"),
    "marconi": (_BLUE, "-", "v"),
    "relevance": (_SKY, "-", "P"),
    "belady": (_GREEN, "-.", "*"),
    "fifo": (_BLACK, ":", "x"),
    "arc": (_BLUE, "--", "<"),
    "s3fifo": (_RED, "--", ">"),
    "sieve": (_PINK, "--", "p"),
    "tinylfu": (_SKY, "--", "h"),
    "gdsf": (_ORANGE, "--", "d"),
    "lfu": (_GREEN, "--", "X"),
}
_COLOURS = (_BLUE, _RED, _GREEN, _PINK, _ORANGE, _SKY, _BLACK)
_MARKERS = "osD"
_OPEN_MARKERS = "os^Dv<>ph"
_MORE_LINES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_CEILING = "0.45"


def policy_style(name: str, variant: int = 0) -> dict[str, Any]:
    """Return matplotlib's colour, line and marker of a policy.

    Parameters
    ----------
    name : str
        The policy's name; one that is not known here gets a colour by its letters.
    variant : int
        Tells apart several settings of one policy, from 0 on.
    """
    if name in _STYLES:
        colour, line, marker = _STYLES[name]
    else:
        colour = _COLOURS[zlib.crc32(name.encode()) % len(_COLOURS)]
        line, marker = "-.", "o"
    lines = [line, *(more for more in _MORE_LINES if more != line)]
    look = {"color": colour, "ls": lines[variant % len(lines)], "marker": marker}
    if variant:
        # Open marks are no policy's own look; those of one colour share none.
        look["mfc"] = "white"
        of_colour = [each for each, style in _STYLES.items() if style[0] == colour]
        place = of_colour.index(name) if name in of_colour else 0
        marks = _OPEN_MARKERS[place :: len(of_colour)]
        look["marker"] = marks[(variant - 1) % len(marks)]
    return look


def plot_study(result: StudyResult) -> Figure:
    """Draw token hit ratio against capacity, a line for each policy."""
    bounded = {
        policy.name for policy, _ in result.study.policies if not policy.unbounded
    }
    runs = [run for run in result.runs if run.policy in bounded]
    figure, axes = _canvas(result)
    for run_list, style in _lines(runs):
        axes.plot(
            [run.capacity_blocks for run in run_list],
            [run.token_hit_ratio for run in run_list],
            label=run_list[0].label,
            **style,
        )
    most = result.ceiling.token_hit_ratio
    axes.axhline(most, color=_CEILING, ls="--", lw=1.2, label="ceiling (unbounded)")
    axes.set_ylabel("input tokens served from the cache")
    capacity_axis(axes, [run.capacity_blocks for run in runs])
    axes.set_ylim(0, None)
    legend_below(axes)
    return figure


def plot_curves(result: CurveResult) -> Figure:
    """Draw token miss ratio against capacity, LRU at every one."""
    figure, axes = _canvas(result.replays)
    curve = result.curve
    steps = curve.steps()
    misses = [miss_ratio(int(hits), curve.input_tokens) for hits in curve.hit_tokens]
    xs = [*steps.tolist(), max(curve.most_blocks, 1)]
    ys = [misses[min(x, curve.most_blocks)] for x in xs]
    lru = {**policy_style(LRU), "marker": None}
    axes.plot(xs, ys, label="lru, every capacity", drawstyle="steps-post", **lru)
    others = [
        run
        for run in result.replays.runs
        if run.label != LRU or not curve.covers(run.capacity_blocks)
    ]
    for run_list, style in _lines(others):
        axes.plot(
            [run.capacity_blocks for run in run_list],
            [miss_ratio(run.hit_tokens, run.input_tokens) for run in run_list],
            label=run_list[0].label,
            **style,
        )
    knee = curve.knee()
    if knee is not None:
        at = (knee, misses[knee])
        axes.plot(*at, "o", color=_BLACK, ms=9, mfc="none", label=f"knee, {knee:,}")
    least = 1 - result.replays.ceiling.token_hit_ratio
    axes.axhline(least, color=_CEILING, ls="--", lw=1.2, label="room for everything")
    axes.set_ylabel("input tokens missed")
    capacity_axis(axes, result.capacities)
    axes.set_xlim(min(result.capacities) / 1.1, max(result.capacities) * 1.1)
    axes.set_ylim(0, None)
    legend_below(axes)
    return figure


def _lines(
    runs: Iterable[RunResult],
) -> Iterable[tuple[list[RunResult], dict[str, Any]]]:
    """Yield the runs of each label by capacity, with the style of their line."""
    by_label: dict[str, list[RunResult]] = {}
    for run in by_policy(list(runs)):
        by_label.setdefault(run.label, []).append(run)
    drawn: dict[str, int] = {}
    for run_list in by_label.values():
        name = run_list[0].policy
        yield run_list, {**policy_style(name, drawn.get(name, 0)), "lw": 1.8, "ms": 5}
        drawn[name] = drawn.get(name, 0) + 1


def _canvas(result: StudyResult) -> tuple[Figure, Axes]:
    """Return axes with capacity from left to right and the trace as their title."""
    figure = _figure(8, 5, layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel("capacity, blocks")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.3)
    trace = result.trace
    axes.set_title(
        f"{shown_name(trace.provenance.path)}: {trace.num_requests:,} requests, "
        f"{result.workload.chunks.num_distinct:,} distinct blocks",
        parse_math=False,
    )
    return figure, axes


def shown_name(path: str) -> str:
    """Name of a file, which may hold bytes that are no text."""
    return Path(path).name.encode("utf-8", "replace").decode()


def _figure(width: float, height: float, **settings: Any) -> Figure:
    """Return a figure that needs no display and that nothing else holds on to."""
    figure = Figure(figsize=(width, height), **settings)
    FigureCanvasAgg(figure)
    return figure


def panels(
    number: int, width: float, height: float, rows: int = 1
) -> tuple[Figure, list[Axes]]:
    """Return a figure with that many panels in rows, sizes in inches."""
    figure = _figure(width, height)
    axes = figure.subplots(rows, number // rows, squeeze=False)
    return figure, list(axes.flat)


def blend(colour: str, share: float) -> tuple[float, float, float]:
    """Return that share of a colour on white, as red, green and blue in [0, 1]."""
    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG; equal figures give equal bytes.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    suffix = path.suffix.lstrip(".").lower()
    with atomic_write(path, "wb") as out:
        _write(figure, out, suffix)


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as PNG, for notebooks."""
    out = io.BytesIO()
    _write(figure, out, "png")
    return out.getvalue()


def svg_text(draw: Callable[[], Figure]) -> str:
    """Return what is drawn as the text of an SVG whose letters are letters.

    Names within the figure are taken as they are, also with signs of formulas.
    """
    out = io.BytesIO()
    with (
        rc_context({"svg.fonttype": "none", "text.parse_math": False}),
        warnings.catch_warnings(),
    ):
        # A name longer than its picture is no error either.
        warnings.filterwarnings("ignore", message="Tight layout")
        warnings.filterwarnings("ignore", message="Glyph")
        _write(draw(), out, "svg")
    return out.getvalue().decode()


def _write(figure: Figure, out: IO[bytes], suffix: str) -> None:
    with warnings.catch_warnings():
        # A name in a script that the font lacks shows boxes, which is no error.
        warnings.filterwarnings("ignore", message="Glyph")
        # No date and no version.
        metadata = {"Software": None} if suffix == "png" else {"Date": None}
        # Names inside an SVG are random otherwise.
        with rc_context({"svg.hashsalt": "hotset"}):
            figure.savefig(out, format=suffix, dpi=144, metadata=metadata)


def plot_summary(summary: dict[str, Any]) -> Figure:
    """Draw what `trace info` shows on one page."""
    figure = _figure(13, 7.5, layout="constrained")
    axes = figure.subplots(2, 3)
    about, shape = summary["trace"], summary["profile"]
    figure.suptitle(
        f"{shown_name(about['path'])}: {about['requests']:,} requests, "
        f"{about['block_tokens']}-token blocks",
        parse_math=False,
    )
    _draw_arrivals(axes[0, 0], shape["over_time"])
    _draw_working_set(axes[0, 1], shape["over_time"])
    _draw_ceilings(axes[0, 2], summary["tails"])
    reuse = shape["reuse"]
    _draw_quantiles(axes[1, 0], {"reuse time": reuse["time_s"]}, "seconds")
    distance = {"reuse distance": reuse["distance_blocks"]}
    _draw_quantiles(axes[1, 1], distance, "distinct blocks in between")
    lengths = {name: summary[f"{name}_tokens"] for name in ("input", "output")}
    _draw_quantiles(axes[1, 2], lengths, "tokens of a request")
    return figure


def _compact(value: float, _place: object = None) -> str:
    """Write a number of a scale in few signs: 20k, 1.5M."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{sign}"
    return f"{value:g}"


def _say_none(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def _time_edges(axes: Axes, over_time: dict[str, Any]) -> list[float]:
    """Write what times are in under an axis; return where the parts begin and end."""
    start_s, width_s = over_time["start_s"], over_time["width_s"]
    end_s = start_s[-1] + width_s
    long = {"days": 86400.0, "hours": 3600.0}
    unit = next((each for each in long if end_s > 3 * long[each]), "seconds")
    axes.set_xlabel(f"{unit} since the first request")
    return [time_s / long.get(unit, 1.0) for time_s in (*start_s, end_s)]


def _draw_arrivals(axes: Axes, over_time: dict[str, Any] | None) -> None:
    axes.set_title("arrivals")
    axes.xaxis.set_major_formatter(FuncFormatter(_compact))
    if over_time is None:
        return _say_none(axes, "all at one time")
    rates = [count / over_time["width_s"] for count in over_time["requests"]]
    axes.stairs(rates, _time_edges(axes, over_time), color=_COLOURS[0], lw=1.5)
    axes.set_ylim(0, None)
    axes.set_ylabel("requests per second")
    axes.grid(alpha=0.3)


def _draw_working_set(axes: Axes, over_time: dict[str, Any] | None) -> None:
    axes.set_title("working set")
    axes.xaxis.set_major_formatter(FuncFormatter(_compact))
    if over_time is None or not any(over_time["accesses"]):
        return _say_none(axes, "no block ids" if over_time else "all at one time")
    width_s, edges = over_time["width_s"], _time_edges(axes, over_time)
    distinct, new = over_time["distinct_blocks"], over_time["new_blocks"]
    total = list(itertools.accumulate(new, initial=0))
    axes.plot(edges, total, color=_COLOURS[1], label="distinct so far")
    label = f"distinct in {width_s:,.{0 if width_s >= 10 else 3}f} s"
    axes.stairs(distinct, edges, color=_COLOURS[0], lw=1.5, label=label)
    axes.stairs(new, edges, color=_COLOURS[2], lw=1.5, label="new in that time")
    axes.yaxis.set_major_formatter(FuncFormatter(_compact))
    axes.set_ylim(0, None)
    axes.set_ylabel("blocks")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_ceilings(axes: Axes, tails: dict[str, Any]) -> None:
    """Draw what an unbounded cache hits, under each tail rule."""
    axes.set_title("hits of an unbounded cache")
    if not all(row["ceiling"] for row in tails.values()):
        return _say_none(axes, "no block ids: unknown")
    for at, unit in enumerate(("token", "block")):
        values = [row["ceiling"][f"{unit}_hit_ratio"] for row in tails.values()]
        places = [i + 0.4 * at - 0.2 for i in range(len(tails))]
        bars = axes.bar(places, values, 0.38, color=_COLOURS[at], label=f"{unit}s")
        axes.bar_label(bars, [f"{100 * value:.1f} %" for value in values])
    axes.set_xticks(range(len(tails)), [f"partial blocks: {tail}" for tail in tails])
    axes.set_ylim(0, 1.15)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.legend(loc="upper right", ncols=2)


def _draw_quantiles(
    axes: Axes, rows: dict[str, dict[str, float] | None], unit: str
) -> None:
    """Draw quantiles as cumulative shares, on an axis that holds 0."""
    axes.set_title(", ".join(rows))
    drawn = {name: row for name, row in rows.items() if row}
    if not drawn:
        return _say_none(axes, "no block is used twice")
    for at, (name, row) in enumerate(drawn.items()):
        points = [(row[key], int(key[1:]) / 100) for key in row if key[1:].isdigit()]
        xs, ys = zip(*sorted(points), strict=True)
        axes.plot(xs, ys, marker=_MARKERS[at], color=_COLOURS[at], label=name)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(0, None)
    axes.set_ylim(0, 1)
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(FuncFormatter(_compact))
    axes.set_ylabel("share at most so long")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.3)
    if len(drawn) > 1:
        axes.legend()
