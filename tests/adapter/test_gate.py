"""The fidelity gate against small servers on loopback, and its verdicts."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import runner
from support.gate_server import serving, told_key

from hotset.adapter.gate_client import GateServer
from hotset.adapter.gate_errors import GateError
from hotset.adapter.gate_prompts import GatePlan, questions
from hotset.adapter.gate_recording import GateRecording, record
from hotset.adapter.gate_verdict import compare
from hotset.sim.cli import app

PLAN = GatePlan(sessions=5, turns=3, words=7, answer_tokens=8)
OTHER = dataclasses.replace(PLAN, seed=1)
KEYS = [question.passkey for question in questions(PLAN)]


def recording(answers=None, restored=0, plan=PLAN, model="m"):
    return GateRecording(plan, model, answers or [f" {k}." for k in KEYS], restored)


def with_wrong(count, text=" {}!"):
    """The answers, so many of them told otherwise."""
    return [text.format(k) if i < count else f" {k}." for i, k in enumerate(KEYS)]


def test_questions_grow_carry_the_passkey_and_take_turns():
    asked = list(questions(PLAN))
    assert [(q.turn, q.session) for q in asked] == [
        (turn, session) for turn in range(3) for session in range(5)
    ]
    tail = "User: What is the passkey?\nAssistant: It is"
    for before, after in zip(asked, asked[5:], strict=False):
        assert after.prompt.startswith(before.prompt.removesuffix(tail))
        assert len(after.prompt) > len(before.prompt)
        assert before.passkey == after.passkey
    for question in asked:
        assert question.prompt.count(question.passkey) == 1
        assert question.prompt.endswith(tail)
    assert len(set(KEYS)) == 5
    assert asked == list(questions(PLAN))
    other = dataclasses.replace(PLAN, seed=1)
    assert asked[0].prompt != next(questions(other)).prompt


@pytest.mark.parametrize(
    ("offload", "control", "exact", "outcome"),
    [
        (recording(restored=10), recording(), False, "pass"),
        (recording(restored=10), None, True, "pass"),
        (recording(with_wrong(2), 10), recording(), False, "pass"),
        (recording(with_wrong(3), 10), recording(), False, "fail"),
        (recording(with_wrong(1), 10), None, True, "fail"),
        # One differs anyway: 1 + 2 * sqrt(2) may.
        (recording(with_wrong(3), 10), recording(with_wrong(1)), False, "pass"),
        (recording(with_wrong(4), 10), recording(with_wrong(1)), False, "fail"),
        (recording(with_wrong(1, " none"), 10), recording(), False, "fail"),
        (recording(restored=0), recording(), False, "unproven"),
        (recording(restored=None), recording(), False, "unproven"),
        (recording(with_wrong(3), 0), recording(), False, "fail"),
        # What is no control proves nothing, whatever it says.
        (recording(restored=10), recording(restored=1), False, "unproven"),
        (recording(restored=10), recording(restored=None), False, "unproven"),
        (recording(restored=10), recording(restored=1), True, "unproven"),
        (recording(with_wrong(9), 10), recording(restored=1), False, "unproven"),
        (recording(restored=10), recording(plan=OTHER), False, "unproven"),
        (recording(restored=10), recording(model="other"), False, "unproven"),
        (recording(restored=10), recording(model="other"), True, "unproven"),
        (recording(restored=10, plan=OTHER), None, True, "unproven"),
        (recording(restored=10, model="other"), None, True, "unproven"),
    ],
)
def test_verdicts(offload, control, exact, outcome):
    assert compare(recording(), offload, control, exact).outcome == outcome


@pytest.mark.parametrize("restored", [5, None])
@pytest.mark.parametrize("wrong", [0, 9])
def test_a_baseline_that_may_be_restored_itself_proves_nothing(restored, wrong):
    baseline = recording(restored=restored)
    verdict = compare(baseline, recording(with_wrong(wrong), 10), None, exact=True)
    assert verdict.outcome == "unproven"
    assert "baseline" in verdict.reason


@pytest.mark.parametrize("blank", ["", " \n"])
def test_empty_answers_prove_nothing(blank):
    none = [blank] * len(KEYS)
    for control, exact in ((None, True), (recording(none), False)):
        verdict = compare(recording(none), recording(none, 10), control, exact)
        assert verdict.outcome == "unproven"
        assert "empty" in verdict.reason
    assert compare(recording(), recording(none, 10), exact=True).outcome == "fail"


def test_a_baseline_that_misses_a_passkey_is_judged_by_exact_answers_alone():
    misses = with_wrong(2, " none")
    pair = recording(misses), recording(misses, 10)
    verdict = compare(*pair, recording(misses))
    assert verdict.outcome == "unproven"
    assert "misses 2 of 15 passkeys" in verdict.reason
    assert "--exact" in verdict.reason
    assert compare(*pair, exact=True).outcome == "pass"
    assert compare(pair[0], recording(restored=10), exact=True).outcome == "fail"


@given(st.integers(0, 15), st.integers(0, 15))
def test_what_may_differ_grows_with_what_differs_anyway(noise, wrong):
    verdict = compare(
        recording(), recording(with_wrong(wrong), 10), recording(with_wrong(noise))
    )
    fits = (wrong - noise) ** 2 <= 4 * (noise + 1) or wrong <= noise
    assert (verdict.outcome == "pass") == fits
    assert verdict.divergences == wrong


def test_recordings_of_different_things_are_not_compared():
    for other in (recording(plan=OTHER), recording(model="other")):
        verdict = compare(recording(), other, exact=True)
        assert verdict.reason.startswith("the offload recording is of ")
        assert verdict.divergences is verdict.allowed is verdict.passkeys is None
        verdict = compare(recording(), recording(restored=10), other)
        assert verdict.reason.startswith("the control recording is of ")
    with pytest.raises(GateError, match="a control recording is needed"):
        compare(recording(), recording())


def test_a_recording_is_read_as_it_was_written(tmp_path):
    for made in (recording(restored=3), recording(restored=None)):
        made.write(tmp_path / "a.json")
        assert GateRecording.read(tmp_path / "a.json") == made
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "hotset-gate-1"}',
        '{"format": "hotset-gate-1", "plan": {"sessions": "x"}, "answers": []}',
        '{"format": "hotset-gate-1", "plan": {}, "model": "m", "answers": [],'
        ' "restored_tokens": 0}',
    ],
)
def test_what_is_no_recording_is_refused(text, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(GateError, match=r"a\.json"):
        GateRecording.read(path)


# What an edit of a good recording makes a damaged one.
DAMAGES = {
    "tokens NaN": lambda made: made.update(restored_tokens=math.nan),
    "tokens inf": lambda made: made.update(restored_tokens=math.inf),
    "tokens negative": lambda made: made.update(restored_tokens=-1),
    "tokens half": lambda made: made.update(restored_tokens=1.5),
    "tokens too many": lambda made: made.update(restored_tokens=10**400),
    "tokens true": lambda made: made.update(restored_tokens=True),
    "tokens text": lambda made: made.update(restored_tokens="5"),
    "tokens list": lambda made: made.update(restored_tokens=[5]),
    "plan float": lambda made: made["plan"].update(sessions=5.0),
    "plan NaN": lambda made: made["plan"].update(seed=math.nan),
    "plan true": lambda made: made["plan"].update(words=True),
    "plan list": lambda made: made.update(plan=[1]),
    "plan key": lambda made: made["plan"].update({"a\nb": 1}),
    "answers few": lambda made: made["answers"].pop(),
    "answers text": lambda made: made.update(answers="x" * 15),
    "answer number": lambda made: made["answers"].__setitem__(0, 1),
    "answer surrogate": lambda made: made["answers"].__setitem__(0, "\ud800"),
    "model number": lambda made: made.update(model=1),
    "model surrogate": lambda made: made.update(model="\udcff"),
}


def gate(*words):
    """Exit code, output and errors of the program."""
    shown = runner().invoke(app, ["gate", *map(str, words)])
    assert shown.exception is None or isinstance(shown.exception, SystemExit)
    return shown.exit_code, shown.stdout, shown.stderr


def refused(code, *words):
    """The one line with which the program ends."""
    ended, said, errors = gate(*words)
    assert (ended, said) == (code, ""), errors
    (line,) = errors.splitlines()
    return line


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_recording_is_one_line_and_no_verdict(damage, tmp_path):
    good, bad, out = (tmp_path / f"{name}.json" for name in ("good", "bad", "out"))
    recording(restored=10).write(good)
    content = json.loads(good.read_text())
    DAMAGES[damage](content)
    bad.write_text(json.dumps(content))
    for pair in ((good, bad), (bad, good)):
        line = refused(2, "compare", *pair, "--exact", "--json", out)
        assert f"{bad}: a damaged recording: " in line
    line = refused(2, "compare", good, good, "--control", bad)
    assert "bad.json" in line
    assert not out.exists()


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a": \xff}', b"1" * 5000])
def test_what_json_cannot_be_is_one_line(content, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert "a.json: no JSON" in refused(2, "compare", path, path, "--exact")


@pytest.mark.parametrize("tokens", [math.nan, math.inf, -1, 0.5, True])
def test_no_recording_is_made_of_tokens_that_are_none(tokens):
    with pytest.raises(GateError, match="no whole number of tokens"):
        recording(restored=tokens)


@pytest.mark.parametrize("users", [1, 4])
def test_a_recording_holds_answers_in_order_and_what_was_restored(users):
    with serving(told_key, restored_each=2.0) as address:
        made = record(GateServer(address), PLAN, users=users)
    assert made.model == "tiny"
    assert made.answers == [f" {key}" for key in KEYS]
    assert made.restored_tokens == 2.0 * len(KEYS)


def test_a_server_without_the_counter_is_recorded_as_such():
    with serving(told_key, counter="other_total") as address:
        assert record(GateServer(address), PLAN).restored_tokens is None


SIZE = ("--sessions", 4, "--turns", 2, "--words", 3)


def test_the_program_from_recording_to_exit_code(tmp_path):
    files = {name: tmp_path / f"{name}.json" for name in ("a", "b", "c", "d")}
    with serving(told_key) as address:
        for name in "ac":
            assert gate("record", address, "--out", files[name], *SIZE)[0] == 0
    with serving(told_key, restored_each=1.0) as address:
        code, said, _ = gate("record", address, "--out", files["b"], *SIZE)
        assert (code, "8 answers of tiny; tokens restored: 8" in said) == (0, True)
    with serving(lambda prompt: " ???", restored_each=1.0) as address:
        gate("record", address, "--out", files["d"], *SIZE)
    verdict = tmp_path / "verdict.json"
    ways = ("compare", files["a"], files["b"], "--control", files["c"])
    code, said, _ = gate(*ways, "--json", verdict)
    assert (code, said.partition(":")[0]) == (0, "pass")
    assert json.loads(verdict.read_text())["restored_tokens"] == 8
    assert gate("compare", files["a"], files["b"], "--exact")[0] == 0
    assert gate("compare", files["a"], files["d"], "--exact")[0] == 1
    assert gate("compare", files["a"], files["c"], "--exact")[0] == 3
    assert gate("compare", files["a"], files["b"], "--control", files["b"])[0] == 3
    line = refused(2, "compare", files["a"], files["b"])
    assert "a control recording is needed" in line


def test_another_plan_is_unproven_and_says_so_in_the_verdict(tmp_path):
    base, other, out = (tmp_path / f"{name}.json" for name in "abc")
    recording().write(base)
    recording(restored=10, plan=OTHER).write(other)
    code, said, _ = gate("compare", base, other, "--exact", "--json", out)
    assert (code, len(said.splitlines())) == (3, 1)
    assert said.startswith("unproven: the offload recording is of other questions")
    assert json.loads(out.read_text())["divergences"] is None


@pytest.mark.parametrize(
    "metrics",
    {
        "404": lambda counted: (404, counted),
        "500": lambda counted: (500, counted),
        "NaN": lambda counted: (200, "NaN"),
        "inf": lambda counted: (200, "+Inf"),
        "text": lambda counted: (200, "many"),
        "negative": lambda counted: (200, -1),
        "half": lambda counted: (200, 0.5),
        "falling": lambda counted: (200, 100 - counted),
        "gone": lambda counted: (200 if counted == 7 else 404, counted),
    }.items(),
    ids=lambda item: item[0],
)
def test_metrics_that_say_nothing_are_unproven_and_leave_no_file(metrics, tmp_path):
    with serving(told_key, restored_each=1.0, metrics=metrics[1]) as address:
        line = refused(3, "record", address, "--out", tmp_path / "a.json", *SIZE)
    assert line.startswith("hotset: unproven: ")
    assert list(tmp_path.iterdir()) == []


def test_metrics_elsewhere_that_are_not_there_are_unproven(tmp_path):
    out, nowhere = tmp_path / "a.json", "http://127.0.0.1:1/metrics"
    with serving(told_key) as address:
        line = refused(3, "record", address, "--out", out, "--metrics", nowhere)
        assert nowhere in line
        line = refused(2, "record", address, "--out", out, "--metrics", "x")
        assert "an address begins with" in line


@pytest.mark.parametrize("answer", ["a\ud800b", None, 5, ["x"]])
def test_an_answer_that_is_no_text_is_one_line_and_leaves_no_file(answer, tmp_path):
    with serving(lambda prompt: answer) as address:
        line = refused(2, "record", address, "--out", tmp_path / "a.json", *SIZE)
    assert "/v1/completions: an answer" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *(("--timeout", value) for value in ("-1", "0", "nan", "inf", "1e300")),
        ("--users", "0"),
        ("--turns", "1"),
        ("--model", "\udcff"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_one_line_and_ask_nothing(wrong, tmp_path):
    asked = []
    with serving(asked.append) as address:
        line = refused(2, "record", address, "--out", tmp_path / "a.json", *wrong)
    assert wrong[0].strip("-") in line
    assert (asked, list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize("name", ["", "no/a.json", "n" * 300])
def test_a_place_that_cannot_be_written_is_one_line(name, tmp_path):
    with serving(told_key) as address:
        out = tmp_path / name
        refused(2, "record", address, "--out", out, *SIZE)
    recording().write(tmp_path / "a.json")
    pair = (tmp_path / "a.json",) * 2
    refused(2, "compare", *pair, "--exact", "--json", out)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_a_server_nests_deeper_than_json_goes_is_one_line(tmp_path):
    with serving(told_key, models="[" * 100_000) as address:
        line = refused(2, "record", address, "--out", tmp_path / "a.json")
    assert "no JSON" in line


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_server_that_refuses_is_one_line_and_leaves_no_file(status, tmp_path):
    with serving(told_key, status=status) as address:
        shown = runner().invoke(
            app, ["gate", "record", address, "--out", str(tmp_path / "a.json")]
        )
    assert shown.exit_code == 2
    assert f"HTTP {status}" in shown.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1",
        "http://127.0.0.1:x",
        "http://[::1",
        "http://127.0.0.1:1/ä",
        "ftp://127.0.0.1",
        "no address",
        "file:///etc/x",
    ],
)
def test_no_server_is_one_line(address, tmp_path):
    out = tmp_path / "a.json"
    shown = runner().invoke(app, ["gate", "record", address, "--out", str(out)])
    assert shown.exit_code == 2
    assert address in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
