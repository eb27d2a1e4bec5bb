"""What is exported, what is refused, and what becomes of other packages' keys."""

import json
import shlex

import pytest
from support.tuned_files import OLD_EVOKE, OLD_MARCONI, TUNED_SSD, tuned_file

from hotset.adapter.config import read_config
from hotset.adapter.errors import AdapterError
from hotset.adapter.export import Target, export_translated, export_tuned
from hotset.adapter.foreign import translate
from hotset.adapter.ssd.files import OsFiles
from hotset.adapter.ssd.quota import Quota
from hotset.adapter.tuned_file import read_tuned
from hotset.policies import PolicyError

GIB = 1 << 30


def target(engine="vllm-0.33", **settings):
    return Target(engine, **{"cpu_bytes": 4 * GIB, **settings})


def export(path, wanted=None, **changes):
    return export_tuned(read_tuned(tuned_file(path, **changes)), wanted or target())


def test_what_is_to_be_deployed(tmp_path):
    made = export(tmp_path / "t", target(model="org/model", block_tokens=32))
    extra = made.kv_transfer_config["kv_connector_extra_config"]
    assert extra == {
        "cpu_bytes_to_use": 4 * GIB,
        "block_size": 512,
        "spec_name": "HotsetOffloadingSpec",
        "spec_module_path": "hotset.adapter.spec",
        "hotset": {
            "policy": {"name": "guard", "distance": 104, "growth": 5.22},
            "admission": {"name": "always"},
        },
    }
    words = shlex.split(made.serve)
    assert words[:5] == ["vllm", "serve", "org/model", "--block-size", "32"]
    assert words[5] == "--kv-transfer-config"
    assert json.loads(words[6]) == made.kv_transfer_config == json.loads(made.json)
    assert made.notes[0] == "verdict deploy: it gains much"


def test_other_verdicts(tmp_path):
    kept = export(tmp_path / "t", verdict="keep-lru")
    assert kept.kv_transfer_config["kv_connector_extra_config"] == {
        "cpu_bytes_to_use": 4 * GIB,
        "block_size": 512,
    }
    none = export(tmp_path / "t", verdict="offload-does-not-pay")
    assert none.json == "null"
    assert none.serve == "vllm serve MODEL --block-size 16"
    for verdict in ("keep-lru", "offload-does-not-pay"):
        forced = export(tmp_path / "t", target(ignore_verdict=True), verdict=verdict)
        extra = forced.kv_transfer_config["kv_connector_extra_config"]
        assert extra["hotset"]["policy"]["name"] == "guard"


def test_bytes_come_from_the_file_or_the_target(tmp_path):
    def size(made):
        return made.kv_transfer_config["kv_connector_extra_config"]["cpu_bytes_to_use"]

    assert size(export(tmp_path / "t", target(cpu_bytes=None), cpu_bytes=77)) == 77
    assert size(export(tmp_path / "t", cpu_bytes=77)) == 4 * GIB
    with pytest.raises(PolicyError, match="--cpu"):
        export(tmp_path / "t", target(cpu_bytes=None))


THRESHOLD = {"name": "threshold", "min_count": 2}


@pytest.mark.parametrize(
    ("engine", "settings", "changes", "said"),
    [
        ("vllm-0.21", {}, {}, "allowed are vllm-0.22 to vllm-0.33"),
        ("vllm-0.34", {}, {}, "allowed are vllm-0.22 to vllm-0.33"),
        ("sglang", {}, {}, "allowed are vllm-0.22"),
        ("vllm-0.33", {"block_tokens": 48}, {}, "no whole number of GPU blocks"),
        ("vllm-0.28", {}, {"engine": "vllm-0.30", "admission": THRESHOLD},
         "tune for this engine"),
        ("vllm-0.30", {}, {"engine": "vllm-0.24", "admission": THRESHOLD},
         "tune for this engine"),
        ("vllm-0.26", {"form": "policy"}, {"policy": {"name": "marconi"}},
         "which came with 0.28"),
        ("vllm-0.33", {"form": "policy"}, {"policy": {"name": "guard"}},
         "guard refuses blocks"),
        ("vllm-0.33", {"form": "policy"}, {"policy": {"name": "marconi", "decay": 1}},
         "a policy by name has its default parameters"),
        ("vllm-0.33", {}, {"policy": {"name": "belady"}}, "cannot run in a server"),
        ("vllm-0.33", {}, {"policy": {"name": "gard"}}, "did you mean 'guard'"),
    ],
)  # fmt: skip
def test_what_this_vllm_refuses(engine, settings, changes, said, tmp_path):
    with pytest.raises(PolicyError, match=said):
        export(tmp_path / "t", target(engine, **settings), **changes)


def test_another_engine_with_the_same_rules_is_only_noted(tmp_path):
    made = export(tmp_path / "t", engine="vllm-0.30", admission=THRESHOLD)
    assert "tuned for vllm-0.30, exported for vllm-0.33" in made.notes


