"""Which command made a result."""

import json

import pytest
from cli.test_replay import run

from hotset.traces.made_by import command_text, made_by, running


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["replay", "a b.jsonl", "--policy=lru", "--json", "/home/me/r.json"],
         "hotset replay 'a b.jsonl' --policy=lru"),
        (["replay", "--json=r.json", "--jobs", "2", "x", "--plot", "p.png"],
         "hotset replay x"),
        (["tune", "x", "--storage", "postgresql://me:secret@db/x", "--out=o.json",
          "--ray=local", "--trials=3"], "hotset tune x --trials=3"),
        (["replay", "x", "--json="], "hotset replay x"),
    ],
)  # fmt: skip
def test_what_changes_no_result_is_left_out(arguments, text):
    assert command_text(arguments) == text


def test_outside_of_a_command_there_is_none():
    assert made_by()["command"] is None
    with running(["trace", "info"]):
        assert made_by()["command"] == "hotset trace info"
    assert made_by()["command"] is None


def test_results_say_it_and_are_the_same_wherever_they_go(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run("replay", "sample", "--policy=lru", "--capacity=5%", "--jobs", len(name),
            "--json", tmp_path / name / f"{name}.json")  # fmt: skip
    one, other = (tmp_path / n / f"{n}.json" for n in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    told = json.loads(one.read_text())["provenance"]
    assert told["command"] == "hotset replay sample --policy=lru --capacity=5%"
    assert told["hotset"]
    assert str(tmp_path) not in one.read_text()
