"""Regime maps: the three published regimes, and how verdicts come about."""

import dataclasses
import math

import pytest
from contract.replaying import make_replay

from hotset.policies.errors import PolicyError
from hotset.policies.registry import POLICIES
from hotset.sim.regime_axes import Supply, make_supply, parse_axis, place
from hotset.sim.regime_cells import KNOBS, Cell, Margin, Sum, quantile
from hotset.sim.regime_presets import BUDGETS, SEEDS, SKEWS, published_plan
from hotset.sim.regimes import Plan, check_plan, everyone, run_map
from hotset.sim.regimes_report import as_json
from hotset.sim.workload import Workload
from hotset.traces.generate import generate

FEW = ["guard", "relevance", "fifo"]

# Every policy behind every engine: minutes of compiling where nothing is cached.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published():
    few = ["relevance:order=given", "guard", "adaptive", "marconi"]
    return run_map(published_plan(few), jobs=2)


def test_the_published_map_is_all_that_it_says(published):
    assert len(SEEDS) == len(set(SEEDS)) == 6
    assert len(published.cells) == len(SKEWS) * len(BUDGETS)
    assert published.paired_by == "seeds"
    for cell in published.cells:
        assert len(cell.input_tokens) == len(SEEDS)
        assert len(set(cell.digests)) == len(SEEDS)
        optimum = cell.policies[-1]
        assert optimum.policy == "belady"
        assert cell.ratio(cell.best) <= cell.ceiling


def test_skewed_with_the_budget_above_the_hot_set_scoring_wins_big(published):
    """Published: restored 58 % beside 32 % of LRU (W1S at B1)."""
    cell = published.cell("2", BUDGETS["B1"])
    scoring = cell.knobs[0]
    assert scoring.name == "scoring"
    assert not scoring.margin.is_tie
    assert scoring.margin.value > 0.1
    assert cell.ratio(cell.scored) > 1.5 * cell.ratio(cell.baseline)
    helps = cell.knob_that_helps(["scoring", "store_threshold"])
    assert helps.name == "scoring"


def test_uniform_re_access_is_a_tie_and_said_to_be_one(published):
    said = as_json(published)["cells"]
    for budget in BUDGETS.values():
        cell = published.cell("1", budget)
        assert cell.margin(cell.scored).is_tie
        written = next(c for c in said if (c["x"], c["y"]) == ("1", budget))
        assert written["knobs"]["scoring"]["tie"] is True
    everything = published.cell("1", BUDGETS["B0"])
    assert everything.is_tie
    assert everything.winner is everything.baseline
    assert everything.knob_that_helps() is None


@pytest.mark.parametrize("budget", ["B2", "B3"])
@pytest.mark.parametrize("skew", ["2", "3"])
def test_below_the_hot_set_both_collapse_and_the_threshold_helps(
    published, budget, skew
):
    """At B2 the hot set fits, but not the newcomer that scoring must let in."""
    cell = published.cell(skew, BUDGETS[budget])
    assert cell.ratio(cell.baseline) < 0.06 * cell.ceiling
    assert cell.ratio(cell.scored) < 0.2 * cell.ceiling
    helps = cell.knob_that_helps(["scoring", "store_threshold"])
    assert helps.name == "store_threshold"
    above = published.cell(skew, BUDGETS["B1"])
    assert not any(
        knob.name == "store_threshold" and knob.margin.value > 0 for knob in above.knobs
    )


def test_below_the_hot_set_scoring_is_no_better_than_lru(published):
    for skew in SKEWS:
        cell = published.cell(skew, BUDGETS["B3"])
        assert cell.margin(cell.scored).is_tie


def plan(kind="hot-scan", x="scan=0.2,0.8", y="budget=5%,20%", **settings):
    defaults = {"policies": everyone(FEW), "seeds": (1, 2, 3), "thresholds": (2, 3)}
    supply = settings.pop("supply", None) or make_supply(kind, (), 300)
    return Plan(
        supply=supply,
        x=parse_axis(x, "--x"),
        y=parse_axis(y, "--y"),
        **{**defaults, **settings},
    )


