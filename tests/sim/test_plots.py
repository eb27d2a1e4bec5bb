"""Pictures, drawn without a display: what they hold, in which colours, and how wide."""

import itertools

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from support.results import map_of, replayed, run_of
from support.tuning import plan as tune_plan

from hotset.policies.registry import ADMISSIONS, POLICIES
from hotset.sim.capacity import parse_capacity
from hotset.sim.engines import engine
from hotset.sim.mrc import run_curves
from hotset.sim.plots import blend, plot_curves, plot_study, policy_style, save_picture
from hotset.sim.plots_page import plot_ratios
from hotset.sim.plots_regimes import plot_map
from hotset.sim.plots_simulate import plot_timeline
from hotset.sim.plots_tune import plot_tuning
from hotset.sim.profile import load_profile
from hotset.sim.regime_axes import make_supply, parse_axis
from hotset.sim.regimes import Plan, everyone, run_map
from hotset.sim.regimes_report import as_json
from hotset.sim.simulate import Plan as SimulationPlan
from hotset.sim.simulate import run_plan
from hotset.sim.study import make_study, run_study
from hotset.sim.tune import run_tune
from hotset.traces.generate import generate

POLICY = ["lru", "guard", "marconi"]


@pytest.fixture(scope="module")
def trace():
    return generate("chat", 200, 1)


@pytest.fixture(scope="module")
def study(trace):
    sizes = [parse_capacity(text) for text in ("5%", "20%")]
    return run_study(
        trace, make_study(POLICY, "always", capacities=sizes, engine=engine("none"))
    )


@pytest.fixture(scope="module")
def values():
    plan = Plan(
        supply=make_supply("questions", ("context_tokens=800", "rounds=8"), 1),
        x=parse_axis("skew=1,1.5,3", "--x"),
        y=parse_axis("budget=200,5000", "--y"),
        policies=everyone(["guard"]),
        seeds=(1, 2, 3),
    )
    return as_json(run_map(plan))


def test_policies_have_a_look_of_their_own():
    names = [name for name in POLICIES.names() if not POLICIES.get(name).unbounded]
    looks = [tuple(sorted(policy_style(name).items())) for name in names]
    assert len(set(looks)) == len(names)


def test_settings_of_a_policy_look_like_no_policy():
    """Six of each beside everyone else: no two alike, some 90 lines."""
    names = [name for name in POLICIES.names() if not POLICIES.get(name).unbounded]
    looks = [
        tuple(sorted(policy_style(name, variant).items()))
        for name in names
        for variant in range(6)
    ]
    assert len(set(looks)) == 6 * len(names)


def many_of(labels, sizes=(90, 100, 110, 5000)):
    return replayed(
        *(
            run_of(label.partition(":")[0], 0.1 + 0.01 * at, size, label)
            for at, label in enumerate(labels)
            for size in sizes
        )
    )


LONG = "weighted:" + ",".join(f"parameter_{i}=0.123456" for i in range(6))


@pytest.mark.parametrize(
    "labels", [["lru"], [*POLICIES.names(), *(f"lru:{i}" for i in range(9)), LONG]]
)
def test_legends_lie_beside_the_data_and_within_the_picture(labels):
    figure = plot_ratios(many_of([each for each in labels if each != "unbounded"]))
    figure.canvas.draw()
    (axes,) = figure.axes
    legend = axes.get_legend().get_window_extent()
    assert not legend.overlaps(axes.get_window_extent())
    whole = figure.bbox
    assert whole.x0 <= legend.x0 <= legend.x1 <= whole.x1
    assert whole.y0 <= legend.y0 <= legend.y1 <= whole.y1
    assert axes.get_window_extent().height > 1.5 * figure.dpi


def assert_legend_is_off_the_data(figure):
    figure.canvas.draw()
    (legend,) = [a.get_legend() for a in figure.axes if a.get_legend()]
    box = legend.get_window_extent()
    assert not any(box.overlaps(a.get_window_extent()) for a in figure.axes)
    assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0


def test_runs_over_time_are_told_apart(trace):
    policies = ["lru", "fifo", "arc", "marconi", "marconi:reuse=log"]
    asked = SimulationPlan(
        policies=[POLICIES.parse(text) for text in policies],
        admission=ADMISSIONS.parse("always"),
        engine=engine("vllm-0.33"),
        profile=load_profile("h100x8-70b-fp8"),
        cpu=parse_capacity("5%"),
    )
    figure = plot_timeline(run_plan(trace, asked))
    assert_legend_is_off_the_data(figure)
    looks = [
        (line.get_color(), line.get_marker(), line.get_markerfacecolor())
        for line in figure.axes[0].lines
    ]
    assert len(set(looks)) == len(policies)


