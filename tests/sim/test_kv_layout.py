"""Layouts against sums by hand.

The configurations are the defaults of transformers' configuration classes (5.x):
MixtralConfig, DeepseekV3Config, Gemma3TextConfig, Qwen3NextConfig, JambaConfig; and
BambaConfig with the attention layers of Bamba-9B.
"""

import json

import pytest

from hotset.policies.errors import PolicyError
from hotset.sim.kv_layout import FULL, SLIDING, STATE, read_layout

MIXTRAL = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "sliding_window": None,
}
DEEPSEEK_V3 = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
GEMMA_3 = {
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_size": 2304,
    "sliding_window": 4096,
    "layer_types": [
        "full_attention" if i % 6 == 5 else "sliding_attention" for i in range(26)
    ],
}
QWEN_3_NEXT = {
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "hidden_size": 2048,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "layer_types": [
        "full_attention" if i % 4 == 3 else "linear_attention" for i in range(48)
    ],
}
JAMBA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
BAMBA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "attn_layer_indices": [9, 18, 27],
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
}
BF16 = 2


def layout(config, tmp_path, ranks=1, dtype="bfloat16"):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"dtype": "bfloat16", **config}))
    return read_layout(path, ranks, dtype)


# Bytes of a token and of a state in one rank.
QWEN_STATE = (2 * 16 * 128 + 32 * 128) * 3 + 32 * 128 * 128
JAMBA_STATE = 8192 * (3 + 16)
BAMBA_STATE = (128 * 64 + 2 * 256) * 3 + 128 * 64 * 256


@pytest.mark.parametrize(
    ("config", "ranks", "kinds", "token", "state"),
    [
        (MIXTRAL, 1, [(FULL, 32)], 32 * 2 * 8 * 128 * BF16, 0),
        (MIXTRAL, 2, [(FULL, 32)], 32 * 2 * 4 * 128 * BF16, 0),
        (MIXTRAL, 16, [(FULL, 32)], 32 * 2 * 1 * 128 * BF16, 0),  # heads kept twice
        (DEEPSEEK_V3, 1, [(FULL, 61)], 61 * (512 + 64) * BF16, 0),
        (DEEPSEEK_V3, 8, [(FULL, 61)], 61 * (512 + 64) * BF16, 0),
        (GEMMA_3, 1, [(FULL, 4), (SLIDING, 22)], 26 * 2 * 4 * 256 * BF16, 0),
        (GEMMA_3, 4, [(FULL, 4), (SLIDING, 22)], 26 * 2 * 1 * 256 * BF16, 0),
        (
            QWEN_3_NEXT,
            1,
            [(FULL, 12), (STATE, 36)],
            12 * 2 * 2 * 256 * BF16,
            36 * QWEN_STATE * BF16,
        ),
        (
            QWEN_3_NEXT,
            2,
            [(FULL, 12), (STATE, 36)],
            12 * 2 * 1 * 256 * BF16,
            36 * QWEN_STATE * BF16 // 2,
        ),
        (
            JAMBA,
            1,
            [(FULL, 4), (STATE, 28)],
            4 * 2 * 8 * 128 * BF16,
            28 * JAMBA_STATE * BF16,
        ),
        (
            BAMBA,
            1,
            [(FULL, 3), (STATE, 29)],
            3 * 2 * 8 * 128 * BF16,
            29 * BAMBA_STATE * BF16,
        ),
    ],
)
def test_bytes_by_hand(config, ranks, kinds, token, state, tmp_path):
    found = layout(config, tmp_path, ranks)
    assert [(group.kind, group.count) for group in found.layers] == kinds
    assert found.rank_bytes_per_token == token
    assert found.rank_bytes_per_state == state
    copies = 1 if config is DEEPSEEK_V3 else ranks
    assert found.copies == copies
    assert found.rank_block_bytes(16) == 16 * token + state
    assert found.block_bytes(16) == copies * (16 * token + state)


def test_numbers_that_are_known_by_heart(tmp_path):
    """131,072 bytes a token of 8 heads of 128 in 32 layers; 70,272 of a latent."""
    assert layout(MIXTRAL, tmp_path).rank_bytes_per_token == 131_072
    assert layout(MIXTRAL, tmp_path, dtype="fp8").rank_bytes_per_token == 65_536
    assert layout(DEEPSEEK_V3, tmp_path).rank_bytes_per_token == 70_272
    assert layout(GEMMA_3, tmp_path).rank_bytes_per_token == 106_496
    qwen = layout(QWEN_3_NEXT, tmp_path)
    assert qwen.rank_bytes_per_token == 24_576
    assert qwen.rank_bytes_per_state == 39_518_208