def test_cells_hold_what_replays_say():
    chosen = plan()
    result = run_map(chosen)
    cell = result.cell("0.8", "5%")
    sums = dict.fromkeys([one.label for one in cell.policies], 0)
    larger = threshold = 0
    for seed, blocks in zip(chosen.seeds, cell.capacity_blocks, strict=True):
        trace = generate("hot-scan", 300, seed, scan_ratio=0.8)
        workload = Workload(trace)
        for label in sums:
            sums[label] += make_replay(workload, label, blocks).run().hit_tokens
        larger += make_replay(workload, "lru", 2 * blocks).run().hit_tokens
        careful = make_replay(workload, "lru", blocks, "threshold:3")
        threshold += careful.run().hit_tokens
    assert {one.label: sum(one.hit_tokens) for one in cell.policies} == sums
    assert sum(cell.larger.hit_tokens) == larger
    assert sum(cell.thresholds[1].hit_tokens) == threshold
    assert [knob.name for knob in cell.knobs] == list(KNOBS)


def test_neither_jobs_nor_company_change_a_cell():
    alone = as_json(run_map(plan()))
    assert as_json(run_map(plan(), jobs=4)) == alone
    (cell,) = as_json(run_map(plan(x="scan=0.8", y="budget=5%")))["cells"]
    assert cell in alone["cells"]


def test_a_trace_is_paired_by_sessions():
    trace = generate("chat", 300, 5)
    supply = Supply(trace=trace)
    result = run_map(
        plan(supply=supply, x="budget=5%,100%", y="gpu-blocks=0,40", seeds=(0,))
    )
    assert result.paired_by == "sessions"
    cell = result.cell("5%", "0")
    assert len(cell.input_tokens) == len(set(trace.session.tolist()))
    assert sum(cell.input_tokens) == trace.input_tokens.sum()
    assert result.cell("100%", "0").is_tie
    assert result.cell("5%", "40").ceiling >= cell.ceiling


def made_cell(hits, tokens=1000, least=0.005, **changes):
    """A place with these hit tokens of lru, guard and belady, by seed."""
    sums = [
        Sum(name, name, tuple(values))
        for name, values in zip(("lru", "guard", "belady"), hits, strict=True)
    ]
    count = len(hits[0])
    cell = Cell(
        x="1", y="1", capacity_blocks=(1,) * count, input_tokens=(tokens,) * count,
        ceiling_tokens=tokens * count, digests=("",) * count, policies=sums,
        thresholds=[sums[0]], scored=sums[0], guarded=sums[1], larger=sums[0],
        least=least,
    )  # fmt: skip
    return dataclasses.replace(cell, **changes)


def test_worked_margins():
    """Gains 90 and 110 of 1,000: 10 points, the error 1, times 12.71 for one degree."""
    cell = made_cell([(100, 100), (190, 210), (400, 400)])
    margin = cell.margin(cell.policies[1])
    assert margin.value == pytest.approx(0.1)
    assert margin.noise == pytest.approx(0.1271)
    assert cell.is_tie
    assert cell.winner.label == "lru"
    assert cell.best.label == "guard"
    assert cell.knob_that_helps() is None
    clear = made_cell([(100, 100), (199, 201), (400, 400)])
    assert not clear.is_tie
    assert clear.winner.label == "guard"
    assert clear.level == ["guard"]
    assert clear.knob_that_helps().name == "distance"
    # The optimum knows the future and never wins.
    assert made_cell([(100, 100), (100, 100), (400, 400)]).is_tie


