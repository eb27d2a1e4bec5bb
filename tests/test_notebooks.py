"""Notebooks: nothing but text and code in git, and each runs from start to end."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_of(book):
    cells = json.loads(book.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_all_are_there():
    assert [book.stem for book in BOOKS] == [
        "gpu_matrix", "policy_zoo", "regime_map", "your_trace",
    ]  # fmt: skip


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_outputs_are_stripped_and_code_is_thin(book):
    for cell in code_of(book):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        text = "".join(cell["source"])
        assert "def " not in text
        assert "/home/" not in text
    tagged = [c for c in code_of(book) if "parameters" in c["metadata"].get("tags", [])]
    assert len(tagged) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_it_runs_from_start_to_end(book, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("MPLBACKEND", "Agg")
    read = nbformat.read(book, as_version=4)
    NotebookClient(
        read, timeout=300, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    code = [cell for cell in read.cells if cell.cell_type == "code"]
    outputs = [out for cell in code for out in cell.outputs]
    assert "image/png" in {kind for out in outputs for kind in out.get("data", ())}
    said = [out.get("text", "") or out["data"].get("text/plain", "") for out in outputs]
    assert "lru" in "".join(said) or "A1_W1_B1" in "".join(said)
