"""What a page of `hotset report` says of single results, and of odd ones."""

import copy
import html
import json
import random
import re

import pytest
from cli.test_replay import run
from support.results import map_of, replayed, run_of, simulated, tuned

from hotset.policies.errors import PolicyError
from hotset.sim.page_kinds import read


def page_of(values, tmp_path):
    """Return the page's text, and its verdicts."""
    file = tmp_path / "r.json"
    file.write_text(json.dumps(values))
    run("report", file, "--out", tmp_path / "p.html")
    page = html.unescape((tmp_path / "p.html").read_text())
    return page, re.findall(r'<p class="verdict">(.*?)</p>', page)


def verdicts_of(values, tmp_path):
    return page_of(values, tmp_path)[1]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_tie_is_said_whatever_the_order(turn, tmp_path):
    runs = [run_of("lru", 0.8), run_of("guard", 0.8), run_of("belady", 0.9)][::turn]
    (said,) = verdicts_of(replayed(*runs), tmp_path)
    assert said.startswith("week.jsonl, 100 blocks: a tie: ")
    assert "hit the same, 80.00 % of the input tokens" in said
    runs = [run_of("lru", 0.7), run_of("fifo", 0.800001), run_of("guard", 0.8)][::turn]
    (said,) = verdicts_of(replayed(*runs), tmp_path)
    assert "a tie of " in said
    assert "fifo" in said
    assert "guard" in said
    assert said.endswith("lru 70.00 %; no cache hits more than 90.00 %.")


def test_verdicts_name_trace_and_winner(tmp_path):
    runs = [run_of("lru", 0.5), run_of("guard", 0.75), run_of("lru", 0.6, 200)]
    said = verdicts_of(replayed(*runs), tmp_path)
    assert said[0] == (
        "week.jsonl, 100 blocks: guard hits most: 75.00 % of the input tokens, lru "
        "50.00 %; no cache hits more than 90.00 %."
    )
    assert said[1].startswith("week.jsonl, 200 blocks: lru hits 60.00 %")
    assert "nothing else ran beside it" in said[1]


def test_many_that_tie_are_counted(tmp_path):
    runs = [run_of("lru", 0.8, label=f"lru:{i}") for i in range(9)]
    (said,) = verdicts_of(replayed(*runs), tmp_path)
    assert "lru:0, lru:1, lru:2, lru:3 and 5 more hit the same" in said


def test_those_that_know_the_future_get_no_verdict(tmp_path):
    runs = [run_of("belady", 0.8), run_of("unbounded", 0.9)]
    (said,) = verdicts_of(replayed(*runs), tmp_path)
    assert "belady and unbounded ran, which no server can run" in said


def test_overload_is_said_and_ranks_no_ttft(tmp_path):
    page, said = page_of(
        simulated(("lru", 1.5, 200.0, 0.5), ("guard", 1.4, 190.0, 0.6)), tmp_path
    )
    assert said[0].startswith("week.jsonl on box: overloaded with lru and guard")
    assert "an offered load of 1.40 to 1.50" in said[0]
    assert said[1].endswith("guard hits most: 60.00 % of the input tokens.")
    assert "least p95" not in page
    assert "190.000" not in page
    said = verdicts_of(
        simulated(("lru", 1.5, 200.0, 0.5), ("guard", 0.9, 2.0, 0.6)), tmp_path
    )
    assert "overloaded with lru," in said[0]
    assert "guard has the least p95 TTFT: 2.000 s" in said[1]
    (said,) = verdicts_of(
        simulated(("lru", None, 2.0, 0.5), ("guard", None, 2.0, 0.6)), tmp_path
    )
    assert "a tie of lru and guard: a p95 TTFT of 2.000 s" in said


def test_what_an_ssd_costs_is_shown(tmp_path):
    values = simulated(("lru", 0.5, 2.0, 0.5))
    values["runs"][0]["ssd"] = {
        "read_bytes": 2 * 10**9, "write_bytes": 3 * 10**9,
        "writes_per_day_bytes": 4.5e12,
    }  # fmt: skip
    page, _ = page_of(values, tmp_path)
    assert "<td>2.0</td><td>3.0</td><td>4.5</td>" in page


def over_time(edges):
    tiers = {f"{t}_tokens": [1, 1] for t in ("gpu", "cpu", "ssd", "computed")}
    return {"edges_s": edges, **tiers}


def test_hits_over_no_time_have_no_picture(tmp_path):
    values = simulated(("lru", 0.5, 2.0, 0.5))
    for edges, count in (([0.0, 5e-10, 1e-9], 0), ([0.0, 1.0, 2.0], 1)):
        values["runs"][0]["over_time"] = over_time(edges)
        page, _ = page_of(values, tmp_path)
        assert page.count("<figure>") == count


def test_tunings_are_shown_in_their_own_objectives(tmp_path):
    objectives = [("ttft_p95_s", "s"), ("stored_bytes", "bytes")]
    values = tuned(objectives, ttft_p95_s=0.27, stored_bytes=5e9)
    page, said = page_of(values, tmp_path)
    assert said == ["week.jsonl: deploy: because."]
    heads = re.findall(r'<th scope="col">(.*?)</th>', page)
    assert heads[:6] == [
        "role", "policy", "ttft p95, s", "stored bytes",
        "gain over lru, % of the p95 TTFT", "95 % bounds",
    ]  # fmt: skip
    assert "<td>0.27</td><td>5,000,000,000</td><td>+25.00</td>" in page
    assert "tokens hit" not in page
    page, _ = page_of(tuned([("token_hit_ratio", "")], token_hit_ratio=0.5), tmp_path)
    assert "gain over lru, points" in page
    assert "<td>50.00 %</td>" in page


