"""The README's configurations of vLLM are taken as they are."""

import json
import re
from pathlib import Path

from hotset.adapter.config import read_config
from hotset.adapter.ssd.config import _DEFAULTS, _KEYS, SsdConfig
from hotset.adapter.units import read_bytes

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


def test_the_table_of_the_ssd_tiers_keys():
    """Each key once, with its default."""
    section = (
        README.read_text().partition("\n### An SSD tier\n")[2].partition("\n## ")[0]
    )
    told = {}
    for keys, defaults in re.findall(r"^\| (`\w+`.*?) \| (.*?) \| ", section, re.M):
        names = re.findall(r"`(\w+)`", keys)
        values = re.findall(r"`(.*?)`", defaults) or [None] * len(names)
        told.update(zip(names, values, strict=True))
    assert sorted(told) == sorted(_KEYS)
    wanted = {**_DEFAULTS, "policy": "lru", "admission": "always"}
    for name, value in told.items():
        if value is None:
            assert name in ("path", "max_bytes")
            continue
        given = json.loads(value)
        if name.endswith("_bytes"):
            given = read_bytes(given)
        assert given == wanted[name], name


def test_the_tier_behind_vllms_own_is_read():
    tiers = [
        tier
        for text in re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)
        for tier in json.loads(text)
        .get("kv_connector_extra_config", {})
        .get("secondary_tiers", [])
    ]
    (tier,) = tiers
    assert tier.pop("type") == "HotsetSsdTier"
    assert tier.pop("module_path") == "hotset.adapter.ssd.vllm_secondary"
    faults = []
    assert SsdConfig.read(tier, "", faults) is not None, faults
