"""What a model keeps for each token and each prompt, from its ``config.json``.

Layers of three kinds: attention, whose K and V (or joint latent) grow by the token;
attention over a sliding window, which offloading stores just the same, block by block;
and layers with a state (Mamba, gated linear attention), which keep one state of fixed
size, saved once a block.

Tensor parallel ranks share out attention heads evenly, and KV heads; where there are
more ranks than KV heads, each is kept several times. A joint latent is kept whole by
each rank; where a model has nothing else, the tier of vLLM 0.28 and later holds it
once. States are shared out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotset.policies.errors import PolicyError

DTYPE_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}

FULL, SLIDING, STATE = "full attention", "sliding window", "state"
_KINDS = {
    "full_attention": FULL,
    "attention": FULL,
    "sliding_attention": SLIDING,
    "linear_attention": STATE,
    "mamba": STATE,
}
# Keys of layouts that are not known here: what they say would be passed over.
_NOT_KNOWN = (
    "attn_type_list",
    "attention_chunk_size",
    "block_configs",
    "block_types",
    "full_attn_idxs",
    "global_head_dim",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "index_head_dim",
    "linear_attn_config",
    "multi_query",
    "new_decoder_architecture",
    "num_global_key_value_heads",
    "num_kv_heads",
    "num_kv_shared_layers",
    "swa_num_key_value_heads",
)
# Every how many layers one is full, where a model has no list of its layers.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6}
_MOST, _MOST_LAYERS = 10**9, 10_000
_OF_STATES = ("mamba_", "ssm_", "linear_conv_")  # how keys of such layers begin


@dataclass(frozen=True)
class Layers:
    """Layers of one kind.

    Parameters
    ----------
    kind : str
        `FULL`, `SLIDING` or `STATE`.
    count : int
        How many.
    values : int
        Of a token, or of a state, in one layer of one rank.
    arithmetic : str
        How the values were worked out.
    window_tokens : int
        Of a sliding window, 0 for the rest.
    is_latent : bool
        Whether every rank keeps the same.
    """

    kind: str
    count: int
    values: int
    arithmetic: str
    window_tokens: int = 0
    is_latent: bool = False


@dataclass(frozen=True)
class KvLayout:
    """What one rank keeps.

    Parameters
    ----------
    layers : tuple of Layers
        By kind.
    value_bytes : int
        Bytes of a value of K, V or a latent.
    ranks : int
        Tensor parallel ranks.
    state_value_bytes : int
        Bytes of a value of a state, which has the model's type whatever the cache's.
    """

    layers: tuple[Layers, ...]
    value_bytes: int
    ranks: int
    state_value_bytes: int = 0

    def value_bytes_of(self, group: Layers) -> int:
        """Return the bytes of a value of some layers."""
        return self.state_value_bytes if group.kind == STATE else self.value_bytes

    @property
    def rank_bytes_per_token(self) -> int:
        """Bytes of a token in one rank, all attention layers."""
        return self.value_bytes * sum(
            group.count * group.values for group in self.layers if group.kind != STATE
        )

    @property
    def rank_bytes_per_state(self) -> int:
        """Bytes of the states of a prompt in one rank, all layers that have one."""
        return self.state_value_bytes * sum(
            group.count * group.values for group in self.layers if group.kind == STATE
        )

    @property
    def copies(self) -> int:
        """How many ranks' parts a tier holds: one where all ranks keep the same."""
        return 1 if all(group.is_latent for group in self.layers) else self.ranks

    def rank_block_bytes(self, tokens: int) -> int:
        """Return the bytes of a block of that many tokens in one rank."""
        return tokens * self.rank_bytes_per_token + self.rank_bytes_per_state

    def block_bytes(self, tokens: int) -> int:
        """Return the bytes of a block of that many tokens in a tier."""
        return self.rank_block_bytes(tokens) * self.copies


