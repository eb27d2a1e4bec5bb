"""The README's configurations of vLLM are taken as they are."""

import json
import re
from pathlib import Path

from hotset.adapter.config import read_config

README = Path(__file__).parents[2] / "README.md"


def configurations():
    """What each configuration of our connector holds."""
    for text in re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL):
        given = json.loads(text).get("kv_connector_extra_config", {})
        for one in given.get("connectors", [{"kv_connector_extra_config": given}]):
            extra = one["kv_connector_extra_config"]
            if "hotset" in extra:
                yield extra


def test_they_are_read():
    read = [read_config(extra, {}) for extra in configurations()]
    assert len(read) == 3
    assert [config.ssd is not None for config in read] == [False, False, True]


def test_the_ssd_tier_is_what_it_says():
    (ssd,) = [c.ssd for c in (read_config(e, {}) for e in configurations()) if c.ssd]
    assert (ssd.path, ssd.max_bytes) == ("/mnt/nvme/kv", 300 << 30)
    assert (ssd.min_free_bytes, ssd.mode) == (20 << 30, "demote")
    assert ssd.writes_per_day_bytes == 2 << 40
    assert ssd.choice.admission.name == "threshold"
    assert ssd.staging_share == 1 / 8