@pytest.mark.parametrize("name", ["token_hit_ratio", "stored_bytes"])
def test_a_tuning_is_drawn_in_its_units(trace, name):
    objectives = list(dict.fromkeys(["token_hit_ratio", name]))
    bytes_of = {"kv_bytes_per_token": 100}
    asked = tune_plan(["guard"], trials=6, objectives=objectives, **bytes_of)
    figure = plot_tuning(run_tune(trace, asked))
    assert_legend_is_off_the_data(figure)
    assert "points" in figure.axes[2].get_xlabel()
    assert figure.axes[0].get_ylabel() == "token hit ratio"
    if len(objectives) > 1:
        assert figure.axes[3].get_ylabel() == "stored bytes"


@pytest.mark.parametrize(
    "sizes", [(7,), (90, 100, 110, 5000), (10**9, 2 * 10**9), range(100, 2000, 9)]
)
def test_capacities_are_written_under_the_axis(sizes):
    figure = plot_ratios(many_of(["lru", "guard"], sizes))
    figure.canvas.draw()
    (axes,) = figure.axes
    names = [each for each in axes.get_xticklabels() if each.get_text()]
    assert f"{max(sizes):,}" in [each.get_text() for each in names]
    assert {int(each.get_text().replace(",", "")) for each in names} <= set(sizes)
    boxes = [each.get_window_extent() for each in names]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_a_knob_has_the_colour_of_the_policy_that_it_runs():
    axes = plot_map(map_of(["1", "2"], ["5%"])).axes
    for place in (axes[1], axes[2]):
        face = place.patches[0].get_facecolor()[:3]
        for name, is_its in (("marconi", True), ("relevance", False)):
            colour = policy_style(name)["color"]
            shades = [blend(colour, share / 1000) for share in range(1001)]
            near = min(max(map(abs_of, zip(face, s, strict=True))) for s in shades)
            assert (near < 0.002) == is_its


@pytest.mark.parametrize("inches", [7.3, 18.0])
@pytest.mark.parametrize("count", [2, 4, 7, 16])
def test_cells_of_any_map_hold_their_texts(count, inches):
    figure = plot_map(map_of([str(i) for i in range(count)], ["1", "2"]), inches)
    figure.canvas.draw()
    for axes in figure.axes:
        cell = axes.get_window_extent().width / count
        assert all(t.get_window_extent().width < cell for t in axes.texts)
    title = figure._suptitle.get_window_extent()
    assert not title.overlaps(figure.axes[0].title.get_window_extent())
    assert 0 <= title.x0 <= title.x1 <= figure.bbox.x1


def test_a_policy_has_one_colour_in_every_picture(study, trace, values):
    sizes = [parse_capacity("5%")]
    asked = make_study(POLICY, "always", capacities=sizes, engine=engine("none"))
    figures = [plot_study(study), plot_curves(run_curves(trace, asked, 4))]
    for figure in figures:
        lines = {line.get_label(): line for line in figure.axes[0].lines}
        for name in ("guard", "marconi"):
            colour = to_hex(lines[name].get_color())
            assert colour == policy_style(name)["color"].lower()
    winners = plot_map(values).axes[0]
    strongest = [patch.get_facecolor()[:3] for patch in winners.patches]
    colour = policy_style("guard")["color"]
    shades = [blend(colour, share / 1000) for share in range(1001)]
    won = [c["winner"] == "guard" for c in values["cells"]]
    assert any(won)
    for face, is_won in zip(strongest, won, strict=True):
        near = min(max(map(abs_of, zip(face, s, strict=True))) for s in shades)
        assert (near < 0.002) == is_won


def abs_of(pair):
    return abs(pair[0] - pair[1])


def test_axes_say_what_they_show(study, values):
    axes = plot_study(study).axes[0]
    assert axes.get_xlabel() == "capacity, blocks"
    assert axes.get_ylabel() == "input tokens served from the cache"
    figure = plot_map(values)
    assert len(figure.axes) == 6
    for each in figure.axes:
        assert each.get_xlabel() == "skew of re-access"
        assert each.get_ylabel() == "budget"
        assert each.get_title()
    assert "points of the token hit ratio over lru" in figure.get_suptitle()


def test_ties_are_said_and_hatched(values):
    axes = plot_map(values).axes[0]
    told = [text.get_text() for text in axes.texts]
    hatches = [patch.get_hatch() for patch in axes.patches]
    assert len(told) == 6
    for text, hatch, cell in zip(told, hatches, values["cells"], strict=True):
        assert (text == "tie") == cell["is_tie"] == (hatch is not None)
        if not cell["is_tie"]:
            assert f"{cell['points_over_lru']:+.1f}" in text


def test_texts_of_a_map_lie_apart(values):
    figure = plot_map(values)
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        whole = axes.get_window_extent()
        for box in boxes:
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_equal_pictures_equal_bytes(values, tmp_path, ending):
    paths = [tmp_path / f"{i}.{ending}" for i in range(2)]
    for path in paths:
        figure = plot_map(values)
        assert isinstance(figure, Figure)
        save_picture(figure, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
