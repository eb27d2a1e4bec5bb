"""Sizes against hand-computed numbers; layouts that are not known are refused."""

import json

import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.kv_size import kv_bytes_per_token

GQA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}
MLA = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "hidden_size": 7168,
    "dtype": "bfloat16",
}


def size(config, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return kv_bytes_per_token(path)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (GQA, 32 * 2 * 8 * 128 * 2),
        ({**GQA, "num_key_value_heads": None}, 32 * 2 * 32 * 128 * 2),
        ({**GQA, "head_dim": 256}, 32 * 2 * 8 * 256 * 2),
        ({**GQA, "torch_dtype": "float8_e4m3fn"}, 32 * 2 * 8 * 128),
        (MLA, 61 * (512 + 64) * 2),
        ({"text_config": GQA, "vision_config": {}}, 32 * 2 * 8 * 128 * 2),
        ({**GQA, "sliding_window": 4096, "use_sliding_window": False}, 131072),
        ({**GQA, "layer_types": ["full_attention"] * 32}, 131072),
    ],
)
def test_bytes_of_a_token(config, expected, tmp_path):
    assert size(config, tmp_path) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sliding_window": 4096}, "sliding window"),
        ({"layer_types": ["full_attention"] * 31 + ["odd"]}, "of type 'odd'"),
        ({"mamba_d_state": 16}, "does not say which"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers is '32'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"torch_dtype": "int4"}, "dtype is 'int4'"),
        ({"torch_dtype": ["x"]}, "dtype is"),
        ({"layer_types": 5}, "layer_types is 5"),
        ({"layer_types": [[1], 2]}, "a list of 32"),
    ],
)
def test_refused(change, said, tmp_path):
    with pytest.raises(PolicyError, match=said):
        size({**GQA, **change}, tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"text_config": 3}', "[" * 100_000])
def test_no_config(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(PolicyError, match=r"config\.json"):
        kv_bytes_per_token(path)