def test_maps_say_who_is_ahead_where_and_ties(tmp_path):
    (first, second) = verdicts_of(map_of(["1", "2"], ["5%"]), tmp_path)
    assert first == (
        "generate:chat: of 2 places, marconi is ahead of lru at 1 (others are level "
        "with the winner at 1), a tie at 1: no policy shown is ahead of lru."
    )
    assert second == "generate:chat: what helps most: scoring at 1, nothing at 1."


def test_a_wide_map_keeps_its_letters(tmp_path):
    """Parts stand below each other, and the picture is never shown too small."""
    page, _ = page_of(map_of([str(i) for i in range(12)], ["5%"]), tmp_path)
    width = float(re.search(r'viewBox="0 0 ([0-9.]+) ', page)[1])
    least = float(re.search(r'style="min-width:([0-9]+)px', page)[1])
    assert least >= 0.9 * width, "letters of 8 points are 7 pixels at least"
    assert width < 1100


def test_sizes_name_the_model_and_say_how(tmp_path):
    config = {
        "model_type": "toy", "num_hidden_layers": 2, "num_attention_heads": 8,
        "num_key_value_heads": 4, "hidden_size": 64, "dtype": "float16",
    }  # fmt: skip
    (tmp_path / "toy.json").write_text(json.dumps(config))
    arguments = ["--model", tmp_path / "toy.json", "--cpu=1MiB", "--ssd=2MiB", "--tp=2"]
    run("size", *arguments, "--trace=sample", "--json", tmp_path / "s.json")
    values = json.loads((tmp_path / "s.json").read_text())
    assert values["model"]["model_type"] == "toy"
    page, said = page_of(values, tmp_path)
    assert said[0].endswith("toy.json.")
    assert "K and V of 2 heads of 8 values" in page
    assert "128 a token" in page
    assert "16 x 128" in page
    assert "<td>2,048</td>" in page
    assert "<td>4,096</td>" in page
    assert "cpu + ssd, demoting on eviction" in page
    assert values["model"]["sha256"] in page
    assert "knee of lru is at" in page
    assert page.count("<figure>") == 1


def test_command_and_version_are_shown_and_their_absence(tmp_path):
    page, _ = page_of(replayed(run_of("lru", 0.5)), tmp_path)
    assert "<td>hotset replay week.jsonl --policy lru</td>" in page
    assert "<td>9.9</td>" in page
    values = replayed(run_of("lru", 0.5))
    del values["provenance"]
    page, _ = page_of(values, tmp_path)
    assert page.count("the file does not say") == 2


# Odd files

ODD = [None, "x", "", -1, 0, 10**30, True, [], {}, 0.5, [[[]]], "\ud800", {"a": 1},
       [0, 0, 0], 1e17]  # fmt: skip
GOOD = {
    "replay": replayed(run_of("lru", 0.8), run_of("guard", 0.7)),
    "simulate": simulated(("lru", 0.5, 2.0, 0.5), ("guard", None, 1.0, 0.6)),
    "tune": tuned([("ttft_p95_s", "s")], ttft_p95_s=0.27),
    "regime-map": map_of(["1", "2"], ["5%"]),
}


def places(value, way=()):
    """Every place of a value, of a list the first and the last."""
    yield way
    if isinstance(value, dict):
        inner = list(value)
    else:
        inner = sorted({0, len(value) - 1}) if isinstance(value, list) and value else []
    for key in inner:
        yield from places(value[key], (*way, key))


def changed(values, way, new):
    if not way:
        return new
    values = copy.copy(values)
    values[way[0]] = changed(values[way[0]], way[1:], new)
    return values


def without(values, way):
    values = copy.deepcopy(values)
    inner = values
    for key in way[:-1]:
        inner = inner[key]
    del inner[way[-1]]
    return values


@pytest.mark.parametrize("kind", GOOD)
def test_any_odd_value_is_shown_or_refused_in_a_line(kind, tmp_path):
    values, passed, refused = GOOD[kind], [], 0
    for way in places(values):
        odd = [changed(values, way, new) for new in ODD]
        for each in [*odd, *([without(values, way)] if way else [])]:
            try:
                read(each, "r.json")
                passed.append(each)
            except PolicyError as error:
                refused += 1
                assert len(str(error).splitlines()) == 1
                assert str(error).startswith("r.json: no")
    assert refused > 50
    assert passed
    file, out = tmp_path / "r.json", tmp_path / "p.html"
    for each in random.Random(9).sample(passed, 6):
        file.write_text(json.dumps(each))
        try:
            said = run("report", file, "--out", out)
        except AssertionError:
            said = run("report", file, "--out", out, code=2)
        assert len(said.splitlines()) == 1


def test_what_does_not_go_together_is_refused(tmp_path):
    values = simulated(("lru", 0.5, 2.0, 0.5))
    values["runs"][0]["over_time"] = over_time([0.0, 1.0])
    file = tmp_path / "r.json"
    file.write_text(json.dumps(values))
    said = run("report", file, "--out", tmp_path / "p.html", code=2)
    assert "its values do not go together" in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "p.html").exists()


def test_what_is_wrong_is_named(tmp_path):
    values = replayed(run_of("lru", 0.8), run_of("guard", 1.7))
    file = tmp_path / "r.json"
    file.write_text(json.dumps(values))
    said = run("report", file, "--out", tmp_path / "p.html", code=2)
    assert "runs[1].token_hit_ratio is 1.7, a number from 0 to 1 is needed" in said
    file.write_text(json.dumps(values).replace("1.7", "NaN"))
    assert "not JSON" in run("report", file, "--out", tmp_path / "p.html", code=2)
