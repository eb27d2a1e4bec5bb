"""Pictures of regime maps: who wins where, and what each knob is worth."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hotset.sim.mrc import LRU
from hotset.sim.plots import blend, panels, policy_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KNOBS = ("scoring", "distance", "store_threshold", "budget")
_OF_POLICIES = ("scoring", "distance")
_CELL_INCHES = 1.02
_LETTERS_AN_INCH = 10.5
_SHORTEST = 9  # letters of a label that fit a narrow cell
_TIE = "0.93"
_MEMORY = "#8C6D46"

Cell = dict[str, Any]


def plot_map(values: dict[str, Any], most_inches: float = 18.0) -> Figure:
    """Draw a map from its JSON values: winners, what helps, and each knob.

    Cells have the winner's colour, the stronger the larger the margin over LRU; ties
    are hatched and say so.

    Parameters
    ----------
    values : dict
        As ``hotset regime-map --json`` writes them.
    most_inches : float
        Parts stand side by side as far as they fit this width; one always stands.
    """
    wide = max(3.4, 0.8 + _CELL_INCHES * len(values["x_values"]))
    high = max(2.6, 1.0 + 0.6 * len(values["y_values"]))
    across = next((n for n in (3, 2) if n * wide <= most_inches), 1)
    down = 6 // across
    title = _title(values["settings"], across * wide)
    room = 0.2 + 0.22 * len(title)
    tall = down * high + room
    figure, axes = panels(6, across * wide, tall, rows=down)
    draw_winners(axes[0], values)
    draw_what_helps(axes[1], values)
    for place, name in zip(axes[2:], _KNOBS, strict=True):
        draw_knob(place, values, name)
    above = figure.suptitle(
        "\n".join(title), y=1 - 0.1 / tall, va="top", parse_math=False
    )
    above.set_in_layout(False)
    figure.tight_layout(rect=(0, 0, 1, 1 - room / tall))
    return figure


def _title(settings: dict[str, Any], inches: float) -> list[str]:
    """Return lines that say what the map shows, as wide as it."""
    said = (
        f"{settings['workload']}: points of the token hit ratio over lru, ± noise "
        f"(95 %, {settings['paired_by']}); (+n): so many others are level"
    )
    return wrap(said, max(int(inches * _LETTERS_AN_INCH), 20))


def draw_winners(axes: Axes, values: dict[str, Any]) -> Axes:
    """Draw who wins where and by how many points."""

    def text(cell: Cell) -> str:
        if cell["is_tie"]:
            return "tie"
        level = sum(label != cell["winner"] for label in cell["level"])
        also = f" (+{level})" if level else ""
        return f"{_short(cell['winner_policy'])}{also}\n{_points(cell)}"

    def colour(cell: Cell) -> Any:
        if cell["is_tie"]:
            return _TIE
        return _shade(policy_style(cell["winner_policy"])["color"], cell)

    axes.set_title("winner")
    return _draw(axes, values, text, colour, lambda cell: cell["is_tie"])


def draw_what_helps(axes: Axes, values: dict[str, Any]) -> Axes:
    """Draw which knob has most to gain over LRU where."""

    def text(cell: Cell) -> str:
        if cell["knob"] is None:
            return "nothing"
        name = cell["knob"].replace("store_", "")
        return f"{name}\n{_points(cell['knobs'][cell['knob']])}"

    def colour(cell: Cell) -> Any:
        if cell["knob"] is None:
            return _TIE
        knob = cell["knobs"][cell["knob"]]
        return _shade(_colour(cell["knob"], knob), knob)

    axes.set_title("what helps most")
    return _draw(axes, values, text, colour, lambda cell: cell["knob"] is None)


def draw_knob(axes: Axes, values: dict[str, Any], name: str) -> Axes:
    """Draw what one knob gains over LRU, at its best setting."""

    def text(cell: Cell) -> str:
        knob = cell["knobs"][name]
        if knob["tie"]:
            return "tie"
        setting = knob["setting"] if name == "store_threshold" else ""
        return f"{_points(knob)}\n{setting.partition(':')[2] and setting}".strip()

    def colour(cell: Cell) -> Any:
        knob = cell["knobs"][name]
        if knob["tie"] or knob["points_over_lru"] < 0:
            return _TIE if knob["tie"] else "white"
        return _shade(_colour(name, knob), knob)

    settings = values["settings"]
    titles = {
        "scoring": f"scoring: {values['cells'][0]['knobs'][name]['setting']}",
        "distance": f"distance: {values['cells'][0]['knobs'][name]['setting']}",
        "store_threshold": "store_threshold, with lru",
        "budget": f"budget: {settings['more']:g} times, with lru",
    }
    axes.set_title(titles[name], parse_math=False)
    return _draw(axes, values, text, colour, lambda cell: cell["knobs"][name]["tie"])


def _draw(
    axes: Axes,
    values: dict[str, Any],
    text: Callable[[Cell], str],
    colour: Callable[[Cell], Any],
    is_tie: Callable[[Cell], bool],
) -> Axes:
    """Draw a cell for each place, the first value at the lower left."""
    xs, ys = values["x_values"], values["y_values"]
    for cell in values["cells"]:
        at, up = xs.index(cell["x"]), ys.index(cell["y"])
        hatch = "///" if is_tie(cell) else None
        style = {"color": colour(cell), "edgecolor": "0.75", "lw": 0.6, "hatch": hatch}
        axes.bar(at, 1, 1, up - 0.5, **style)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
        axes.text(
            at, up, text(cell), ha="center", va="center", fontsize=8, bbox=box,
            parse_math=False,
        )  # fmt: skip
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(-0.5, len(ys) - 0.5)
    axes.set_xticks(range(len(xs)), xs, parse_math=False)
    axes.set_yticks(range(len(ys)), ys, parse_math=False)
    axes.set_xlabel(values["settings"]["x"]["label"], parse_math=False)
    axes.set_ylabel(values["settings"]["y"]["label"], parse_math=False)
    return axes


def _colour(name: str, knob: dict[str, Any]) -> Any:
    """Return the colour of the policy that a knob runs; memory has its own."""
    if name == "budget":
        return _MEMORY
    policy = knob["setting"].partition(":")[0] if name in _OF_POLICIES else LRU
    return policy_style(policy)["color"]


def _shade(colour: Any, margin: dict[str, Any]) -> Any:
    """Return a colour that is the stronger the larger the margin is."""
    return blend(colour, min(0.35 + abs(margin["points_over_lru"]) / 40, 0.85))


def _points(margin: dict[str, Any]) -> str:
    return f"{margin['points_over_lru']:+.1f} ± {margin['noise_points']:.1f}"


def _short(name: str) -> str:
    return name if len(name) <= _SHORTEST else name[: _SHORTEST - 1] + "…"
