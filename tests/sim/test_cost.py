"""Seconds of prefill and decoding, and where a load begins to pay."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotset.policies.errors import PolicyError
from hotset.sim.cost import CostModel
from hotset.sim.transfers import LinkSpec

COST = CostModel(0.05, 8.9e-5, 6.8e-9, 0.01, 1e-4, 1e-7)


def test_prefill_by_hand():
    # 0.05 + 100 * 8.9e-5 + 6.8e-9 * (100 * 100 / 2 + 100 * 50)
    assert COST.prefill_s(100, 50) == pytest.approx(0.05 + 0.0089 + 6.8e-5)


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=6), st.integers(0, 20_000))
def test_chunks_cost_what_the_whole_costs(parts, cached):
    whole = COST.chunk_s(sum(parts), cached)
    in_parts, behind = 0.0, cached
    for part in parts:
        in_parts += COST.chunk_s(part, behind)
        behind += part
    assert in_parts == pytest.approx(whole, rel=1e-12)


@given(st.integers(0, 300), st.integers(0, 10**6), st.integers(1, 500))
def test_many_decode_steps_cost_what_they_cost_one_by_one(sequences, context, steps):
    one_by_one = sum(
        COST.decoding_s(sequences, context + i * sequences) for i in range(steps)
    )
    at_once = COST.decoding_s(sequences, context, steps)
    assert at_once == pytest.approx(one_by_one, rel=1e-9)


@given(
    st.floats(1e-6, 1e-3), st.floats(0, 1e-8), st.floats(1e8, 1e12), st.floats(0, 0.1)
)
def test_break_even_is_the_first_length_that_pays(token_s, pair_s, speed, latency_s):
    cost, link = CostModel(token_s=token_s, pair_s=pair_s), LinkSpec(speed, latency_s)
    found = cost.break_even_tokens([link], 57_344)

    def pays(tokens):
        return link.seconds(tokens * 57_344) < cost.chunk_s(tokens, 0)

    if found is None:
        assert not any(pays(10**k) for k in range(12))
    else:
        assert pays(found)
        assert found == 1 or not pays(found - 1)


def test_two_links_in_a_row_pay_later():
    fast, slow = LinkSpec(8e9), LinkSpec(2e9)
    near = COST.break_even_tokens([fast], 57_344)
    far = COST.break_even_tokens([slow, LinkSpec(8e9, 0.01)], 57_344)
    assert near == 1
    assert far > 100


@pytest.mark.parametrize("value", [-1e-9, math.inf, math.nan])
def test_bad_seconds(value):
    with pytest.raises(PolicyError, match="token_s is"):
        CostModel(token_s=value)
