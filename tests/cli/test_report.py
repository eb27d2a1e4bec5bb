"""`hotset report`: one page, nothing fetched, no string of a trace is markup."""

import html
import json
import re

import pytest
from cli.test_replay import run
from support import browser

EVIL = "<img src=x onerror=alert(1)>\"'&<b>$x^$\u202e"
KINDS = ["tune", "mrc", "replay", "compare", "simulate", "regime-map"]

# Every policy behind every engine: minutes of compiling where nothing is cached.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    calls = {
        "replay": ["--policy=lru", "--policy=belady", "--capacity=5%", "--capacity=9%"],
        "mrc": ["--policy=fifo", "--points=4"],
        "compare": ["--policy=guard", "--tune=none", "--capacity=5%"],
        "tune": ["--cpu=5%", "--policy=guard", "--admission=always", "--trials=2"],
        "simulate": ["--profile=h100x8-70b-fp8", "--policy=lru", "--cpu=10%",
                     "--gpu-blocks=300"],
        "regime-map": ["--x=budget=2%,9%", "--y=gpu-blocks=0,60", "--policy=guard"],
    }  # fmt: skip
    found = {}
    for kind, arguments in calls.items():
        found[kind] = folder / f"{kind}.json"
        option = "--out" if kind == "tune" else "--json"
        run(kind, "sample", *arguments, option, found[kind])
    return found


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "report.html"
    run("report", *results.values(), "--out", out)
    return out


def test_verdict_first_then_curve_table_map_tiers_sizes_origin(page):
    heads = re.findall(r"<h2>(.*?)</h2>", page.read_text())
    assert heads == [
        "Verdict", "Curves", "Tables", "Maps", "Hits by tier over time",
        "Sizes and costs", "Where this comes from",
    ]  # fmt: skip


def test_figures_are_those_of_the_files(page, results):
    text = html.unescape(page.read_text())
    tuned, replay, simulated = (
        json.loads(results[kind].read_text()) for kind in ("tune", "replay", "simulate")
    )
    assert f"{tuned['verdict']}: {tuned['reason']}" in text
    for each in replay["runs"]:
        assert f"<td>{100 * each['token_hit_ratio']:.2f} %</td>" in text
    assert f"{simulated['runs'][0]['ttft_s']['p95']:.3f} s" in text
    assert replay["trace"]["sha256"] in text
    assert "hotset report replay.json mrc.json" in text
    for kind in KINDS:
        assert f"hotset {kind}" in text


def test_hits_over_time_add_up_to_the_totals(results):
    (each,) = json.loads(results["simulate"].read_text())["runs"]
    series = each["over_time"]
    assert len(series["edges_s"]) == len(series["gpu_tokens"]) + 1
    for tier in ("gpu", "cpu", "ssd"):
        assert sum(series[f"{tier}_tokens"]) == each["tokens"][f"{tier}_hit"]
    assert sum(series["computed_tokens"]) == each["tokens"]["computed"]


def test_nothing_is_fetched(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "@import" not in text
    assert not re.search(r"url\((?!#p)", text)


def test_the_same_files_give_the_same_page(page, results, tmp_path):
    run("report", *results.values(), "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


def with_markup(values):
    """The same result with markup in every string but those that name what it is."""
    if isinstance(values, dict):
        return {key: with_markup(value) for key, value in values.items()}
    if isinstance(values, list):
        return [with_markup(value) for value in values]
    return EVIL + values if isinstance(values, str) else values


@pytest.fixture(scope="module")
def evil_page(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    files = []
    for kind, path in results.items():
        values = json.loads(path.read_text())
        changed = with_markup(values)
        if kind == "regime-map":
            # Values and knobs tell which cell is which.
            for old, new in zip(values["cells"], changed["cells"], strict=True):
                new["knob"] = old["knob"]
        files.append(folder / f"<b>{kind}.json")
        files[-1].write_text(json.dumps(changed))
    out = folder / "evil.html"
    run("report", *files, "--out", out, "--title", EVIL)
    return out


def test_markup_in_strings_is_text(evil_page):
    text = evil_page.read_text()
    assert "<img" not in text
    assert "<b>" not in text
    assert "onerror" in text, "the strings are there, as text"
    assert "\u202e" not in text, "and turn no line around"


def test_in_a_browser(page):
    """On a page as wide as a phone's: readable, described, silent."""
    seen, console = browser.look_at(page)
    assert console == []
    assert seen["contrast"] >= 4.5
    assert seen["wide"] == []
    assert seen["pictures"] == seen["named"] == seen["drawn"] == 4
    assert seen["tables"] > 6
    assert seen["loose"] == 0
    assert seen["scrolls"] > 0
    assert seen["scripts"] == 0
    assert seen["twice"] == 0
    assert seen["first"] == "Verdict"


def test_markup_in_a_browser(evil_page):
    seen, console = browser.look_at(evil_page)
    assert console == []
    assert seen["injected"] == 0
    assert seen["scripts"] == 0
    assert seen["wide"] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("[1]", "no result of"),
        ("{}", "no result of"),
        ('{"trace": 1, "runs": 2}', "not a whole result of replay"),
        ('{"x_values": [], "cells": []}', "not a whole result of regime-map"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_other_files_are_refused(content, said, tmp_path):
    file = tmp_path / "r.json"
    file.write_text(content)
    out = run("report", file, "--out", tmp_path / "p.html", code=2)
    assert said in out
    assert len(out.splitlines()) == 1
    assert not (tmp_path / "p.html").exists()


def test_outputs(tmp_path, results):
    file = results["replay"]
    assert "no.json" in run("report", "no.json", "--out", tmp_path / "p.html", code=2)
    assert ".html" in run("report", file, "--out", tmp_path / "p.pdf", code=2)
    mine = tmp_path / "r.html"
    mine.write_text(file.read_text())
    assert "the same file" in run("report", mine, "--out", mine, code=2)
