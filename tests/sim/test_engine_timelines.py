"""What happens when, event by event, in small cases."""

import dataclasses

import pytest
from strategies import Forest
from support.simulated import Simulation, machine, run_config

from hotset.policies.errors import PolicyError
from hotset.sim.cost import CostModel
from hotset.sim.job import Phase
from hotset.sim.transfers import LinkSpec
from hotset.sim.workload import Workload

A_SECOND_A_STEP = CostModel(token_s=0.125, decode_s=1.0)  # 8 tokens of prefill, or one
LRU = run_config("lru", 50, engine="vllm-0.32")


def simulate(paths, waits_s, outputs, config=LRU, short=(), **options):
    number = {}
    dense = [[number.setdefault(b, len(number)) for b in path] for path in paths]
    forest = Forest(dense, list(short), waits_s=waits_s, outputs=outputs)
    workload = Workload(forest.trace())
    settings = {"cost": A_SECOND_A_STEP, "step_tokens": 8, "max_sequences": 8}
    spec = machine(workload, **{**settings, **options})
    return Simulation(workload, config, spec).run()


def test_prefill_in_chunks_with_stores_a_step_behind():
    """16 tokens in two steps of a second, then two decode steps."""
    run = simulate([[0, 1, 2, 3]], [0.0], [3])
    assert run.log == [
        (0.0, "arrives", 0),
        (0.0, "offers", 0),  # the first two blocks, in the step that fills them
        (1.0, "offers", 0),
        (2.0, "stored", 0),  # handed over at 1, known at the end of that step
        (2.0, "first token", 0),
        (3.0, "stored", 0),
        (4.0, "ends", 0),
    ]
    assert run.env.num_events == 24


def test_a_second_request_joins_the_batch_at_a_step_s_end():
    run = simulate([[0, 1], [10]], [0.0, 1.5], [4, 1], config=None)
    assert run.log == [
        (0.0, "arrives", 0),
        (1.0, "first token", 0),
        (1.5, "arrives", 1),
        # The decode step that was under way ends at 2; the next takes 1 + 4 / 8 s.
        (3.5, "first token", 1),
        (3.5, "ends", 1),
        (4.5, "ends", 0),
    ]
    assert run.engine.busy.total_s == 4.5
    assert run.engine.batcher.step == 4
    assert run.env.num_events == 16


def test_a_load_keeps_nobody_else_waiting():
    """Request 2 loads for 4 s; request 3, behind it, computes meanwhile."""
    paths = [[0, 1, 2], [10, 11, 12, 13], [0, 1, 2, 3], [20, 21]]
    run = simulate(
        paths,
        [0.0, 10.0, 10.0, 0.0],
        [1, 1, 1, 1],
        gpu_blocks=7,
        kv_bytes_per_token=1,
        load_link=LinkSpec(1.0),
    )
    assert [job.gpu_tokens for job in run.jobs] == [0, 0, 0, 8]
    after = [row for row in run.log if row[0] >= 20.0]
    assert after == [
        (20.0, "arrives", 2),
        (20.0, "arrives", 3),
        (20.0, "loads", 2),
        (20.0, "offers", 3),
        (21.0, "first token", 3),
        (21.0, "ends", 3),
        (21.0, "stored", 3),
        (24.0, "loaded", 2),
        (24.0, "offers", 2),
        (24.5, "first token", 2),
        (24.5, "ends", 2),
        (24.5, "stored", 2),
    ]


def test_requests_for_one_prefix_share_a_load():
    """The second waits for the first one's load, then finds it on the GPU."""
    paths = [[0, 1, 2], list(range(10, 19)), [0, 1, 2, 3], [0, 1, 2, 4]]
    run = simulate(
        paths,
        [0.0, 10.0, 10.0, 0.0],
        [1, 1, 1, 1],
        gpu_blocks=10,
        kv_bytes_per_token=1,
        load_link=LinkSpec(1.0),
        max_sequences=1,
    )
    second = run.jobs[-1]
    assert second.index == 3
    assert (second.gpu_tokens, second.hit_tokens, second.load_s) == (12, 12, 0.0)
    loads = [row for row in run.log if row[1] == "loads"]
    assert loads == [(20.0, "loads", 2)]
    assert run.engine.load_link.num_transfers == 1


@pytest.mark.parametrize(
    ("engine", "hit_tokens", "started_s"),
    [("vllm-0.32", 8, 9.0), ("none", 4, 2.0)],
)
def test_a_block_being_written_is_no_hit(engine, hit_tokens, started_s):
    """Engines wait until it is written; a plain cache takes it for a miss."""
    run = simulate(
        [[0, 1], [10, 11], [0, 1, 2]],
        [0.0, 1.0, 1.0],
        [1, 1, 1],
        config=run_config("lru", 50, engine=engine),
        gpu_blocks=4,
        kv_bytes_per_token=1,
        store_link=LinkSpec(1.0),
    )
    job = next(job for job in run.jobs if job.index == 2)
    assert job.hit_tokens == hit_tokens
    assert job.admitted_s == started_s


def test_a_request_gives_way_when_blocks_run_out():
    """Two requests of 2 blocks decode in 5 usable ones; the later one starts again.

    Both hold 2 blocks and need a third for their first decode step: the later one
    finds none and gives way itself. Once the first is done it computes its prompt and
    the one token that it had generated again.
    """
    run = simulate(
        [[0, 1], [10, 11]],
        [0.0, 0.0],
        [4, 4],
        config=None,
        gpu_blocks=6,
        step_tokens=16,
    )
    first, second = run.jobs
    assert (first.index, first.num_preemptions) == (0, 0)
    assert (second.index, second.num_preemptions) == (1, 1)
    assert run.times("first token") == {0: 2.0, 1: 2.0}
    # Its own blocks were not taken by anybody: 8 tokens are cached, one is computed.
    assert second.num_computed == 8
    assert run.times("ends") == {0: 5.0, 1: 5.0 + 0.125 + 2}
    assert second.generated == 4
    assert all(job.phase is Phase.DONE for job in run.jobs)


