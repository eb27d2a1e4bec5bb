"""The migration page: what it says a configuration becomes is what comes out."""

import json
import re
from pathlib import Path

import pytest
from support.command_line import runner

from hotset.adapter.config import read_config
from hotset.sim.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
BLOCKS = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.S)]
EVOKE, MARCONI = BLOCKS[:2], BLOCKS[2:]


def exported(old, folder):
    """What `hotset export --from` prints as a configuration."""
    path = folder / "old.json"
    path.write_text(json.dumps(old))
    words = ["export", "--from", str(path), "--engine", "vllm-0.33", "--print", "json"]
    shown = runner().invoke(app, words)
    assert shown.exit_code == 0, shown.stderr
    return json.loads(shown.stdout)


def test_marconi_is_translated_as_the_page_says(tmp_path):
    old, new = MARCONI
    assert exported(old, tmp_path) == new


def test_evoke_changes_the_spec_alone_and_runs_what_export_prints(tmp_path):
    old, new = EVOKE
    spec = ("spec_name", "spec_module_path")
    changed = {
        key
        for key, value in new["kv_connector_extra_config"].items()
        if old["kv_connector_extra_config"][key] != value
    }
    assert changed == set(spec)
    kept = read_config(new["kv_connector_extra_config"], {})
    printed = read_config(exported(old, tmp_path)["kv_connector_extra_config"], {})
    assert kept == printed


@pytest.mark.parametrize("new", [EVOKE[1], MARCONI[1]])
def test_the_new_ones_are_read(new):
    assert read_config(new["kv_connector_extra_config"], {}).describe()
