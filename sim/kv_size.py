"""KV cache bytes of a token, from a model's Hugging Face ``config.json``.

Known layouts: one K and one V of ``num_key_value_heads * head_dim`` in each layer
(multi-head, grouped-query and multi-query attention), and the joint latent of
multi-head latent attention. Models whose layers differ (sliding windows, state-space
layers) are refused: their bytes do not grow by the token alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotset.policies.errors import PolicyError

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1}


def kv_bytes_per_token(path: Path) -> int:
    """Return the KV cache bytes of a token over all ranks and layers.

    Parameters
    ----------
    path : Path
        A ``config.json``.

    Raises
    ------
    PolicyError
        If the file cannot be read or its layout is not known.
    """
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not JSON"
        raise PolicyError(f"--model {path}: {reason}") from None
    if not isinstance(config, dict):
        raise PolicyError(f"--model {path}: not a JSON object")
    model = config.get("text_config", config)
    if not isinstance(model, dict):
        raise PolicyError(f"--model {path}: text_config is not a JSON object")
    return _Layout(path, model, config).bytes_per_token()


class _Layout:
    def __init__(
        self, path: Path, model: Mapping[str, Any], whole: Mapping[str, Any]
    ) -> None:
        self._path = path
        self._model = model
        self._whole = whole

    def bytes_per_token(self) -> int:
        self._refuse_mixed_layers()
        layers = self._number("num_hidden_layers")
        if "kv_lora_rank" in self._model:
            values = self._number("kv_lora_rank") + self._number("qk_rope_head_dim")
        else:
            heads = self._number("num_attention_heads")
            kv_heads = self._number("num_key_value_heads", heads)
            head_dim = self._number(
                "head_dim", self._number("hidden_size", heads) // heads
            )
            values = 2 * kv_heads * head_dim
        return layers * values * self._value_bytes()

    def _refuse_mixed_layers(self) -> None:
        model = self._model
        layer_types = model.get("layer_types") or []
        if not isinstance(layer_types, list):
            layer_types = [layer_types]
        kinds = {str(kind) for kind in layer_types} - {"full_attention"}
        kinds |= {key for key in ("layers_block_type", "mamba_d_state") if key in model}
        if model.get("sliding_window") and model.get("use_sliding_window", True):
            kinds.add("sliding_window")
        if kinds:
            raise PolicyError(
                f"--model {self._path}: layers differ ({', '.join(sorted(kinds))}), so "
                "give --kv-bytes-per-token"
            )

    def _number(self, key: str, default: int | None = None) -> int:
        value = self._model.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise PolicyError(
                f"--model {self._path}: {key} is {value!r}, a whole number from 1 on "
                "is needed"
            )
        return value

    def _value_bytes(self) -> int:
        for config in (self._model, self._whole):
            dtype = config.get("dtype") or config.get("torch_dtype")
            if dtype is not None:
                break
        if not isinstance(dtype, str) or dtype not in _BYTES:
            raise PolicyError(
                f"--model {self._path}: dtype is {dtype!r}, known: {', '.join(_BYTES)}"
            )
        return _BYTES[dtype]