def test_who_is_loaded_goes_on_when_the_only_one_that_runs_gives_way():
    """Request 2 gives way in the step in which request 3's load is known to be over.

    They hold the four blocks that there are. Request 2 has 3 tokens of prompt, then
    decodes one and needs a block for the next, at 41.375; the load ends at 41. Nothing
    is computed in that step, and in the next one request 3 goes on.
    """
    run = simulate(
        [[0, 1, 2], [10, 11, 12, 13], [20], [0, 1, 2]],
        [0.0, 20.0, 20.0, 0.0],
        [1, 1, 3, 1],
        short=[0, 0, 1, 0],
        gpu_blocks=5,
        kv_bytes_per_token=1,
        load_link=LinkSpec(12.0),
    )
    jobs = {job.index: job for job in run.jobs}
    assert (jobs[3].hit_tokens, jobs[3].num_preemptions) == (12, 0)
    assert jobs[2].num_preemptions == 1
    assert run.times("ends")[3] == 41.375 + 0.125


def test_t44_a_request_longer_than_the_pool_is_an_error():
    with pytest.raises(PolicyError, match="request 1 is longer than the GPU pool"):
        simulate([[0], [1, 2, 3]], [0.0, 1.0], [1, 1], config=None, gpu_blocks=3)


def test_a_step_limit_ends_what_does_not_end():
    workload = Workload(Forest([[0, 1]], outputs=[50]).trace())
    spec = machine(workload, cost=A_SECOND_A_STEP, step_tokens=8, max_sequences=8)
    with pytest.raises(PolicyError, match="no end after 20 steps"):
        Simulation(workload, None, spec, max_steps=20).run()


def test_a_load_is_taken_only_where_it_pays_if_so_configured():
    paths = [[0, 1, 2], [10, 11, 12, 13, 14], [0, 1, 2, 3]]
    outcomes = {}
    for speed in (100.0, 1.0):
        for choosy in (False, True):
            run = simulate(
                paths,
                [0.0, 10.0, 10.0],
                [1, 1, 1],
                gpu_blocks=7,
                kv_bytes_per_token=1,
                load_link=LinkSpec(speed),
                loads_if_faster=choosy,
            )
            outcomes[speed, choosy] = run.jobs[-1].hit_tokens
    assert outcomes == {
        (100.0, False): 12,
        (100.0, True): 12,
        (1.0, False): 12,
        (1.0, True): 4,
    }


def test_users_wait_for_their_answers():
    workload = Workload(Forest([[i] for i in range(4)], waits_s=[0.0] * 4).trace())
    spec = machine(workload, cost=A_SECOND_A_STEP)
    run = Simulation(workload, None, spec, users=2, think_s=10.0).run()
    assert run.times("arrives") == {0: 0.0, 1: 0.0, 2: 11.0, 3: 11.0}
    assert run.times("ends") == {0: 1.0, 1: 1.0, 2: 12.0, 3: 12.0}


def test_users_without_a_request_cost_nothing():
    workload = Workload(Forest([[0], [1]], waits_s=[0.0] * 2).trace())
    spec = machine(workload, cost=A_SECOND_A_STEP)
    run = Simulation(workload, None, spec, users=10**12).run()
    assert run.times("ends") == {0: 1.0, 1: 1.0}


def test_equal_simulations_tell_equal_stories():
    paths = [[0, 1, 2], [10, 11], [0, 1, 5, 6], [10, 11, 12], [0, 1, 2, 3]] * 6
    runs = [
        simulate(
            paths,
            [0.0, 0.0, 0.7, 0.0, 1.1] * 6,
            [3, 1, 9, 2, 4] * 6,
            gpu_blocks=14,
            kv_bytes_per_token=1,
            load_link=LinkSpec(30.0, 0.1),
            store_link=LinkSpec(20.0, 0.1),
        )
        for _ in range(2)
    ]
    assert runs[0].log == runs[1].log
    assert len(runs[0].jobs) == 30
    fields = [field.name for field in dataclasses.fields(runs[0].jobs[0])]
    assert "gpu_tokens" in fields
    assert [(j.index, j.gpu_tokens, j.hit_tokens) for j in runs[0].jobs] == [
        (j.index, j.gpu_tokens, j.hit_tokens) for j in runs[1].jobs
    ]


@pytest.mark.parametrize(("is_async", "ends_s"), [(False, 24.5), (True, 25.5)])
def test_a_load_ends_within_steps_that_others_decode(is_async, ends_s):
    """Request 2 decodes from 21 on, a second a step; its second block took one of 0's.

    Request 3 comes at 21.5 and loads that block from 22 to 22.5. The step under way
    ends at 23; decided before that is known, one more passes where scheduling is
    asynchronous. The next one takes 1 s, and 0.5 s for 4 tokens of prefill.
    """
    paths = [[0, 1, 2], [10, 11, 12, 13], [20], [0, 1, 2, 3]]
    run = simulate(
        paths,
        [0.0, 10.0, 10.5, 1.0],
        [1, 1, 12, 1],
        gpu_blocks=9,
        kv_bytes_per_token=1,
        load_link=LinkSpec(8.0),
        is_async=is_async,
    )
    job = next(job for job in run.jobs if job.index == 3)
    assert (job.gpu_tokens, job.hit_tokens, job.load_s) == (8, 12, 0.5)
    assert run.times("loads")[3] == 22.0
    assert run.times("first token")[3] == ends_s
