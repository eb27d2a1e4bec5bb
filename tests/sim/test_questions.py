"""Questions about long contexts: who is asked how often, and what is shared."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.questions import QuestionOptions, question_order, questions
from hotset.traces.random_values import Draws

PLAIN = QuestionOptions(swap_ratio=0.0)


@pytest.mark.parametrize(("skew", "times"), [(1, 12), (2, 6), (3, 4), (12, 1)])
def test_hot_contexts_are_asked_as_often_as_said(skew, times):
    order = question_order(replace(QuestionOptions(), skew=skew), Draws(3))
    counts = Counter(order)
    assert [counts[context] for context in range(8)] == [12] * 2 + [times] * 6


def test_rounds_go_on_where_the_last_one_ended():
    order = question_order(PLAIN, Draws(1))
    turns = order[2:5] + order[7:10]
    assert order[:2] == order[5:7] == [0, 1]
    assert sorted(turns) == [2, 3, 4, 5, 6, 7]
    assert order[10:20] == order[:10]


def test_a_swap_moves_a_request_before_the_one_ahead():
    every = question_order(replace(PLAIN, swap_ratio=1.0), Draws(1))
    plain = question_order(PLAIN, Draws(1))
    assert every == [*plain[1:], plain[0]]
    some = question_order(QuestionOptions(), Draws(1))
    assert sorted(some) == sorted(plain)
    assert some != plain


def test_blocks_are_shared_as_contexts_are():
    trace = questions(PLAIN, 4)
    ids = trace.block_ids.reshape(trace.num_requests, -1)
    order = question_order(PLAIN, Draws(4))
    head, context = 27 // 16, (27 + 12_050) // 16
    assert (ids[:, :head] == ids[0, :head]).all()
    for number in set(order):
        mine = ids[[i for i, each in enumerate(order) if each == number]]
        assert (mine[:, :context] == mine[0, :context]).all()
    assert len(np.unique(ids)) == head + 8 * (context - head) + ids[:, context:].size
    assert set(trace.input_tokens.tolist()) == {27 + 12_050 + 130}


def test_equal_arguments_equal_traces():
    one, same, other = (questions(QuestionOptions(), seed) for seed in (1, 1, 2))
    assert one.block_ids.tobytes() == same.block_ids.tobytes()
    assert one.provenance == same.provenance
    assert one.provenance.sha256 != other.provenance.sha256


@pytest.mark.parametrize(
    "changes",
    [
        {"skew": 0.5},
        {"swap_ratio": 1.5},
        {"hot_contexts": 9},
        {"contexts": 0},
        {"contexts": 100_000, "rounds": 100_000},
        {"context_tokens": 0},
    ],
)
def test_options_out_of_range(changes):
    with pytest.raises(PolicyError, match="allowed"):
        questions(replace(QuestionOptions(), **changes), 0)