def test_a_policy_by_name(tmp_path):
    made = export(
        tmp_path / "t", target(form="policy"), policy={"name": "sieve"},
        admission=THRESHOLD,
    )  # fmt: skip
    extra = made.kv_transfer_config["kv_connector_extra_config"]
    assert extra["eviction_policy"] == "hotset-sieve"
    assert extra["store_threshold"] == 2
    assert extra["max_tracker_size"] == 64_000
    assert "spec_name" not in extra


def extra_of(made):
    """The part that the adapter reads, and what it makes of it."""
    extra = made.kv_transfer_config["kv_connector_extra_config"]
    return extra, read_config(extra, {})


def test_a_tuned_ssd_tier_is_what_the_server_gets(tmp_path):
    made = export(
        tmp_path / "t", target(cpu_bytes=None, ssd_path="/mnt/kv"), ssd=TUNED_SSD,
        cpu_bytes=5 << 30,
    )  # fmt: skip
    extra, config = extra_of(made)
    assert extra["cpu_bytes_to_use"] == 1 << 30  # what is left of it
    assert config.ssd.path == "/mnt/kv"
    assert config.ssd.max_bytes == 100 << 30
    assert config.ssd.writes_per_day_bytes == 2 * 10**12
    assert config.ssd.describe().endswith(
        "demote, policy guard:distance=104,growth=5.22, admission "
        "threshold:min_count=3,count=lookup, 2000000000000 bytes written a day"
    )
    assert not made.serve.startswith("PYTHONHASHSEED")
    old = export(tmp_path / "t", target("vllm-0.28"), ssd=TUNED_SSD)
    assert old.serve.startswith("PYTHONHASHSEED=0 vllm serve ")


def test_an_ssd_tier_and_other_verdicts(tmp_path):
    made = export(
        tmp_path / "t", target(cpu_bytes=None, ssd_path="/mnt/kv"), ssd=TUNED_SSD,
        cpu_bytes=5 << 30, verdict="keep-lru",
    )  # fmt: skip
    extra, config = extra_of(made)
    assert extra["cpu_bytes_to_use"] == 5 << 30
    assert (config.policy.name, config.ssd.choice.policy.name) == ("lru", "lru")
    assert (config.ssd.mode, config.ssd.max_bytes) == ("write-through", 40 << 30)
    assert config.ssd.choice.admission.name == "always"
    none = export(tmp_path / "t", ssd=TUNED_SSD, verdict="offload-does-not-pay")
    assert none.json == "null"


def test_a_folder_that_nobody_named_is_not_served(tmp_path):
    made = export(tmp_path / "t", ssd=TUNED_SSD)
    path = extra_of(made)[1].ssd.path
    assert any(note.startswith("--ssd-path: not given: put a") for note in made.notes)
    with pytest.raises(AdapterError, match="No such file"):
        Quota(OsFiles(), path, 1 << 30, 0)


@pytest.mark.parametrize(
    ("settings", "changes", "said"),
    [
        ({"form": "policy"}, {"ssd": TUNED_SSD, "policy": {"name": "sieve"}},
         "an SSD tier needs hotset's spec"),
        ({"ssd_path": "/mnt"}, {}, "--ssd-path: the file has no SSD tier"),
        ({"ssd_path": "/mnt"}, {"verdict": "keep-lru"}, "has no SSD tier"),
        ({}, {"ssd": {"bytes": 1 << 30}}, "\"ssd\" is incomplete"),
        ({}, {"ssd": {**TUNED_SSD, "bytes": "many"}}, "\"max_bytes\" is 'many'"),
        ({}, {"ssd": [1]}, "\"ssd\" is \\[1\\]: an object"),
    ],
)  # fmt: skip
def test_ssd_tiers_that_are_refused(settings, changes, said, tmp_path):
    with pytest.raises(PolicyError, match=said):
        export(tmp_path / "t", target(**settings), **changes)


def test_marconis_second_tier():
    found = translate(OLD_MARCONI, "old")
    extra, config = extra_of(export_translated(found, target(cpu_bytes=None)))
    assert config.ssd.path == "/kvcache/l2/hotset"
    assert (config.ssd.max_bytes, config.ssd.mode) == (322122547200, "demote")
    assert config.ssd.choice.describe() == config.choice.describe()
    moved, config = extra_of(export_translated(found, target(ssd_path="/mnt/kv")))
    assert config.ssd.path == "/mnt/kv"
    del moved["hotset"]["ssd"]["path"], extra["hotset"]["ssd"]["path"]
    assert moved["hotset"] == extra["hotset"]


def test_marconis_admission_is_that_of_its_first_tier():
    given = OLD_MARCONI["kv_connector_extra_config"]
    old = {"kv_connector_extra_config": {**given, "admission_threshold": 3}}
    _, config = extra_of(export_translated(translate(old, "old"), target()))
    assert config.params.admission_threshold == 3
    assert config.ssd.choice.params.admission_threshold == 1
    lru = {"kv_connector_extra_config": {**given, "eviction_policy": "lru"}}
    _, config = extra_of(export_translated(translate(lru, "old"), target()))
    assert config.ssd.choice.describe() == "policy lru, admission always"