@pytest.mark.parametrize(
    ("config", "ranks", "said"),
    [
        (MIXTRAL, 3, "num_attention_heads, 32, cannot be shared out to 3"),
        (
            {**MIXTRAL, "num_key_value_heads": 16, "num_attention_heads": 48},
            24,
            "16 num_key_value_heads cannot be shared out to 24",
        ),
        # KV heads would fit: vLLM asks for attention heads, of latents as well.
        (
            {**MIXTRAL, "num_attention_heads": 12, "num_key_value_heads": 8},
            8,
            "num_attention_heads, 12, cannot be shared out to 8",
        ),
        (DEEPSEEK_V3, 3, "num_attention_heads, 128, cannot be shared out to 3"),
        (MIXTRAL, 0, "--tp 0: at least 1"),
        (
            {**QWEN_3_NEXT, "num_attention_heads": 64},
            64,
            "linear_num_value_heads, 32, cannot be shared out to 64",
        ),
        ({**JAMBA, "attn_layer_period": None}, 1, "attn_layer_period is None"),
        ({**BAMBA, "attn_layer_indices": None}, 1, "does not say which"),
        ({**BAMBA, "attn_layer_indices": 9}, 1, "attn_layer_indices is 9, not a list"),
        ({**GEMMA_3, "layer_types": ["full_attention"]}, 1, "a list of 26 is needed"),
        ({**GEMMA_3, "layer_types": ["odd"] * 26}, 1, "a layer of type 'odd'"),
        ({**GEMMA_3, "sliding_window": None}, 1, "sliding_window is None"),
        ({**MIXTRAL, "ssm_state_size": 128}, 1, "does not say which"),
        ({**MIXTRAL, "multi_query": True}, 1, "not known here: multi_query"),
        ({**MIXTRAL, "num_kv_heads": 8}, 1, "not known here: num_kv_heads"),
        ({**DEEPSEEK_V3, "index_head_dim": 128}, 1, "not known here: index_head_dim"),
        ({**MIXTRAL, "head_dim": 192, "v_head_dim": 128}, 1, "here: v_head_dim"),
        ({**GEMMA_3, "num_kv_shared_layers": 15}, 1, "num_kv_shared_layers"),
    ],
)
def test_what_cannot_be_known_is_refused(config, ranks, said, tmp_path):
    with pytest.raises(PolicyError) as raised:
        layout(config, tmp_path, ranks)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_type_of_the_cache(tmp_path):
    assert layout({**MIXTRAL, "dtype": "float32"}, tmp_path, 1, None).value_bytes == 4
    assert layout(MIXTRAL, tmp_path, 1, "auto").value_bytes == 2
    assert layout(MIXTRAL, tmp_path, 1, "fp8_e4m3").value_bytes == 1
    with pytest.raises(PolicyError, match="--kv-dtype says it otherwise"):
        layout({**MIXTRAL, "dtype": None}, tmp_path, 1, None)
    with pytest.raises(PolicyError, match="--kv-dtype int4: known are"):
        layout(MIXTRAL, tmp_path, 1, "int4")


def test_a_state_keeps_the_type_of_the_model(tmp_path):
    plain = layout(JAMBA, tmp_path)
    small = layout(JAMBA, tmp_path, dtype="fp8")
    assert small.rank_bytes_per_token == plain.rank_bytes_per_token // 2
    assert small.rank_bytes_per_state == plain.rank_bytes_per_state


def kinds(config, tmp_path):
    return [(group.kind, group.count) for group in layout(config, tmp_path).layers]


def test_layers_without_a_list_of_them(tmp_path):
    gemma = {k: v for k, v in GEMMA_3.items() if k != "layer_types"}
    half = {**gemma, "model_type": "gemma2"}
    assert kinds(half, tmp_path) == [(FULL, 13), (SLIDING, 13)]
    sixth = {**gemma, "model_type": "gemma3_text"}
    assert kinds(sixth, tmp_path) == [(FULL, 4), (SLIDING, 22)]
    said = {**gemma, "sliding_window_pattern": 6}
    assert kinds(said, tmp_path) == [(FULL, 4), (SLIDING, 22)]
    qwen_2 = {**gemma, "use_sliding_window": True, "max_window_layers": 20}
    assert kinds(qwen_2, tmp_path) == [(FULL, 20), (SLIDING, 6)]
    next_ = {k: v for k, v in QWEN_3_NEXT.items() if k != "layer_types"}
    every_fourth = {**next_, "full_attention_interval": 4}
    assert kinds(every_fourth, tmp_path) == [(FULL, 12), (STATE, 36)]
