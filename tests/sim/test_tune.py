"""From a trace to a verdict: what is deployed, what is not, and what it rests on."""

import dataclasses
import json
import multiprocessing
import os
import signal

import pytest
from contract.replaying import make_replay
from support.tuning import plan, private_tails, round_robin, trace_of

from hotset.policies.errors import PolicyError
from hotset.sim.candidate import candidate
from hotset.sim.evaluate import make_evaluator
from hotset.sim.tune import run_tune, study_name
from hotset.sim.tuned import as_json
from hotset.sim.verdict import DEPLOY, KEEP_LRU, NO_OFFLOAD, judge
from hotset.sim.workers import Processes, Score
from hotset.sim.workload import Workload
from hotset.traces.generate import generate

OURS = ("weighted", "guard", "adaptive", "relevance", "marconi")
SEEDS = range(20)


def tuned(trace, policies=OURS, admissions=("always", "threshold"), **settings):
    return run_tune(trace, plan(policies, admissions, **settings))


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_traffic_keeps_lru(seed):
    """Every context is as likely as any other: nothing can be told apart."""
    trace = generate("uniform", 1500, seed)
    result = tuned(trace, cpu="30%", trials=24, seed=seed)
    assert result.verdict.decision == KEEP_LRU


@pytest.mark.parametrize("seed", SEEDS)
def test_a_scan_beside_a_hot_set_that_fits(seed):
    """LRU lets the scan push the hot set out; what is seen once is worth nothing."""
    trace = generate("hot-scan", 1500, seed)
    result = tuned(trace, cpu="720", trials=24, seed=seed)  # hot: 40 contexts of 16
    assert result.verdict.decision == DEPLOY
    assert result.verdict.row("best").gain.lower > 0.01


def test_who_refuses_wins_where_contexts_go_round():
    """More contexts than fit, in turn: LRU always drops the one that is next."""
    result = tuned(round_robin(50, 16, 30), cpu="60%", trials=24)
    assert result.verdict.row("lru").objectives["token_hit_ratio"] == 0
    assert result.verdict.decision == DEPLOY
    assert result.verdict.row("best").objectives["token_hit_ratio"] > 0.4


def test_who_refuses_wins_against_private_tails():
    trace = private_tails(contexts=60, head=8, tail=16, requests=1500, seed=3)
    result = tuned(trace, cpu="500", trials=24)
    assert result.verdict.decision == DEPLOY


def test_traffic_without_reuse_needs_no_offloading():
    trace = trace_of([[10 * r + i for i in range(10)] for r in range(400)])
    result = tuned(trace, cpu="10%", trials=8)
    assert result.verdict.decision == NO_OFFLOAD
    assert "than no offloading at all" in result.verdict.reason


def test_rows_are_what_replays_get():
    """On the holdout, with the cache as warm as the fit part left it."""
    trace = generate("chat", 400, 3)
    result = tuned(trace, current=candidate("fifo"), gpu_blocks=0)
    roles = [row.role for row in result.verdict.rows]
    assert roles == ["best", "lru", "arc", "current", "no-offload", "optimum"]
    workload = Workload(trace)
    lru = make_replay(workload, "lru", result.evaluator.capacity_blocks, warmup=0.5)
    base = lru.run().token_hit_ratio
    for row in result.verdict.rows:
        if row.role == "no-offload":
            assert row.objectives["token_hit_ratio"] == 0
            continue
        replay = make_replay(
            workload,
            row.candidate.policy.label(row.candidate.params),
            result.evaluator.capacity_blocks,
            row.candidate.admission.label(row.candidate.admission_params),
            warmup=0.5,
        )
        ratio = replay.run().token_hit_ratio
        assert row.objectives["token_hit_ratio"] == ratio
        if row.role != "lru":
            assert row.gain.value == pytest.approx(ratio - base, abs=1e-12)
            assert row.gain.lower <= row.gain.value <= row.gain.upper
    optimum = result.verdict.row("optimum").objectives["token_hit_ratio"]
    assert all(
        row.objectives["token_hit_ratio"] <= optimum for row in result.verdict.rows
    )


