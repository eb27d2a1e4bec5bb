"""Text to block ids: tokens of a model's tokenizer, hashed in chains.

The id of a block stands for its tokens and all before it, as in vLLM's prefix
cache: a hash over the hash of the block before and the block's own tokens. The
text and the tokens are let go as soon as their hashes are known.
"""

import json
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from hotset.traces.errors import ArgumentError, show
from hotset.traces.intern import Codes
from hotset.traces.json_rows import Wrong, WrongValue
from hotset.traces.options import ReadOptions

OPTIONS = ("tokenizer", "block_tokens")
DEFAULT_BLOCK_TOKENS = 16
"""vLLM's usual block on GPUs."""

_DIGEST_BYTES = 16
_ROOT = bytes(_DIGEST_BYTES)


class PromptHasher:
    """Prompts as chains of block ids.

    Parameters
    ----------
    options : ReadOptions
        `tokenizer` is needed; `block_tokens` is 16 if absent.

    Attributes
    ----------
    block_tokens : int
        Tokens per block.
    used : tuple of (str, value)
        The options as used; the tokenizer by its file's name and digest.

    Raises
    ------
    ArgumentError
        If there is no tokenizer, or it cannot be loaded.
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.tokenizer is None:
            raise ArgumentError("tokenizer", None, "the model's tokenizer.json")
        path = Path(options.tokenizer)
        self.block_tokens = options.block_tokens or DEFAULT_BLOCK_TOKENS
        content, self._tokenizer = _loaded(path)
        digest = blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
        self.used = (
            ("tokenizer", f"{path.name} (blake2b {digest})"),
            ("block_tokens", self.block_tokens),
        )
        self._codes = Codes()

    def tokens(self, text: str, field: str) -> "np.ndarray[Any, Any]":
        """Tokens of a text, without any that the tokenizer adds around it.

        Parameters
        ----------
        text : str
            The text.
        field : str
            Where it is from, for the message.

        Returns
        -------
        int32 array
            The tokens.

        Raises
        ------
        Wrong
            If it is no valid text.
        """
        try:
            encoded = self._tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, ValueError, UnicodeError):
            raise Wrong(field, "half a surrogate pair", "text in UTF-8") from None
        return np.array(encoded.ids, "<i4")

    def ids(self, tokens: "np.ndarray[Any, Any]") -> "array[int]":
        """Ids of the full blocks of a prompt.

        Parameters
        ----------
        tokens : int32 array
            Its tokens.

        Returns
        -------
        array of int64
            Equal ids mean equal tokens from the prompt's head on.
        """
        ids, parent = array("q"), _ROOT
        content = tokens.tobytes()
        step = 4 * self.block_tokens
        for end in range(step, len(content) + 1, step):
            hashed = blake2b(parent, digest_size=_DIGEST_BYTES)
            hashed.update(content[end - step : end])
            parent = hashed.digest()
            ids.append(self._codes.code(parent))
        return ids


def _loaded(path: Path) -> tuple[bytes, Any]:
    """Content of a tokenizer's file, and the tokenizer."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        allowed = "hotset with text: pip install 'hotset[chat]'"
        raise ArgumentError("tokenizer", str(path), allowed) from None
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArgumentError("tokenizer", str(path), f"a file ({reason})") from None
    try:
        return content, Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing narrower
        reason = str(error).partition("\n")[0]
        allowed = f"a tokenizer.json of the tokenizers package ({reason})"
        raise ArgumentError("tokenizer", str(path), allowed) from None


def render(messages: Sequence[Mapping[str, Any]], field: str) -> str:
    """Text of a chat, up to where the answer begins.

    Chat templates differ from model to model; this form marks turns as many of
    them do, so lengths may be off by a few tokens a message. What counts for
    reuse holds in any: equal chats have equal texts, and a chat that goes on
    begins with the chat before.

    Parameters
    ----------
    messages : sequence of mapping
        With `role` and `content`: text, or a list of parts that hold text.
    field : str
        Where they are from, for the message.

    Returns
    -------
    str
        The text.

    Raises
    ------
    Wrong
        If a message is malformed or has parts without text.
    """
    texts = []
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise Wrong(f"{field}[{at}]", show(message), "an object with role")
        role = message.get("role")
        if type(role) is not str:
            raise Wrong(f"{field}[{at}].role", show(role), "a string")
        content = _content(message.get("content"), f"{field}[{at}].content")
        if calls := message.get("tool_calls"):
            content += json.dumps(calls, sort_keys=True)
        texts.append(f"<|im_start|>{role}\n{content}<|im_end|>\n")
    return "".join(texts)


ANSWER = "<|im_start|>assistant\n"
"""What a rendered chat ends with when an answer is asked for."""


def _content(value: Any, field: str) -> str:
    """Text of a message's content."""
    if value is None:
        return ""
    if type(value) is str:
        return value
    if type(value) is not list:
        raise WrongValue(field, value, "a string, or a list of parts with text")
    texts = []
    for at, part in enumerate(value):
        text = part.get("text") if isinstance(part, Mapping) else part
        if type(text) is not str:
            raise Wrong(f"{field}[{at}]", show(part)[:60], "a part with text")
        texts.append(text)
    return "".join(texts)
