"""The fidelity gate against small servers on loopback, and its verdicts."""

import dataclasses
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import runner

from hotset.adapter.gate_client import RESTORED, GateServer
from hotset.adapter.gate_errors import GateError
from hotset.adapter.gate_prompts import GatePlan, questions
from hotset.adapter.gate_recording import GateRecording, record
from hotset.adapter.gate_verdict import compare
from hotset.sim.cli import app

PLAN = GatePlan(sessions=5, turns=3, words=7, answer_tokens=8)
KEYS = [question.passkey for question in questions(PLAN)]


def recording(answers=None, restored=0.0, plan=PLAN, model="m"):
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
    ],
)
def test_verdicts(offload, control, exact, outcome):
    assert compare(recording(), offload, control, exact).outcome == outcome


def test_a_baseline_that_was_restored_itself_proves_nothing():
    baseline = recording(restored=5)
    verdict = compare(baseline, recording(restored=10), None, exact=True)
    assert verdict.outcome == "unproven"


def test_a_model_that_knows_no_passkey_is_judged_by_exact_answers_alone():
    blank = ["?"] * len(KEYS)
    pair = recording(blank), recording(blank, restored=10)
    assert compare(*pair, recording(blank)).outcome == "unproven"
    assert compare(*pair, exact=True).outcome == "pass"


@given(st.integers(0, 15), st.integers(0, 15))
def test_what_may_differ_grows_with_what_differs_anyway(noise, wrong):
    verdict = compare(
        recording(), recording(with_wrong(wrong), 10), recording(with_wrong(noise))
    )
    fits = (wrong - noise) ** 2 <= 4 * (noise + 1) or wrong <= noise
    assert (verdict.outcome == "pass") == fits
    assert verdict.divergences == wrong


def test_recordings_of_different_things_are_refused():
    plan = dataclasses.replace(PLAN, seed=1)
    for other in (recording(plan=plan), recording(model="other")):
        with pytest.raises(GateError, match="the offload recording is of"):
            compare(recording(), other, exact=True)
        with pytest.raises(GateError, match="the control recording is of"):
            compare(recording(), recording(), other)
    with pytest.raises(GateError, match="a control recording is needed"):
        compare(recording(), recording())


def test_a_recording_is_read_as_it_was_written(tmp_path):
    for made in (recording(restored=3.0), recording(restored=None)):
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


@contextmanager
def serving(answer, restored_each=0.0, status=200, counter=RESTORED):
    """A server on loopback that answers prompts by a function."""
    count = [7.0]

    class Handler(BaseHTTPRequestHandler):
        def reply(self, text):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self):
            if self.path == "/metrics":
                shown = f'# TYPE x counter\n{counter}{{engine="0"}} {count[0]}\n'
                return self.reply(shown)
            return self.reply('{"data": [{"id": "tiny"}]}')

        def do_POST(self):
            size = int(self.headers["Content-Length"])
            asked = json.loads(self.rfile.read(size))
            assert asked["temperature"] == 0
            count[0] += restored_each
            self.reply(json.dumps({"choices": [{"text": answer(asked["prompt"])}]}))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def told_key(prompt):
    return " " + prompt.partition("The passkey is ")[2][:6]


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


def test_the_program_from_recording_to_exit_code(tmp_path):
    def run(*words):
        shown = runner().invoke(app, ["gate", *map(str, words)])
        return shown.exit_code, shown.stdout, shown.stderr

    size = ("--sessions", 4, "--turns", 2, "--words", 3)
    files = {name: tmp_path / f"{name}.json" for name in ("a", "b", "c", "d")}
    with serving(told_key) as address:
        for name in "ac":
            assert run("record", address, "--out", files[name], *size)[0] == 0
    with serving(told_key, restored_each=1.0) as address:
        code, said, _ = run("record", address, "--out", files["b"], *size)
        assert (code, "8 answers of tiny; tokens restored: 8" in said) == (0, True)
    with serving(lambda prompt: " ???", restored_each=1.0) as address:
        run("record", address, "--out", files["d"], *size)
    verdict = tmp_path / "verdict.json"
    ways = ("compare", files["a"], files["b"], "--control", files["c"])
    code, said, _ = run(*ways, "--json", verdict)
    assert (code, said.partition(":")[0]) == (0, "pass")
    assert json.loads(verdict.read_text())["restored_tokens"] == 8
    assert run("compare", files["a"], files["b"], "--exact")[0] == 0
    assert run("compare", files["a"], files["d"], "--exact")[0] == 1
    assert run("compare", files["a"], files["c"], "--exact")[0] == 3
    code, _, said = run("compare", files["a"], files["b"])
    assert (code, "a control recording is needed" in said) == (2, True)


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
    "address", ["http://127.0.0.1:1", "ftp://127.0.0.1", "no address", "file:///etc/x"]
)
def test_no_server_is_one_line(address, tmp_path):
    out = tmp_path / "a.json"
    shown = runner().invoke(app, ["gate", "record", address, "--out", str(out)])
    assert shown.exit_code == 2
    assert address in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
