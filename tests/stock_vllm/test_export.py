"""What `hotset export` prints is what each vLLM's own factory loads."""

import json

import pytest
from support.trees import python
from support.tuned_files import OLD_EVOKE, OLD_MARCONI, TUNED_SSD, tuned_file

from hotset.adapter.export import Target, export_translated, export_tuned
from hotset.adapter.foreign import translate
from hotset.adapter.tuned_file import read_tuned

pytestmark = pytest.mark.vllm

VERSIONS = ("0.22.1", "0.24.0", "0.26.0", "0.28.0", "0.30.0", "0.32.0", "0.33.0")
CPU_BYTES = 1 << 20
CHUNK_BYTES = 16 * 4096  # 512 tokens of the tests' model


def loaded(version, exports, folder):
    """What that vLLM's factory makes of exports."""
    configs = json.dumps([each.kv_transfer_config for each in exports])
    done = python(
        version,
        ["-m", "support.export_check"],
        folder,
        stdin=configs,
        PYTHONHASHSEED="0",
    )
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]
    return [json.loads(line) for line in lines]


def target(version, **settings):
    engine = "vllm-" + version.rpartition(".")[0]
    return Target(engine, block_tokens=32, cpu_bytes=CPU_BYTES, **settings)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_form_loads(version, tmp_path):
    deploy = read_tuned(tuned_file(tmp_path / "a.json"))
    keep = read_tuned(tuned_file(tmp_path / "b.json", verdict="keep-lru"))
    counted = read_tuned(
        tuned_file(tmp_path / "c.json", policy={"name": "lru"},
                   admission={"name": "threshold", "min_count": 3})
    )  # fmt: skip
    two_tiers = read_tuned(
        tuned_file(tmp_path / "d.json", ssd={**TUNED_SSD, "bytes": 1 << 22})
    )
    wanted = target(version)
    behind = target(version, ssd_path=str(tmp_path / "ssd"))
    exports = [
        export_tuned(deploy, wanted),
        export_tuned(keep, wanted),
        export_tuned(counted, wanted),
        export_translated(translate(OLD_EVOKE, "old"), wanted),
        export_translated(translate(OLD_MARCONI, "old"), behind),
        export_tuned(two_tiers, target(version, ssd_path=str(tmp_path / "two"))),
    ]
    found = loaded(version, exports, tmp_path)
    assert [each.get("error") for each in found] == [None] * len(exports)
    ours, stock, threshold, evoke, marconi, tiers = found
    assert ours["policy"] == "guard:distance=104,growth=5.22"
    assert ours["spec"] == "HotsetOffloadingSpec"
    assert ours["blocks_per_chunk"] == 16
    assert ours["chunks"] == CPU_BYTES // CHUNK_BYTES
    assert stock["spec"] == "CPUOffloadingSpec"
    assert stock["policy"] == "LRUCachePolicy"
    assert threshold["policy"] == "lru"
    assert evoke["policy"].startswith("relevance")
    assert marconi["policy"] == "marconi:decay=0.005"
    assert tiers["policy"] == "guard:distance=104,growth=5.22"
    assert marconi["spec"] == tiers["spec"] == "HotsetSsdSpec"


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0", "0.33.0"])
def test_a_policy_by_name_loads(version, tmp_path):
    plain = tuned_file(
        tmp_path / "a.json", policy={"name": "marconi"},
        admission={"name": "threshold", "min_count": 2},
        engine="vllm-" + version.rpartition(".")[0],
    )  # fmt: skip
    made = export_tuned(read_tuned(plain), target(version, form="policy"))
    (found,) = loaded(version, [made], tmp_path)
    assert found.get("error") is None
    assert found["spec"] == "CPUOffloadingSpec"
    assert found["policy"] == "marconi"


def test_the_file_itself_loads(tmp_path):
    """``policy_file``, with a verdict to deploy and with another one."""
    names = [
        tuned_file(tmp_path / "a.json"),
        tuned_file(tmp_path / "b.json", verdict="keep-lru"),
    ]
    configs = [
        {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": "HotsetOffloadingSpec",
                "cpu_bytes_to_use": CPU_BYTES,
                "hotset": {"policy_file": name},
            },
        }
        for name in names
    ]
    done = python(
        "0.32.0", ["-m", "support.export_check"], tmp_path, stdin=json.dumps(configs)
    )
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]
    policies = [json.loads(line)["policy"] for line in lines]
    assert policies == ["guard:distance=104,growth=5.22", "lru"]
