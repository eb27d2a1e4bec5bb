"""Logs of OpenAI-style requests: one JSON object a line, with the text.

Fields, in the object itself or in its `body` or `request`: `messages` (with
`role` and `content`) or `prompt` (a string). Beside them, or beside `body`:
`created` or `timestamp` (seconds), `usage.completion_tokens`, `session_id`.
The text becomes chained hashes (see `tokens`) and is kept nowhere, rejected rows
excepted, which go to the reject file as they are.

Without times, requests are one second apart in the order of the file.
"""

import json
from collections.abc import Mapping
from typing import Any

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.json_ids import has_float
from hotset.traces.json_rows import (
    SessionCodes,
    Wrong,
    WrongValue,
    are_keys_once,
    count,
    number,
    parse,
    read_rows,
)
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows
from hotset.traces.tokens import ANSWER, OPTIONS, PromptHasher, render

NAME = "openai-chat"

_SECONDS = "a number of seconds, 0 or more, below 2**63"
_TIMES = ("timestamp", "created")
_WRAPPERS = ("body", "request")


class _Rows:
    """Checks rows and appends them to columns."""

    def __init__(self, hasher: PromptHasher) -> None:
        self.columns = Columns()
        self.num_untimed = 0
        self._hasher = hasher
        self._sessions = SessionCodes()

    def add(self, raw: bytes) -> None:
        """Append a row; raises `Wrong` and changes no column."""
        row = parse(raw, _is_exact)
        time_s, timed = self._time_s(row)
        output_tokens = _output_tokens(row)
        session = self._sessions.code(row, "session_id")
        text, field = _prompt(_asked(row))
        tokens = self._hasher.tokens(text, field)
        if not tokens.size:
            raise Wrong(field, "no text", "text of at least one token")
        ids = self._hasher.ids(tokens)
        self.columns.add(time_s, tokens.size, output_tokens, session, ids)
        self.num_untimed += not timed

    def _time_s(self, row: Mapping[str, Any]) -> tuple[float, bool]:
        """Time of a row, and whether the row says it."""
        for field in _TIMES:
            if row.get(field) is not None:
                if self.num_untimed:
                    raise Wrong(field, "a time", "none, as on the rows before")
                return number(row, field, _SECONDS), True
        if len(self.columns) > self.num_untimed:
            raise Wrong(_TIMES[0], "nothing", "a time, as on the rows before")
        return float(len(self.columns)), False


def _asked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find the request in a row."""
    for name in _WRAPPERS:
        inner = row.get(name)
        if type(inner) is dict and ("messages" in inner or "prompt" in inner):
            return inner
    return row


def _prompt(asked: Mapping[str, Any]) -> tuple[str, str]:
    """Text of a request's prompt, and the field that it is from."""
    messages, prompt = asked.get("messages"), asked.get("prompt")
    if messages is None:
        if type(prompt) is not str:
            field = "prompt" if prompt is not None else "messages"
            raise WrongValue(field, prompt, "messages, or a prompt that is a string")
        return prompt, "prompt"
    if type(messages) is not list or not messages:
        raise WrongValue("messages", messages, "a list of messages, at least one")
    text = render(messages, "messages")
    if tools := asked.get("tools"):
        text = f"<|im_start|>tools\n{json.dumps(tools)}<|im_end|>\n{text}"
    return text + ANSWER, "messages"


def _output_tokens(row: Mapping[str, Any]) -> int:
    """Count generated tokens, 0 where the row does not say."""
    response = row.get("response")
    for holder in (row, response if type(response) is dict else {}):
        usage = holder.get("usage")
        if type(usage) is dict and usage.get("completion_tokens") is not None:
            return count(usage, "completion_tokens", 0)
    return 0


def _is_exact(raw: bytes, row: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing: text is full of colons."""
    return not has_float(row.get("session_id")) and are_keys_once(raw, len(row))


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a log of OpenAI-style requests.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        `tokenizer`, `block_tokens`, `no_sort`.

    Returns
    -------
    Trace
        Sorted by (time, line).

    Raises
    ------
    RowErrors
        If rows are wrong and wrong rows are not skipped.
    TraceError
        If the file as a whole is of no use, or an option is wrong.
    """
    hasher = PromptHasher(options)
    rows = _Rows(hasher)
    read_rows(source.lines(), bad_rows, rows.add)
    if not rows.columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no prompt fills a block of "
            f"{hasher.block_tokens} tokens"
        )
    warnings: tuple[str, ...] = ()
    if rows.num_untimed:
        warnings = ("rows have no times: they are 1 s apart, in the file's order",)
    about = Described(
        NAME, hasher.block_tokens, options=hasher.used, no_sort=bool(options.no_sort)
    )
    return build(rows.columns, about, source, bad_rows, warnings)


def detect(head: bytes) -> bool:
    """Whether a file looks like this format.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether one of the first lines is an object with messages or a prompt.
    """
    return any(
        line.startswith(b"{")
        and (
            (b'"messages"' in line and b'"role"' in line)
            or (b'"prompt"' in line and b'"model"' in line)
        )
        for line in head_lines(head)
    )


SPEC = FormatSpec(
    name=NAME,
    description="OpenAI-style requests with text, JSON lines; --tokenizer",
    detect=detect,
    read=read,
    options=(*OPTIONS, "no_sort"),
)
