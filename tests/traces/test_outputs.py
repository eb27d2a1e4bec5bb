import os

import pytest

from hotset.traces.errors import TraceError
from hotset.traces.outputs import check_outputs
from hotset.traces.sample import sample_path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files, and other names of them; the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a trace")
    (tmp_path / "other").write_text("another file")
    (tmp_path / "link").symlink_to("in")
    os.link(tmp_path / "in", tmp_path / "hard")
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "here").symlink_to(".")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["in", "./in", "link", "hard", "here/in", "here/link", "here/../in"]
)
def test_an_output_that_is_the_input(folder, name):
    if name == "here/../in":
        name = f"../{folder.name}/in"
    for path in (name, folder / name):
        with pytest.raises(TraceError, match=r"--json .*: the same file as TRACE"):
            check_outputs({"--json": path}, {"TRACE": "in"})
    with pytest.raises(TraceError):
        check_outputs({"--json": "in"}, {"TRACE": name})
    check_outputs({"--json": "other"}, {"TRACE": name})


@pytest.mark.parametrize("other", ["new", "./new", "here/new", "dangling"])
def test_two_outputs_that_are_one_file(folder, other):
    with pytest.raises(TraceError, match=r"^--plot .*: the same file as --json$"):
        check_outputs({"--json": "new", "--plot": other}, {})
    check_outputs({"--json": "new", "--plot": "newer"}, {})


def test_standard_input(folder, monkeypatch):
    saved = os.dup(0)
    source = os.open("in", os.O_RDONLY)
    try:
        os.dup2(source, 0)
        for name in ("in", "link"):
            with pytest.raises(TraceError, match="the same file as TRACE"):
                check_outputs({"--json": name}, {"TRACE": "-"})
        check_outputs({"--json": "other", "--plot": "-"}, {"TRACE": "-"})
        os.close(0)
        check_outputs({"--json": "in"}, {"TRACE": "-"})
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(source)


def test_special_files_may_be_shared(folder):
    check_outputs({"--json": "/dev/null", "--plot": "/dev/null"}, {"TRACE": "in"})
    check_outputs({"--json": "/dev/stdout", "--plot": "/dev/stdout"}, {})
    check_outputs({"--json": "/dev/null"}, {"TRACE": "/dev/null"})


def test_the_bundled_trace_is_an_input(folder):
    with pytest.raises(TraceError, match="the same file as TRACE"):
        check_outputs({"--json": sample_path()}, {"TRACE": "sample"})
    check_outputs({"--json": "sample"}, {"TRACE": "sample"})


@pytest.mark.parametrize("path", [".", "absent/x", "", "a\0b", "x" * 300])
def test_outputs_that_cannot_be_written(folder, path):
    with pytest.raises(TraceError):
        check_outputs({"--json": path}, {"TRACE": "in"})


def test_inputs_of_no_use_are_left_to_the_reader(folder):
    for name in ("absent", ".", "a\0b", "x" * 300):
        check_outputs({"--json": "new"}, {"TRACE": name})
