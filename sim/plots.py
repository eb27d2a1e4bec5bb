"""Pictures of results. Only commands and notebooks import this module."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, PercentFormatter

from hotset.sim.study import StudyResult
from hotset.traces.files import atomic_write

# Colours that stay apart for colour-blind readers (Okabe and Ito), and in grey by
# their markers.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"


def plot_study(result: StudyResult, path: Path) -> None:
    """Draw token hit ratio against capacity, a line for each policy, as PNG or SVG.

    Raises
    ------
    TraceError
        If the file cannot be written.
    """
    lines: dict[str, list[tuple[int, float]]] = {}
    bounded = {
        policy.name for policy, _ in result.study.policies if not policy.unbounded
    }
    for run in result.runs:
        if run.policy in bounded:
            point = (run.capacity_blocks, run.token_hit_ratio)
            lines.setdefault(run.label, []).append(point)
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for i, (name, points) in enumerate(lines.items()):
        xs, ys = zip(*sorted(points), strict=True)
        axes.plot(
            xs, ys, label=name, color=_COLOURS[i % 7], marker=_MARKERS[i % 7], lw=1.8
        )
    most = result.ceiling.token_hit_ratio
    axes.axhline(most, color="0.45", ls="--", lw=1.2, label="ceiling (unbounded)")
    axes.set_xscale("log")
    axes.set_xlabel("capacity, blocks")
    axes.set_ylabel("input tokens served from the cache")
    axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda x, _: ""))
    axes.set_xticks(
        sorted({run.capacity_blocks for run in result.runs if run.policy in bounded})
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(alpha=0.3)
    trace = result.trace
    # A file's name may hold anything: bytes that are no text, or a formula's signs.
    name = Path(trace.provenance.path).name.encode("utf-8", "replace").decode()
    axes.set_title(
        f"{name}: {trace.num_requests:,} requests, "
        f"{result.workload.chunks.num_distinct:,} distinct blocks",
        parse_math=False,
    )
    axes.legend()
    suffix = path.suffix.lstrip(".").lower()
    with atomic_write(path, "wb") as out, warnings.catch_warnings():
        # A name in a script that the font lacks shows boxes, which is no error.
        warnings.filterwarnings("ignore", message="Glyph")
        # No date and no version: equal results give equal bytes.
        metadata = {"Software": None} if suffix == "png" else {"Date": None}
        figure.savefig(out, format=suffix, dpi=144, metadata=metadata)
    plt.close(figure)
