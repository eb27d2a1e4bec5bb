"""`hotset ssd`: what is there, whether it is right, and away with it."""

import json
import sqlite3
import time
from pathlib import Path

import pytest
from support.command_line import runner
from support.ssd import NAMESPACE, make_player

from hotset.adapter.ssd.namespace import Namespace
from hotset.adapter.ssd_commands import app
from hotset.policies import PolicyError

OTHER = Namespace.of({**NAMESPACE.fields, "model": "other"})


def run(*words):
    return runner().invoke(app, [str(word) for word in words])


@pytest.fixture
def path(tmp_path):
    """Forty blocks, of which ten were used again, and another namespace's five."""
    day_ago = time.time() - 90_000
    player = make_player(tmp_path / "ssd", wall=lambda: day_ago)
    player.store(*range(40))
    player.settle()
    player.cache.close()
    player = make_player(tmp_path / "ssd")
    player.store(*range(10))
    player.settle()
    player.cache.close()
    player = make_player(tmp_path / "ssd", namespace=OTHER)
    player.store(*range(5))
    player.settle()
    player.cache.close()
    return tmp_path / "ssd"


def spoil(path):
    file = next(path.glob("hotset-*/slots-00000.bin"))
    with open(file, "r+b") as out:
        out.seek(600)
        out.write(b"wrong")
    return file


def test_inspect_shows_usage_ages_and_uses(path, tmp_path):
    shown = run("inspect", path, "--json", tmp_path / "out.json")
    assert shown.exit_code == 0, shown.output
    assert "40 blocks in" in shown.stdout and "5 blocks in" in shown.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    (first,) = [n for n in found["namespaces"] if n["blocks"] == 40]
    assert first["fields"] == dict(NAMESPACE.fields)
    assert first["last_use_ago"] == {
        "1 min": 10,
        "1 h": 0,
        "1 day": 0,
        "1 week": 30,
        "older": 0,
    }
    assert first["uses"]["1"] == 30 and first["uses"]["2-3"] == 10
    used = sum(n["used_bytes"] for n in found["namespaces"])
    assert found["used_bytes"] == used > 45 * 4096


def test_inspect_leaves_a_served_namespace_alone(path):
    player = make_player(path)
    shown = run("inspect", path)
    assert shown.exit_code == 0 and "served by a process" in shown.stdout
    player.store(100)
    player.settle()
    assert player.found([100]) == [100]
    player.cache.close()


def test_inspect_says_what_cannot_be_read(path):
    for index in path.glob("hotset-*/index.db"):
        index.write_bytes(b"no database" * 1000)
    shown = run("inspect", path)
    assert shown.exit_code == 1 and "cannot be read" in shown.stdout


def test_verify_finds_all_right(path, tmp_path):
    shown = run("verify", path, "--json", tmp_path / "out.json")
    assert shown.exit_code == 0, shown.output
    found = json.loads((tmp_path / "out.json").read_text())["namespaces"]
    assert sorted(n["right"] for n in found) == [5, 40]


def test_verify_finds_what_is_wrong(path):
    spoil(path)
    shown = run("verify", path)
    assert shown.exit_code == 1
    assert "1 checksum wrong" in shown.stdout


def test_clear_removes_what_is_ours_and_no_more(path):
    (path / "notes.txt").write_text("mine")
    refused = runner().invoke(app, ["clear", str(path)], input="n\n")
    assert refused.exit_code == 1 and list(path.glob("hotset-*/slots-*"))
    shown = run("clear", path, "--yes")
    assert shown.exit_code == 0, shown.output
    assert sorted(f.name for f in path.iterdir()) == ["hotset.lock", "notes.txt"]


def test_clear_keeps_what_is_served(path):
    player = make_player(path)
    shown = run("clear", path, "--yes")
    assert shown.exit_code == 1 and "stays" in shown.stdout
    assert player.found(range(40)) == list(range(40))
    player.cache.close()


def test_a_folder_that_is_none_of_ours_is_one_line_and_exit_code_2(tmp_path):
    for path, words in ((tmp_path / "no", "no such folder"), (tmp_path, "ever here")):
        for command in ("inspect", "verify", "clear"):
            shown = run(command, path)
            assert shown.exit_code == 2
            assert words in shown.stderr and shown.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_place_that_cannot_be_written_is_said_before_the_work(
    command, path, tmp_path
):
    done = run(command, path, "--json", tmp_path / "none" / "out.json")
    assert isinstance(done.exception, PolicyError)
    assert "there is no folder" in str(done.exception)
    assert done.stdout == ""


@pytest.fixture
def one(tmp_path):
    """Five blocks."""
    player = make_player(tmp_path / "ssd")
    player.store(*range(5))
    player.settle()
    player.cache.close()
    return tmp_path / "ssd"


def blocks_of(path):
    (found,) = path.glob("hotset-*")
    return found


@pytest.mark.parametrize("left", [(), ("lock",)])
def test_clear_removes_what_a_start_that_was_cut_off_left(one, left):
    for each in blocks_of(one).iterdir():
        if each.name not in left:
            each.unlink()
    shown = run("clear", one, "--yes")
    assert shown.exit_code == 0 and shown.output.endswith(": removed\n")
    assert [each.name for each in one.iterdir()] == ["hotset.lock"]


def a_folder_for_a_lock(here):
    (here / "lock").unlink()
    (here / "lock").mkdir()


def a_link_for_a_lock(here):
    (here / "lock").unlink()
    (here / "lock").symlink_to("/etc/passwd")


def another_table(here):
    (here / "index.db").unlink()
    database = sqlite3.connect(here / "index.db")
    database.execute("CREATE TABLE slots (a)")
    database.execute("INSERT INTO slots VALUES (1)")
    database.commit()
    database.close()


def a_huge_block(here):
    about = json.loads((here / "about.json").read_text())
    (here / "about.json").write_text(json.dumps({**about, "payload_bytes": 1 << 47}))


def a_link_for_a_journal(here):
    (here / "index.db-wal").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("damage", "said", "cleared"),
    [
        (a_folder_for_a_lock, "Is a directory", False),
        (a_link_for_a_lock, "Too many levels of symbolic links", False),
        (another_table, "its index has other tables", True),
        (a_huge_block, "about.json does not say what it is", True),
        (a_link_for_a_journal, "its index cannot be read", True),
    ],
)
def test_odd_folders_are_said_and_never_a_traceback(one, damage, said, cleared):
    damage(blocks_of(one))
    for command in ("inspect", "verify"):
        shown = run(command, one)
        assert shown.exit_code == 1, shown.output
        assert isinstance(shown.exception, SystemExit)
        assert said in shown.output
    shown = run("clear", one, "--yes")
    assert shown.exit_code == (0 if cleared else 1), shown.output
    assert Path("/etc/passwd").exists()


def test_what_a_folder_says_of_itself_cannot_write_to_the_terminal(one):
    about = blocks_of(one) / "about.json"
    fields = {"model": "m\ud800\n\x1b[31m"}
    about.write_text(json.dumps({**json.loads(about.read_text()), "fields": fields}))
    shown = run("inspect", one)
    assert shown.exit_code == 0
    assert "model m\\ud800\\n\\x1b[31m" in shown.output
