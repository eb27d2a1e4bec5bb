"""Offered load and the measuring window, where both are known by hand."""

import numpy as np
import pytest
from strategies import Forest

from hotset.policies import ADMISSIONS, POLICIES
from hotset.policies.errors import PolicyError
from hotset.sim.capacity import parse_capacity
from hotset.sim.cost import CostModel
from hotset.sim.engines import engine
from hotset.sim.metrics import ttft_objective_s
from hotset.sim.profile import Profile, TierLink
from hotset.sim.simulate import Plan, run_plan
from hotset.sim.ssd_plan import SsdPlan
from hotset.sim.ssd_traffic import SsdLinks
from hotset.sim.transfers import LinkSpec

FAST = LinkSpec(1e15)


def simulated(forest, cost, link=FAST, ssd=None, pool=1000, sequences=8, **options):
    """The result of a run under LRU, with 4 tokens a block and 1 byte a token."""
    profile = Profile(
        name="x",
        summary="",
        is_estimated=False,
        arithmetic=(),
        kv_bytes_per_token=1,
        pool_tokens=4 * pool,
        step_tokens=64,
        max_sequences=sequences,
        is_async=False,
        cost=cost,
        cpu=TierLink(link, link, True),
        ssd=ssd and SsdLinks(ssd, ssd),
    )
    behind = SsdPlan(parse_capacity("1000"), None, ADMISSIONS.parse("always"))
    plan = Plan(
        policies=[POLICIES.parse("lru")],
        admission=ADMISSIONS.parse("always"),
        engine=engine("vllm-0.33"),
        profile=profile,
        cpu=parse_capacity("1000"),
        ssd=behind if ssd else None,
        **options,
    )
    return run_plan(forest.trace(), plan)


def distinct(count, gap_s, size=3, outputs=1):
    """Requests that share nothing, at equal gaps."""
    return Forest(
        [[size * i + k for k in range(size)] for i in range(count)],
        waits_s=[gap_s] * count,
        outputs=[outputs] * count,
    )


def decoding_alone(gap_s):
    """Seven of ten blocks each, so one at a time, 10 s each."""
    cost = CostModel(decode_s=1.0)
    return simulated(distinct(60, gap_s, size=6, outputs=11), cost, pool=10)


def storing(gap_s):
    """12 bytes a request over a link of one byte a second."""
    return simulated(distinct(60, gap_s), CostModel(token_s=1e-6), link=LinkSpec(1.0))


def writing(gap_s):
    """12 bytes a request to an SSD of one byte a second."""
    return simulated(distinct(60, gap_s), CostModel(token_s=1e-6), ssd=LinkSpec(1.0))


def prefilling(gap_s):
    """12 tokens a request, a second each."""
    return simulated(distinct(60, gap_s), CostModel(token_s=1.0))


def crowded(gap_s):
    """Prompts of a step each, which one decoding sequence of many makes longer."""
    cost = CostModel(token_s=1 / 64, decode_s=1.0)
    return simulated(distinct(60, gap_s, size=16, outputs=2), cost)


@pytest.mark.parametrize(
    ("run", "takes_s", "name"),
    [
        (decoding_alone, 10.0, "gpu_blocks"),
        (storing, 12.0, "cpu_store"),
        (writing, 12.0, "ssd"),
        (prefilling, 12.0, "compute"),
    ],
)
def test_the_load_is_that_of_what_is_short(run, takes_s, name):
    for load in (0.5, 0.8, 1.25, 2.0):
        result = run(takes_s / load)
        summary = result.runs[0].summary
        assert summary["bottleneck"] == name
        # Blocks that no request can use count only while one waits for more.
        near = 0.3 if name == "gpu_blocks" and load < 1 else 0.05
        assert summary["offered_load"] == pytest.approx(load, rel=near)
        assert summary["offered_load"] == max(summary["offered_load_by"].values())
        is_said = any("is above 1" in warning for warning in result.warnings)
        assert is_said == (load > 1)
        if load > 1:
            with pytest.raises(PolicyError, match=rf"\({name}\): above 1 the queue"):
                ttft_objective_s(summary)
        else:
            assert ttft_objective_s(summary) == summary["ttft_s"]["p95"]