@pytest.mark.parametrize(
    "change", [{"l2_pool_path": None}, {"l2_bytes_to_use": 0}, {"l2_bytes_to_use": -1}]
)
def test_half_of_a_second_tier_is_none(change):
    given = {**OLD_MARCONI["kv_connector_extra_config"], **change}
    found = translate({"kv_connector_extra_config": given}, "old")
    assert found.ssd is None
    assert any(note.startswith("l2_bytes_to_use: dropped") for note in found.notes)


@pytest.mark.parametrize("old", [OLD_EVOKE, OLD_MARCONI])
def test_every_key_of_an_old_configuration_is_named(old):
    notes = translate(old, "old.json").notes
    named = {note.split(": ")[0] for note in notes}
    keys = set(old) - {"kv_connector_extra_config"}
    for key, value in old["kv_connector_extra_config"].items():
        if key == "evoke":
            keys |= {f"evoke.{name}" for name in value if name != "source_floors"}
            keys |= {f"evoke.source_floors.{name}" for name in value["source_floors"]}
        else:
            keys.add(key)
    assert keys <= named
    for note in notes:
        if ": dropped" in note:
            assert len(note.split(": dropped: ")[1]) > 10


def test_evoke_runs_what_the_adapter_reads_from_its_own_key():
    made = export_translated(translate(OLD_EVOKE, "old"), target(cpu_bytes=None))
    extra = made.kv_transfer_config["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == 34359738368
    assert extra["offload_prompt_only"] is True
    assert "unheard_of" not in extra
    ours = read_config(extra, {})
    theirs = read_config(OLD_EVOKE["kv_connector_extra_config"], {})
    assert ours == theirs
    assert ours.params.floor_assistant == 0.0
    assert ours.admission_params.min_count == 2


def test_marconi_scores_alike():
    made = export_translated(translate(OLD_MARCONI, "old"), target(cpu_bytes=None))
    extra = made.kv_transfer_config["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == 6442450944
    config = read_config(extra, {})
    assert config.describe() == "policy marconi:decay=0.005, admission always"


def test_marconis_lru_keeps_its_admission():
    old = {"kv_connector": "SimpleCPUOffloadConnector",
           "kv_connector_extra_config": {"admission_threshold": 3,
                                         "eviction_decay": 0.1}}  # fmt: skip
    found = translate(old, "old")
    made = export_translated(found, target())
    config = read_config(made.kv_transfer_config["kv_connector_extra_config"], {})
    assert config.describe() == "policy lru, admission threshold:min_count=3"
    assert "eviction_decay: dropped: lru has no scores" in found.notes
    assert any(note.startswith("eviction_policy: not given") for note in found.notes)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ([], "an object is needed"),
        ({"kv_connector": "LMCacheConnectorV1"}, "neither a configuration of"),
        ({"evoke": {"w_recency": "much", "w_reus": 1}}, "a number is needed"),
        ({"eviction_decay": -1, "eviction_policy": "marconi"}, "0 to 100"),
        ({"eviction_decay": 0, "admission_threshold": "x"}, "a whole number is needed"),
        ({"eviction_decay": 0, "l2_bytes_to_use": "1T"}, "whole number of bytes"),
        ({"eviction_decay": 0, "l2_pool_path": 7}, "l2_pool_path is 7: a folder"),
    ],
)
def test_old_configurations_that_are_wrong(old, said):
    with pytest.raises(PolicyError, match=said):
        translate(old, "old.json")


def test_a_server_takes_the_file_as_it_is(tmp_path):
    path = tuned_file(tmp_path / "t", admission=THRESHOLD)
    config = read_config({"hotset": {"policy_file": path}}, {})
    assert config.policy.label(config.params) == "guard:distance=104,growth=5.22"
    assert config.admission.name == "threshold"
    assert "deploy: it gains much" in config.describe()
    kept = tuned_file(tmp_path / "t", verdict="keep-lru", admission=THRESHOLD)
    config = read_config({"hotset": {"policy_file": kept}}, {})
    assert config.policy.name == "lru"
    assert config.admission.name == "always"
    assert "keep-lru: it gains much" in config.describe()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "no JSON"),
        ("[]", "not a file of hotset tune"),
        ('{"format": "hotset-tuned", "version": 2}', "version 2: allowed is 1"),
        ('{"format": "hotset-tuned", "version": 1}', "incomplete"),
    ],
)
def test_files_that_a_server_refuses(content, said, tmp_path):
    path = tmp_path / "t.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PolicyError, match=said) as raised:
        read_config({"hotset": {"policy_file": str(path)}}, {})
    assert len(str(raised.value).splitlines()) == 1


def test_a_file_and_a_policy_exclude_each_other(tmp_path):
    path = tuned_file(tmp_path / "t")
    with pytest.raises(PolicyError, match="both choose"):
        read_config({"hotset": {"policy_file": path, "policy": "lru"}}, {})
