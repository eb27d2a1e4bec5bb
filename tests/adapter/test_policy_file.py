"""The policy file: its forms, what is wrong with it, and watching it."""

import logging
import os
import threading

import pytest
from support.tuned import tuned

from hotset.adapter.config import read_config
from hotset.adapter.policy_file import PolicyWatcher, read_policy_file
from hotset.policies import PolicyError


def write(path, content):
    """Replace a file at once, as a deployment does."""
    made = path.with_suffix(".new")
    made.write_text(content)
    os.replace(made, path)
    return str(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tuned.json"


def test_what_tune_writes_is_taken_as_it_is(path):
    policy = {"name": "marconi", "decay": 0.01, "reuse": "log"}
    rule = {"name": "threshold", "min_count": 2}
    choice, verdict = read_policy_file(write(path, tuned(policy, rule, other=[1])))
    assert verdict == "deploy"
    assert choice.policy.name == "marconi"
    assert (choice.params.decay, choice.params.reuse) == (0.01, "log")
    assert choice.admission_params.min_count == 2


@pytest.mark.parametrize("verdict", ["keep-lru", "offload-does-not-pay"])
def test_another_verdict_runs_lru(path, verdict):
    name = write(path, tuned("fifo", "threshold:3", verdict))
    choice, found = read_policy_file(name)
    assert (choice.describe(), found) == ("policy lru, admission always", verdict)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", ["no JSON"]),
        ("[" * 100_000, ["no JSON"]),
        ("\x00", ["no JSON"]),
        ("[]", ["not a file of hotset tune"]),
        ('{"policy": "lru"}', ["not a file of hotset tune"]),
        (tuned("lruu"), ["did you mean 'lru'"]),
        (tuned("belady"), ["cannot run in a server"]),
        (tuned("lru", version=2), ["allowed is 1"]),
        (tuned("lru", verdict="yes"), ["allowed are deploy, keep-lru"]),
        (
            tuned("lru:order=up", "threshold:0"),
            ["allowed are auto", "allowed is 1 to 1000"],
        ),
    ],
)
def test_everything_wrong_is_said_at_once(path, content, said):
    with pytest.raises(PolicyError) as raised:
        read_policy_file(write(path, content))
    lines = str(raised.value).splitlines()
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert part in line
        assert str(path) in line


def test_a_file_that_is_not_there(path):
    with pytest.raises(PolicyError, match="No such file"):
        read_policy_file(str(path))


def test_the_keys_in_the_configuration(path):
    name = write(path, tuned("marconi", "threshold:2"))
    config = read_config({"hotset": {"policy_file": name, "watch_s": 0.5}})
    assert (config.tuned.path, config.watch_s) == (name, 0.5)
    assert config.choice == read_policy_file(name)[0]
    assert read_config({}).watch_s == 5
    for wrong in (-1, True, "5", float("nan"), 1e9):
        with pytest.raises(PolicyError, match=r'"watch_s" is .*0 for not at all'):
            read_config({"hotset": {"watch_s": wrong}})


class Watched:
    """A file, and a watcher that looks when the test says so."""

    def __init__(self, path, content, **settings):
        self.path = path
        write(path, content)
        self.prepared = []
        current, _ = read_policy_file(str(path))
        prepare = settings.get("prepare", self.prepared.append)
        self.watcher = PolicyWatcher(str(path), 1000.0, current, prepare)

    def look(self, content=None):
        if content is not None:
            write(self.path, content)
        self.watcher.look()
        choice = self.watcher.take()
        return None if choice is None else choice.policy.name


def test_a_new_file_is_taken_once(path):
    watched = Watched(path, tuned("lru"))
    assert watched.look() is None
    assert watched.look(tuned("fifo")) == "fifo"
    assert watched.look() is None
    assert [choice.policy.name for choice in watched.prepared] == ["fifo"]
    # The same again, written anew, is nothing new.
    assert watched.look(tuned("fifo", other=1)) is None
    assert watched.look(tuned("lru")) == "lru"


def test_a_wrong_file_is_refused_with_one_line_and_a_right_one_taken_after(
    path, caplog
):
    watched = Watched(path, tuned("lru"))
    assert watched.look(tuned("lru:order=up", "no")) is None
    for _ in range(3):
        assert watched.look() is None
    (record,) = caplog.records
    assert "the policy stays as it is" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert watched.look("half a fi") is None
    os.unlink(path)
    assert watched.look() is None
    assert watched.look() is None
    assert watched.watcher.counts["refused"] == len(caplog.records) == 3
    assert watched.look(tuned("fifo")) == "fifo"


def test_one_that_cannot_be_made_ready_is_refused(path, caplog):
    def fail(choice):
        raise MemoryError("too large")

    watched = Watched(path, tuned("lru"), prepare=fail)
    assert watched.look(tuned("fifo")) is None
    assert "too large" in caplog.text
    assert watched.look(tuned("lru")) is None
    assert watched.watcher.counts["refused"] == 1


def test_a_file_that_changes_while_it_is_read_is_read_again(path, monkeypatch):
    from hotset.adapter import policy_file

    watched = Watched(path, tuned("lru"))
    read = policy_file.read_policy_file

    def read_and_replace(name):
        found = read(name)
        write(path, tuned("sieve"))
        monkeypatch.setattr(policy_file, "read_policy_file", read)
        return found

    monkeypatch.setattr(policy_file, "read_policy_file", read_and_replace)
    assert watched.look(tuned("fifo")) is None
    assert watched.look() == "sieve"


def test_only_the_last_of_several_counts(path):
    watched = Watched(path, tuned("lru"))
    for name in ("fifo", "sieve"):
        write(path, tuned(name))
        watched.watcher.look()
    assert watched.watcher.take().policy.name == "sieve"
    assert watched.watcher.take() is None


def test_its_thread_finds_a_new_file_and_ends(path):
    write(path, tuned("lru"))
    current, _ = read_policy_file(str(path))
    found = threading.Event()
    watcher = PolicyWatcher(str(path), 0.01, current, lambda choice: found.set())
    watcher.start()
    write(path, tuned("fifo"))
    assert found.wait(60)
    watcher.close()
    watcher.close()
    names = [thread.name for thread in threading.enumerate()]
    assert "hotset-policy-file" not in names
    assert watcher.take().policy.name == "fifo"


def test_nothing_is_read_while_nothing_changes(path, monkeypatch, caplog):
    from hotset.adapter import policy_file

    watched = Watched(path, tuned("lru"))
    watched.look()

    def never(name):
        raise AssertionError(name)

    monkeypatch.setattr(policy_file, "read_policy_file", never)
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            assert watched.look() is None
    assert not caplog.records


def test_a_pipe_is_not_waited_for(tmp_path):
    pipe = tmp_path / "tuned.json"
    os.mkfifo(pipe)
    with pytest.raises(PolicyError, match="no regular file"):
        read_policy_file(str(pipe))


def test_a_size_beyond_all_numbers(path):
    text = tuned("lru").replace('"chunk_tokens": 32', '"chunk_tokens": Infinity')
    assert "Infinity" in text
    with pytest.raises(PolicyError, match="incomplete"):
        read_policy_file(write(path, text))