def test_steps_that_cannot_be_full_count_whole():
    """A prompt fills a step, so one sequence decodes in each: 2 s a request."""
    queues = []
    for gap_s in (4.0, 2.2, 1.7):
        result = crowded(gap_s)
        queue = result.runs[0].records.spans()["queue_s"]
        queues.append((result.runs[0].summary["offered_load"], queue[-5:].mean()))
    (low, _), (middle, short), (high, long) = queues
    assert low < 0.6
    assert middle <= 1.0
    assert high > 1.0
    assert long > 5 * max(short, 0.2)


def test_sequences_that_share_blocks_are_not_short_of_them():
    """Twenty blocks in front of all; beside them the pool holds four at a time."""
    paths = [[*range(20), 20 + i] for i in range(60)]
    forest = Forest(paths, waits_s=[5.0] * 60, outputs=[11] * 60)
    result = simulated(forest, CostModel(decode_s=1.0), pool=40)
    assert np.nanmax(result.runs[0].records.spans()["queue_s"]) < 1.0
    assert result.runs[0].summary["offered_load"] <= 1


def test_a_queue_that_only_later_traffic_makes_grow_is_seen():
    forest = distinct(80, 60.0)
    forest.waits_s[40:] = [10.0] * 40
    summary = simulated(forest, CostModel(token_s=1.0)).runs[0].summary
    assert summary["offered_load"] < 1  # most of the time is the first part's
    forest.waits_s[20:] = [10.0] * 60
    forest.waits_s[:20] = [30.0] * 20
    summary = simulated(forest, CostModel(token_s=1.0)).runs[0].summary
    assert summary["offered_load"] == pytest.approx(1.2, rel=0.1)


def test_all_at_once_has_no_load():
    summary = simulated(distinct(5, 0.0), CostModel()).runs[0].summary
    assert summary["offered_load"] is None
    assert summary["offered_load_by"] is None
    assert summary["bottleneck"] is None


def test_every_number_is_of_the_window():
    """The second half finds two blocks of three on the GPU and loads the last one.

    A request of it takes a second to load 4 bytes, and one to compute its last token.
    """
    paths = [[3 * i + k for k in range(3)] for i in range(20)] * 2
    forest = Forest(paths, waits_s=[10.0] * 40)
    cost = CostModel(start_s=1.0)
    settings = {"cost": cost, "ssd": LinkSpec(1.0), "link": LinkSpec(4.0)}
    whole = simulated(forest, **settings).runs[0].summary
    result = simulated(forest, **settings, warmup=0.5)
    half = result.as_json()["runs"][0]
    assert whole["cpu"]["stores"] == whole["ssd"]["stores"] == 60
    # What the last request of the first half stored goes on into the second.
    assert half["cpu"]["stores"] == half["cpu"]["store_bytes"] == 0
    assert half["links"]["cpu_store"]["bytes"] == 0
    assert half["links"]["cpu_load"]["bytes"] == half["cpu"]["load_bytes"] == 80
    assert half["links"]["cpu_load"]["busy_s"] == pytest.approx(20)
    assert half["ssd"]["stores"] <= 3
    assert half["ssd"]["writes_per_day_bytes"] < whole["ssd"]["writes_per_day_bytes"]
    assert whole["duration_s"] == pytest.approx(392.0)
    assert half["duration_s"] == pytest.approx(192.0)
    assert half["requests"] == 20
    assert half["steps"] == 20
    assert half["busy_share"] == pytest.approx(20 / 192)
    assert half["mean_present"] == pytest.approx(40 / 192)
    series = half["over_time"]
    assert series["edges_s"][0] == 200.0
    for tier in ("gpu", "cpu", "ssd", "computed"):
        key = tier if tier == "computed" else f"{tier}_hit"
        assert sum(series[f"{tier}_tokens"]) == half["tokens"][key]
    assert half["tokens"]["input"] == 20 * 12
    assert half["cpu"]["resident"] == 60  # what stands is that of the end
    assert half["token_hit_ratio"] <= result.ceiling_token_hit_ratio == 1.0


def test_thinking_behind_the_last_answer_is_no_duration():
    forest = distinct(7, 0.0)
    cost = CostModel(start_s=1.0)
    result = simulated(forest, cost, users=3, think_s=500.0)
    times = result.runs[0].records.times
    assert result.runs[0].summary["duration_s"] == np.nanmax(times["end_s"])


def test_a_request_without_outputs_generates_one_token():
    summary = simulated(distinct(4, 1.0, outputs=0), CostModel()).runs[0].summary
    assert summary["tokens"]["output"] == 4
    assert summary["itl_s"] is None