def test_trials_see_the_first_part_alone():
    trace = generate("chat", 400, 3)
    result = tuned(trace, trials=16)
    first = result.verdict.first
    assert first == 200
    part = Workload(dataclasses.replace(trace))
    for each in result.settled:
        replay = make_replay(
            part,
            each.candidate.policy.label(each.candidate.params),
            result.evaluator.capacity_blocks,
            each.candidate.admission.label(each.candidate.admission_params),
        )
        replay.advance(first)
        assert each.score.values == (replay.result().token_hit_ratio,)


def test_a_gpu_in_front_counts_for_no_offloading():
    """What the GPU's own cache hits is no gain of the CPU tier.

    The tier adds the last block of each prompt, which the GPU computes again.
    """
    trace = generate("uniform", 800, 1)
    holds_all = 200 * 16 + 100
    result = tuned(
        trace,
        (),
        ("always",),
        engine="vllm-0.33",
        gpu_blocks=holds_all,
        cpu="20%",
        trials=1,
        min_gain=0.1,
    )
    without = result.verdict.row("no-offload").objectives["token_hit_ratio"]
    assert without > 0.5
    assert result.verdict.decision == NO_OFFLOAD


def test_several_objectives_give_a_front():
    trace = generate("hot-scan", 800, 2)
    result = tuned(
        trace,
        ("guard", "marconi"),
        objectives=("token_hit_ratio", "stored_bytes"),
        kv_bytes_per_token=1000,
        cpu="720",
        trials=40,
    )
    assert result.front[0] == result.best
    points = [each.score.values for each in result.front]
    assert points == sorted(points, reverse=True)
    row = result.verdict.row("best")
    stores = make_replay(
        Workload(trace),
        row.candidate.policy.label(row.candidate.params),
        720,
        row.candidate.admission.label(row.candidate.admission_params),
        warmup=0.5,
    ).run().stores  # fmt: skip
    assert row.objectives["stored_bytes"] == stores * 512 * 1000


def test_walk_forward_searches_on_each_beginning():
    trace = generate("chat", 400, 3)
    result = tuned(trace, ("guard",), ("always",), walk_forward=3, trials=8)
    assert [split.fit_requests for split in result.splits] == [100, 200, 300]
    assert [split.judged_requests for split in result.splits] == [100, 100, 100]
    # The second one is the search itself, whose fit part it shares.
    assert result.splits[1].best == result.best.candidate


def test_the_file_is_the_same_on_any_number_of_workers(tmp_path):
    trace = generate("chat", 300, 5)
    asked = plan(OURS, ("always", "threshold"), trials=16)
    one = run_tune(trace, asked)
    journal = str(tmp_path / "j")
    two = run_tune(trace, asked, journal, jobs=2)
    assert json.dumps(as_json(one)) == json.dumps(as_json(two))
    again = run_tune(trace, asked, journal, started=lambda known: known == 16)
    assert json.dumps(as_json(again)) == json.dumps(as_json(one))


def test_what_the_file_holds():
    trace = generate("hot-scan", 800, 2)
    result = tuned(trace, ("guard",), cpu="720", engine="vllm-0.33")
    told = as_json(result)
    json.dumps(told, allow_nan=False)
    assert told["verdict"] == DEPLOY
    best = result.best.candidate
    assert told["policy"]["name"] == best.policy.name
    assert candidate(told["policy"], told["admission"]) == best
    assert told["engine"]["name"] == "vllm-0.33"
    assert told["engine"]["chunk_tokens"] == 512
    assert told["cpu"]["blocks"] == 720
    assert told["units"]["ages"] == best.policy.age_unit
    assert told["provenance"]["trace"]["sha256"]
    assert told["evidence"]["bootstrap"]["over"] == "blocks of requests"
    by_role = {row["role"]: row for row in told["evidence"]["holdout"]}
    assert by_role["lru"]["gain"] is None
    assert by_role["best"]["miss_change"] < 0
    assert len(by_role["best"]["by_part"]) == 4
    parameters = {each["parameter"] for each in told["evidence"]["sensitivity"]}
    assert any(name.startswith(f"{best.policy.name}.") for name in parameters)


