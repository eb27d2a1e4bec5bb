import copy
import io
import re

import pytest
from rich.console import Console

from hotset.traces import summary as printer
from hotset.traces.registry import read_trace
from hotset.traces.stats import summarise


@pytest.fixture(scope="module")
def summary():
    return summarise(read_trace("sample"), ("drop", "count"))


@pytest.fixture
def printed(monkeypatch):
    def printed(summary, width, terminal=True):
        out = io.StringIO()

        def console(**options):
            return Console(
                file=out,
                width=width,
                force_terminal=terminal,
                color_system=None,
                _environ={},
                **options,
            )

        monkeypatch.setattr(printer, "Console", console)
        printer.print_summary(summary)
        return re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())

    return printed


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [20, 60, 80])
def test_nothing_is_cut_or_folded(printed, summary, width, terminal):
    large = copy.deepcopy(summary)
    for key in ("input_tokens", "output_tokens", "blocks_per_request"):
        for place, name in enumerate(("min", "p50", "p90", "p99", "max", "mean")):
            large[key][name] = 1_234_567_890_120 + place
    for row in large["tails"].values():
        row["accesses"] = row["distinct_blocks"] = 9_876_543_210_123
    text = printed(large, width, terminal)
    assert summary["trace"]["sha256"] in text
    for place in range(5):
        assert len(re.findall(rf"1,234,567,890,12{place}(?![\d.])", text)) == 3
    assert text.count("1,234,567,890,125.0") == 3
    assert text.count("9,876,543,210,123") == 4
    assert "\u2026" not in text
    assert "full blocks (drop)" in text
    assert len(re.findall(r"\d\d\.\d\d %", text)) == 4


def test_a_usual_trace_fits_80_columns(printed, summary):
    text = printed(summary, 80)
    lines = [line for line in text.splitlines() if "sha256" not in line]
    assert max(map(len, lines)) <= 80


def test_a_file_has_whole_lines(printed, summary):
    text = printed(summary, 20, terminal=False)
    assert re.search(r"input tokens +5,135\.9 +564 +4,436 +9,202 +13,576 +17,738", text)
