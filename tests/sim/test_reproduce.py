"""The published GPU cells, simulated."""

from pathlib import Path

import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.gpu_matrix import COUNTERS, is_within, read_cells
from hotset.sim.reproduce import reproduce

REFERENCE = Path(__file__).parents[1] / "data" / "reference" / "gpu_matrix.json.gz"


@pytest.fixture(scope="module")
def reproduction():
    return reproduce(read_cells(REFERENCE))


def test_every_counter_of_every_cell_is_within_the_bar(reproduction):
    assert len(reproduction.outcomes) == 20
    off = [
        (outcome.cell.name, name, outcome.cell.counters[name], value)
        for outcome in reproduction.outcomes
        for name, value in outcome.counters.items()
        if not is_within(name, outcome.cell.counters[name], value)
    ]
    assert off == []
    assert all(set(o.counters) == set(COUNTERS) for o in reproduction.outcomes)


def test_hot_requests_take_what_they_took(reproduction):
    pairs = [o.hot_ttft_s for o in reproduction.outcomes if o.hot_ttft_s is not None]
    assert len(pairs) == 4
    for published, simulated in pairs:
        assert simulated == pytest.approx(published, rel=0.1)


def test_hits_and_misses_are_told_apart(reproduction):
    verdicts = [o.verdicts for o in reproduction.outcomes if o.verdicts is not None]
    assert len(verdicts) == 16
    for right, of in verdicts:
        assert right >= 0.98 * of


def test_the_fitted_costs_are_the_machine_s(reproduction):
    assert reproduction.timing.start_s == pytest.approx(0.05, rel=0.15)
    assert reproduction.timing.token_s == pytest.approx(8.9e-5, rel=0.15)


def test_without_the_clamp_the_earlier_version_s_cells_are_off(reproduction):
    cells = [c for c in read_cells(REFERENCE) if c.name.startswith(("A0", "A1"))]
    cells += [c for c in read_cells(REFERENCE) if c.name == "A2_W1_B1"]
    released = reproduce(cells, clamp=False).outcomes[-1]
    assert released.cell.name == "A2_W1_B1"
    published = released.cell.counters["external_prefix_cache_hits"]
    assert released.counters["external_prefix_cache_hits"] > 1.5 * published


@pytest.mark.parametrize("text", ["", "[]x", '[{"cell": 1}]', "[1]"])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "cells.json"
    path.write_text(text)
    with pytest.raises(PolicyError, match="not the published cells"):
        read_cells(path)
