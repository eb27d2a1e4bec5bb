import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotset.traces.generate import generate
from hotset.traces.model import Accesses
from hotset.traces.reuse import previous_use, reuse_distances


def naive(ids):
    """Distinct blocks between two uses, one use after the other."""
    last, distances = {}, []
    for place, block in enumerate(ids):
        if block in last:
            distances.append(len(set(ids[last[block] + 1 : place])))
        last[block] = place
    return distances


def of(ids):
    return Accesses(np.zeros(1, np.int64), np.array(ids, np.int32), max(ids, default=0))


@given(st.lists(st.integers(0, 12), max_size=120))
def test_distances_equal_the_naive_twin(ids):
    found = reuse_distances(of(ids))
    assert found.one_in == 1
    assert found.blocks.tolist() == naive(ids)


@given(st.lists(st.integers(0, 12), max_size=60))
def test_previous_use(ids):
    found = previous_use(np.array(ids, np.int32)).tolist()
    last = {}
    for place, block in enumerate(ids):
        assert found[place] == last.get(block, -1)
        last[block] = place


def test_a_sample_of_blocks_estimates_the_distances():
    accesses = generate("chat", 4000, 3).accesses("drop")
    exact = reuse_distances(accesses)
    sample = reuse_distances(accesses, accesses.ids.size // 2)
    assert (exact.one_in, sample.one_in) == (1, 4)
    assert 0.1 * exact.blocks.size < sample.blocks.size < 0.4 * exact.blocks.size
    for quantile in (0.5, 0.75):
        one, other = (np.quantile(each.blocks, quantile) for each in (exact, sample))
        assert abs(one - other) < 0.15 * one