def read_layout(path: Path, ranks: int = 1, dtype: str | None = None) -> KvLayout:
    """Read a model's layout.

    Parameters
    ----------
    path : Path
        A ``config.json``.
    ranks : int
        Tensor parallel ranks.
    dtype : str, optional
        Of the KV cache; that of the model if absent.

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
    if ranks < 1:
        raise PolicyError(f"--tp {ranks}: at least 1 is needed")
    reader = _Reader(path, model, config, ranks)
    layers = reader.layers()
    has_states = any(group.kind == STATE for group in layers)
    states = reader.value_bytes(None) if has_states else 0
    return KvLayout(layers, reader.value_bytes(dtype), ranks, states)


class _Reader:
    def __init__(
        self, path: Path, model: Mapping[str, Any], whole: Mapping[str, Any], ranks: int
    ) -> None:
        self._path = path
        self._model = model
        self._whole = whole
        self._ranks = ranks

    def layers(self) -> tuple[Layers, ...]:
        """Return the layers by kind, in the order of `_KINDS`."""
        kinds = self._kinds()
        if self._model.get("num_attention_heads") is not None:
            # vLLM refuses to start otherwise, however KV heads are shared out.
            heads = self._number("num_attention_heads")
            self._divided(heads, "num_attention_heads")
        found = []
        for kind in (FULL, SLIDING, STATE):
            count = kinds.count(kind)
            if count:
                values, arithmetic = self._state() if kind == STATE else self._token()
                window = self._number("sliding_window") if kind == SLIDING else 0
                is_latent = kind != STATE and self._has_latent
                made = Layers(kind, count, values, arithmetic, window, is_latent)
                found.append(made)
        return tuple(found)

    def value_bytes(self, dtype: str | None) -> int:
        """Return the bytes of a value of the KV cache."""
        if dtype is not None and dtype != "auto":
            if dtype not in DTYPE_BYTES:
                known = ", ".join(["auto", *DTYPE_BYTES])
                raise PolicyError(f"--kv-dtype {dtype}: known are {known}")
            return DTYPE_BYTES[dtype]
        for config in (self._model, self._whole):
            said = config.get("dtype") or config.get("torch_dtype")
            if said is not None:
                break
        if not isinstance(said, str) or said not in DTYPE_BYTES:
            raise self._wrong(
                f"dtype is {said!r}, known: {', '.join(DTYPE_BYTES)}; "
                "--kv-dtype says it otherwise"
            )
        return DTYPE_BYTES[said]

    # Kinds of layers

    def _kinds(self) -> list[str]:
        self._refuse_what_is_not_known()
        model, count = self._model, self._number("num_hidden_layers")
        said = model.get("layer_types") or model.get("layers_block_type")
        if said is not None:
            if not isinstance(said, list) or len(said) != count:
                raise self._wrong(
                    f"layer_types is {_shortly(said)}, a list of {count} is needed"
                )
            for name in said:
                if not isinstance(name, str) or name not in _KINDS:
                    raise self._wrong(
                        f"a layer of type {name!r}, known: {', '.join(_KINDS)}"
                    )
            return [_KINDS[name] for name in said]
        if "attn_layer_period" in model:
            period = self._number("attn_layer_period")
            offset = self._number("attn_layer_offset", 0, least=0)
            return [FULL if i % period == offset else STATE for i in range(count)]
        if model.get("attn_layer_indices") is not None:
            at = model["attn_layer_indices"]
            if not isinstance(at, list):
                raise self._wrong(f"attn_layer_indices is {_shortly(at)}, not a list")
            return [FULL if i in at else STATE for i in range(count)]
        if model.get("full_attention_interval") is not None:
            every = self._number("full_attention_interval")
            return [STATE if (i + 1) % every else FULL for i in range(count)]
        if any(str(key).startswith(_OF_STATES) for key in model):
            raise self._wrong("it has layers with a state and does not say which")
        if not model.get("sliding_window") or not model.get("use_sliding_window", True):
            return [FULL] * count
        return self._sliding_kinds(count)

    def _sliding_kinds(self, count: int) -> list[str]:
        """Return the layers of a model with a window and without a list of them."""
        model = self._model
        every = model.get("sliding_window_pattern")
        every = _FULL_EVERY.get(str(model.get("model_type")), every)
        if every is not None:
            every = self._number("sliding_window_pattern", every)
            return [SLIDING if (i + 1) % every else FULL for i in range(count)]
        if model.get("max_window_layers") is not None:
            first = self._number("max_window_layers", least=0)
            return [SLIDING if i >= first else FULL for i in range(count)]
        return [SLIDING] * count

    def _refuse_what_is_not_known(self) -> None:
        model = self._model
        found = [key for key in _NOT_KNOWN if model.get(key)]
        wide = model.get("v_head_dim")
        if wide and not self._has_latent and wide != model.get("head_dim"):
            found.append("v_head_dim")
        if found:
            raise self._wrong(f"its layout is not known here: {', '.join(found)}")

    # Values of a layer

    @property
    def _has_latent(self) -> bool:
        return self._model.get("kv_lora_rank") is not None

    def _token(self) -> tuple[int, str]:
        if self._has_latent:
            latent, rope = (
                self._number("kv_lora_rank"),
                self._number("qk_rope_head_dim"),
            )
            return latent + rope, f"a latent of {latent} + {rope} values"
        heads = self._number("num_attention_heads")
        kv_heads = self._number("num_key_value_heads", heads)
        size = self._number("head_dim", self._number("hidden_size", heads) // heads)
        if size < 1:
            raise self._wrong(f"{heads} attention heads are more than hidden_size")
        here = self._share(kv_heads, "num_key_value_heads")
        return 2 * here * size, f"K and V of {here} heads of {size} values"

    def _state(self) -> tuple[int, str]:
        if "linear_num_value_heads" in self._model:
            return self._gated_linear()
        if "mamba_n_heads" in self._model:
            return self._mamba_2()
        inner = self._number("mamba_expand") * self._number("hidden_size")
        here = self._divided(inner, "the inner size")
        kept, size = self._number("mamba_d_conv") - 1, self._number("mamba_d_state")
        return here * (kept + size), f"{here} channels of {kept} inputs + {size} states"

    def _mamba_2(self) -> tuple[int, str]:
        heads = self._divided(self._number("mamba_n_heads"), "mamba_n_heads")
        head, size = self._number("mamba_d_head"), self._number("mamba_d_state")
        groups = self._share(self._number("mamba_n_groups", 1), "mamba_n_groups")
        channels = heads * head + 2 * groups * size
        kept = self._number("mamba_d_conv") - 1
        return (
            channels * kept + heads * head * size,
            f"{channels} channels of {kept} inputs + {heads} heads of {head} x {size}",
        )

    def _gated_linear(self) -> tuple[int, str]:
        keys = self._share(self._number("linear_num_key_heads"), "linear_num_key_heads")
        values = self._divided(
            self._number("linear_num_value_heads"), "linear_num_value_heads"
        )
        key, value = (
            self._number("linear_key_head_dim"),
            self._number("linear_value_head_dim"),
        )
        channels = 2 * keys * key + values * value
        kept = self._number("linear_conv_kernel_dim") - 1
        return (
            channels * kept + values * key * value,
            f"{channels} channels of {kept} inputs + {values} heads of {key} x {value}",
        )

    # Reading

    def _share(self, heads: int, what: str) -> int:
        """Return a rank's heads: some of them, or one that others have as well."""
        if heads % self._ranks and self._ranks % heads:
            raise self._wrong(f"{heads} {what} cannot be shared out to {self._ranks}")
        return max(heads // self._ranks, 1)

    def _divided(self, number: int, what: str) -> int:
        if number % self._ranks:
            said = f"{what}, {number}, cannot be shared out to {self._ranks}"
            raise self._wrong(said)
        return number // self._ranks

    def _number(self, key: str, default: int | None = None, least: int = 1) -> int:
        value = self._model.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(
                f"{key} is {value!r}, a whole number from {least} on is needed"
            )
        most = _MOST_LAYERS if key == "num_hidden_layers" else _MOST
        if value > most:
            raise self._wrong(f"{key} is {value}, allowed is at most {most}")
        return value

    def _wrong(self, what: str) -> PolicyError:
        return PolicyError(f"--model {self._path}: {what}")


def _shortly(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