def test_study_names_follow_what_trials_depend_on():
    trace = generate("chat", 100, 3)
    base = plan(trials=8)
    same = [dataclasses.replace(base, trials=9, timeout_s=3.0, min_gain=0.5,
                                walk_forward=2)]  # fmt: skip
    other = [
        plan(seed=1), plan(cpu="6%"), plan(fit=0.6), plan(["guard"]),
        plan(sampler="random"), plan(engine="vllm-0.33"), plan(tail="count"),
        plan(current=candidate("fifo")),
    ]  # fmt: skip
    names = [study_name(trace, each) for each in (base, *same, *other)]
    assert names[0] == names[1]
    assert len(set(names)) == 1 + len(other)
    assert study_name(generate("chat", 100, 4), base) != names[0]


def test_a_worker_that_is_killed_costs_no_trial():
    trace = generate("chat", 100, 3)
    asked = plan(["guard"])
    expected = make_evaluator(trace, asked).score(candidate("guard"), 50)
    with Processes(trace, asked, 50, 2) as workers:
        assert workers.submit(candidate("guard")).result() == Score(expected)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        found = [workers.submit(candidate("guard")).result() for _ in range(3)]
    assert found[-1] == Score(expected)
    assert all(each.crashed for each in found if each != Score(expected))


def test_a_candidate_that_raises_is_a_failed_trial():
    class Broken:
        def score(self, *_):
            raise MemoryError("no room")

    from hotset.sim.workers import InProcess

    found = InProcess(Broken(), 1).submit(candidate("lru")).result()
    assert found == Score(fault="MemoryError: no room")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fit": 0.0}, "--fit"),
        ({"fit": 1.0}, "--fit"),
        ({"trials": 0}, "--trials"),
        ({"timeout_s": 0.0}, "--timeout"),
        ({"seed": -1}, "--seed"),
        ({"min_gain": 1.0}, "--min-gain"),
        ({"walk_forward": 1}, "--walk-forward"),
        ({"gpu_blocks": 1}, "--gpu-blocks"),
        ({"tail": "count", "engine": "vllm-0.33"}, "--tail count"),
        ({"objectives": ("ttft_p95_s",)}, "needs --profile"),
        ({"objectives": ("stored_bytes",)}, "storing nothing is best"),
        ({"objectives": ("token_hit_ratio", "stored_bytes")}, "--kv-bytes-per-token"),
        ({"objectives": ("token_hit_ratio",) * 2}, "given twice"),
        ({"objectives": ("hits",)}, "--objective hits"),
        ({"policies": ("belady",)}, "cannot run in a server"),
        ({"policies": ("unbounded",)}, "cannot run in a server"),
        ({"policies": ("gard",)}, "did you mean 'guard'"),
    ],
)
def test_settings_that_are_refused(settings, said):
    with pytest.raises(PolicyError, match=said):
        plan(**settings)


def test_traces_that_cannot_be_tuned_on():
    short = trace_of([[1, 2]])
    with pytest.raises(PolicyError, match="leaves no request"):
        run_tune(short, plan(trials=1))
    with pytest.raises(PolicyError, match="hold no chunk"):
        run_tune(trace_of([[1, 2]] * 9), plan(cpu="1", chunk_tokens=1024, trials=1))


def test_a_verdict_warns_where_the_trace_changes():
    """Contexts go round, then all are new: the best of the past is no longer that."""
    rounds = [[16 * (r % 50) + i for i in range(16)] for r in range(800)]
    later = [[20_000 + 16 * (r // 4) + i for i in range(16)] for r in range(900)]
    trace = trace_of(rounds + later)
    asked = plan(["guard"], trials=1, cpu="200")
    verdict = judge(make_evaluator(trace, asked), candidate("guard:distance=2000"))
    assert verdict.row("best").by_part[0] > 0.1
    assert verdict.decision != DEPLOY
    assert any("parts of the trace disagree" in each for each in verdict.warnings)
