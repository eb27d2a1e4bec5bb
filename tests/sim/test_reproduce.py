"""The published GPU cells, simulated."""

import dataclasses
import gzip
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from support.command_line import runner

from hotset.policies.errors import PolicyError
from hotset.sim.cli import app
from hotset.sim.gpu_matrix import COUNTERS, is_within, locate_cells, read_cells
from hotset.sim.reproduce import reproduce
from hotset.sim.reproduce_report import print_reproduction

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


def _changed(change):
    cells = json.loads(gzip.decompress(REFERENCE.read_bytes()))
    change(cells)
    return json.dumps(cells)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]x",
        '[{"cell": 1}]',
        "[1]",
        "{}",
        "5",
        "null",
        "[" * 100_000,
        _changed(lambda cells: cells[0].update(requests=[])),
        _changed(lambda cells: cells[0].update(workload="W9")),
        _changed(lambda cells: cells[0]["requests"][0].update(ttft_s=float("nan"))),
        _changed(lambda cells: cells[0]["requests"][0].update(ttft_s=0)),
        _changed(lambda cells: cells[0]["requests"][0].update(example="x")),
        _changed(lambda cells: cells[0]["metrics"].update(prefix_cache_queries=0)),
        _changed(lambda cells: cells[0]["metrics"].update(prefix_cache_queries=1e15)),
        _changed(lambda cells: cells[0].update(requests=cells[0]["requests"][:1])),
        _changed(lambda cells: cells[0].update(cell=5)),
        _changed(lambda cells: cells[0].update(cell="A1\n")),
    ],
    ids=range(18),
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "cells.json"
    path.write_text(text)
    with pytest.raises(PolicyError, match="not the published cells"):
        read_cells(path)


def test_cells_that_lengths_are_fitted_to_are_needed(tmp_path):
    path = tmp_path / "cells.json"
    for text in ("[]", _changed(lambda cells: cells.__delitem__(slice(8, None)))):
        path.write_text(text)
        with pytest.raises(PolicyError, match="no cell A1_"):
            read_cells(path)
    path = path.with_suffix(".gz")
    path.write_bytes(REFERENCE.read_bytes()[:-500])
    with pytest.raises(PolicyError, match="not the published cells"):
        read_cells(path)


def test_the_page_or_the_folder_of_the_cells_will_do(tmp_path):
    cells = tmp_path / REFERENCE.name
    cells.write_bytes(REFERENCE.read_bytes())
    assert locate_cells(cells) == cells
    assert locate_cells(tmp_path) == cells
    assert locate_cells(tmp_path / "GPU_MATRIX.md") == cells
    shown = runner().invoke(
        app, ["reproduce", "gpu-matrix", str(tmp_path), "--json", str(cells)]
    )
    assert shown.exit_code == 2
    assert "the same file as REFERENCE" in shown.stderr
    assert cells.read_bytes() == REFERENCE.read_bytes()


def test_the_table_is_whole_whatever_the_width(reproduction):
    """Also with marks for what is off the bar."""
    off = dataclasses.replace(
        reproduction.outcomes[0],
        counters=dict.fromkeys(reproduction.outcomes[0].counters, 10**9),
    )
    result = dataclasses.replace(reproduction, outcomes=[off, *reproduction.outcomes])

    def shown(width):
        out = io.StringIO()
        print_reproduction(result, Console(file=out, width=width, highlight=False))
        return out.getvalue()

    assert shown(20).split() == shown(500).split()
    assert "…" not in shown(20)
    assert "%  !" not in shown(20)
    assert shown(20).count(" % !") == 3
    lines = shown(20).splitlines()
    for outcome in result.outcomes:
        assert any(line.startswith(outcome.cell.name) for line in lines)
