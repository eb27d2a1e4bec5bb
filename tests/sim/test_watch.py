"""Recordings as they come, and whether a deployed file keeps its promise."""

import itertools
import json
import os

import pytest
from support.tuning import plan, round_robin, trace_of

from hotset.policies.errors import PolicyError
from hotset.sim.bootstrap import Gain
from hotset.sim.candidate import from_configuration
from hotset.sim.drift import ABOVE, BELOW, WITHIN, Drift, Promise, promise_of
from hotset.sim.tune import run_tune
from hotset.sim.tuned import as_json
from hotset.sim.watch import fresh_recordings
from hotset.traces.generate import generate


class Folder:
    """A folder in which something happens between looks."""

    def __init__(self, path, *steps):
        self.path = path
        self.steps = iter(steps)
        self.looks = 0

    def sleep(self, _):
        self.looks += 1
        assert self.looks < 50
        for name, content in next(self.steps, {}).items():
            file = self.path / name
            file.write_text(content)
            # Changes within a tick of the file system's clock are told apart.
            os.utime(file, ns=(0, 10**9 * self.looks))

    def recordings(self, count):
        found = fresh_recordings(self.path, 1.0, self.sleep)
        return [path.name for path in itertools.islice(found, count)]


def test_a_recording_counts_once_it_is_finished(tmp_path):
    folder = Folder(tmp_path, {"a": "x"}, {"a": "xx"}, {"a": "xxx"}, {}, {"b": "y"})
    assert folder.recordings(2) == ["a", "b"]
    assert folder.looks >= 5


def test_older_recordings_are_superseded_and_changed_ones_are_new(tmp_path):
    for age, name in enumerate(("c", "b", "a")):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(0, age))
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "folder").mkdir()
    folder = Folder(tmp_path, {}, {}, {"b": "more"})
    assert folder.recordings(2) == ["a", "b"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(PolicyError, match="--watch"):
        next(fresh_recordings(tmp_path / "absent", 1.0))


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(0.02, BELOW), (0.03, WITHIN), (0.05, WITHIN), (0.07, WITHIN), (0.08, ABOVE)],
)
def test_outcomes(value, outcome):
    found = Gain(value, value - 0.01, value + 0.01)
    drift = Drift(Gain(0.05, 0.03, 0.07), found)
    assert drift.outcome == drift.as_json()["outcome"] == outcome
    assert f"{outcome} the 3.00 to 7.00" in drift.text


def tuned(trace, **settings):
    return run_tune(trace, plan(["guard"], cpu="480", trials=16, **settings))


def deployed(told):
    """The settings that a file which is deployed adds to a plan."""
    return {"current": from_configuration(told, "x"), "promise": promise_of(told)}


def test_a_promise_is_kept_on_the_same_traffic_and_broken_on_another():
    """Contexts that go round reward refusal; where they change, nothing does."""
    told = json.loads(json.dumps(as_json(tuned(round_robin(50, 16, 30)))))
    assert told["verdict"] == "deploy"
    assert told["evidence"]["drift"] is None
    promise = promise_of(told)
    assert promise.objective == "token_hit_ratio"
    assert promise.gain.lower > 0.1
    same = tuned(round_robin(50, 16, 30), **deployed(told))
    assert same.drift.outcome == WITHIN
    other = tuned(generate("uniform", 1500, 3), **deployed(told))
    assert other.drift.outcome == BELOW
    assert as_json(other)["evidence"]["drift"]["outcome"] == BELOW


def test_lru_promises_nothing():
    result = tuned(generate("uniform", 1500, 3))
    told = json.loads(json.dumps(as_json(result)))
    assert told["verdict"] == "keep-lru"
    assert promise_of(told) is None
    assert from_configuration(told, "x").label == "lru"
    assert promise_of({"policy": "guard"}) is None
    assert promise_of({"format": "hotset-tuned", "verdict": "deploy"}) is None


def test_a_promise_in_another_objective_is_not_compared():
    trace = trace_of([[1, 2], [1, 3]] * 200)
    asked = plan(
        ["guard"], cpu="50%", trials=4,
        current=from_configuration({"policy": "fifo"}, "x"),
        promise=Promise("ttft_p95_s", Gain(0.1, 0.05, 0.2)),
    )  # fmt: skip
    assert run_tune(trace, asked).drift is None
