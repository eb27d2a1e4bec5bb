"""Reads the recorded scripts of tests/data/golden."""

import gzip
import json
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "golden"


def load(name: str) -> list[dict]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]