def test_one_that_is_ahead_wins_beside_a_noisier_one():
    """The other hits more on the whole, and by seed anything."""
    steady = Sum("marconi", "marconi", (199, 201))
    cell = made_cell([(100, 100), (0, 500), (600, 600)])
    cell = dataclasses.replace(cell, policies=[*cell.policies, steady])
    assert cell.best.label == "guard"
    assert cell.margin(cell.best).is_tie
    assert cell.winner.label == "marconi"
    assert not cell.is_tie
    assert cell.shown.label == "marconi"
    noisy = Sum("lru, threshold:2", "lru", (0, 500))
    steady = Sum("lru, threshold:3", "lru", (150, 151))
    cell = dataclasses.replace(cell, thresholds=[noisy, steady])
    assert {knob.name: knob.setting for knob in cell.knobs}["store_threshold"] == (
        "lru, threshold:3"
    )


def test_small_margins_are_ties_without_any_noise():
    cell = made_cell([(100, 100), (104, 104), (400, 400)])
    assert cell.is_tie
    assert dataclasses.replace(cell, least=0.003).winner.label == "guard"
    assert made_cell([(100,), (900,), (900,)]).is_tie, "one pair shows nothing"


def test_the_noise_covers_what_it_says():
    """Of Student's t, 97.5 %: the table is never below the exact quantile."""
    exact = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 29: 2.045, 60: 2.0003}
    for degrees, value in exact.items():
        assert value <= quantile(degrees) + 0.001
        assert quantile(degrees) < 1.05 * value
    assert Margin(0.01, 0.01, 0.0).is_tie
    assert not Margin(0.011, 0.01, 0.0).is_tie


@pytest.mark.parametrize(
    ("kind", "settings", "options", "blocks"),
    [
        ("chat", {"skew": "1.5"}, {"zipf_exponent": 1.5}, 100),
        ("chat", {"think": "60", "sessions": "36"},
         {"think_s": 60, "sessions_per_s": 0.1}, 100),
        ("agents", {"think": "8", "sessions": "24"},
         {"step_s": 8, "agents_per_s": 0.1}, 100),
        ("hot-scan", {"hot-over-budget": "2", "hot_contexts": "10"},
         {"hot_contexts": 10}, 80),
        ("hot-scan", {"scan": "0.25"}, {"scan_ratio": 0.25}, 100),
        ("uniform", {"hot-over-budget": "4"}, {}, 800),
        ("questions", {"hot-over-budget": "0.5", "skew": "3"}, {"skew": 3}, 3015),
        ("chat", {"hot-over-budget": "1"}, {}, 195),
    ],
)  # fmt: skip
def test_dimensions(kind, settings, options, blocks):
    budget = None if "hot-over-budget" in settings else "100"
    found = place(make_supply(kind, (), 100), settings, budget, 0)
    assert dict(found.options) == pytest.approx(options)
    assert found.capacity.blocks(10**6, 512, None) == blocks


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x": "scan=0.1,0.1"}, "a value is there twice"),
        ({"x": "scan"}, "NAME=VALUE"),
        ({"x": "scn=1"}, "did you mean 'scan'"),
        ({"x": "skew=1"}, "--x skew: not of generate:hot-scan"),
        ({"x": "budget=1%"}, "that is --x already"),
        ({"y": "gpu-blocks=0"}, "the budget is given 0 times"),
        ({"budget": "1%"}, "the budget is given 2 times"),
        ({"seeds": (1, 1)}, "--seeds"),
        ({"seeds": (-1,)}, "--seeds -1"),
        ({"more": 1.0}, "--more 1"),
        ({"least": 1.0}, "--least 1"),
        ({"least": math.nan}, "--least nan"),
        ({"warmup": 1.0}, "--warmup"),
        ({"thresholds": ()}, "--store-threshold"),
        ({"kind": "hotscan"}, "did you mean 'hot-scan'"),
    ],
)
def test_what_is_refused(changes, said):
    with pytest.raises(PolicyError, match=said):
        check_plan(plan(**changes))


def test_everyone_takes_part():
    names = [policy.name for policy, _ in everyone([])]
    assert names[0] == "lru"
    assert names[-1] == "belady"
    assert set(names) == {
        name for name in POLICIES.names() if not POLICIES.get(name).unbounded
    }
    with pytest.raises(PolicyError, match="never evicts"):
        everyone(["unbounded"])
