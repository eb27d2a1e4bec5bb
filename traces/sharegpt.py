"""ShareGPT conversations: a JSON array of them, or one a line, with the text.

A conversation has `conversations`, a list of turns with `from` and `value`.
Every turn of "human" or "user" is a request: its prompt is all turns so far.
Turns before the first of those, and conversations without any, are left out and
counted. A session is a conversation.

The file has no times. Conversations begin by the rule of `starts`, and each
request comes one mean gap after the one before it in its conversation.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError, show
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec
from hotset.traces.json_items import items
from hotset.traces.json_rows import Wrong, WrongValue, are_keys_once, parse
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows
from hotset.traces.starts import start_rule
from hotset.traces.tokens import ANSWER, OPTIONS, PromptHasher, render

NAME = "sharegpt"

_ASKING = ("human", "user")
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant"}


class _Rows:
    """Checks conversations and appends their requests to columns."""

    def __init__(self, hasher: PromptHasher) -> None:
        self.columns = Columns()
        self.num_conversations = 0
        self.num_silent = 0
        self.num_early_turns = 0
        self._hasher = hasher

    def add(self, raw: bytes) -> None:
        """Append a conversation; raises `Wrong` and changes no column."""
        row = parse(raw, lambda raw, row: are_keys_once(raw, len(row)))
        turns = row.get("conversations")
        if type(turns) is not list:
            raise WrongValue("conversations", turns, "a list of turns")
        for at, turn in enumerate(turns):
            _check(turn, f"conversations[{at}]")
        asked = [at for at, turn in enumerate(turns) if turn["from"] in _ASKING]
        if not asked:
            self.num_silent += 1
            return
        requests = list(self._requests(turns[asked[0] :]))
        self.num_early_turns += asked[0]
        for place, (tokens, output_tokens) in enumerate(requests):
            ids = self._hasher.ids(tokens)
            session = self.num_conversations
            self.columns.add(float(place), tokens.size, output_tokens, session, ids)
        self.num_conversations += 1

    def _requests(
        self, turns: list[Mapping[str, str]]
    ) -> Iterator[tuple["np.ndarray[Any, Any]", int]]:
        """Tokens of each prompt, and the length of its answer."""
        prompt = np.zeros(0, "<i4")
        answering = self._hasher.tokens(ANSWER, "value")
        for at, turn in enumerate(turns):
            field = f"conversations[{at}].value"
            role = _ROLES.get(turn["from"], turn["from"])
            text = render([{"role": role, "content": turn["value"]}], field)
            prompt = np.concatenate([prompt, self._hasher.tokens(text, field)])
            if turn["from"] not in _ASKING:
                continue
            answer = turns[at + 1] if at + 1 < len(turns) else None
            output_tokens = 0
            if answer is not None and answer["from"] not in _ASKING:
                output_tokens = self._hasher.tokens(answer["value"], field).size
            yield np.concatenate([prompt, answering]), output_tokens


def _check(turn: Any, place: str) -> None:
    if type(turn) is not dict:
        raise Wrong(place, show(turn), "an object with from and value")
    for field in ("from", "value"):
        if type(turn.get(field)) is not str:
            raise Wrong(f"{place}.{field}", show(turn.get(field)), "a string")


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read ShareGPT conversations.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong conversations.
    options : ReadOptions
        `tokenizer`, `block_tokens`, `starts`, `trace_seed`.

    Returns
    -------
    Trace
        Sorted by (arrival, place in the file).

    Raises
    ------
    RowErrors
        If conversations are wrong and wrong ones are not skipped.
    TraceError
        If the file as a whole is of no use, or an option is wrong.
    """
    rule = start_rule(options)
    hasher = PromptHasher(options)
    rows = _Rows(hasher)
    rows_read = 0
    for line, raw in items(source):
        rows_read += 1
        try:
            rows.add(raw)
        except Wrong as wrong:
            bad_rows.add(line, raw, wrong.field, wrong.found(raw), wrong.allowed)
    bad_rows.left_out = rows.num_silent
    bad_rows.finish(rows_read)
    columns = rows.columns
    if not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no prompt fills a block of "
            f"{hasher.block_tokens} tokens"
        )
    place = np.array(columns.session, np.int64)
    after_start_s = np.array(columns.arrival) * rule.mean_s
    arrival_s = rule.starts_s(rows.num_conversations)[place] + after_start_s
    about = Described(NAME, hasher.block_tokens, options=(*hasher.used, *rule.used()))
    return build(columns, about, source, bad_rows, _warnings(rows), (arrival_s, place))


def _warnings(rows: _Rows) -> tuple[str, ...]:
    noticed = ["the format has no times: arrivals are made up by the rule of starts"]
    if rows.num_silent:
        noticed.append(
            f"conversations without a turn of a person, left out: {rows.num_silent}"
        )
    if rows.num_early_turns:
        noticed.append(
            f"turns before a person's first, left out: {rows.num_early_turns}"
        )
    return tuple(noticed)


def detect(head: bytes) -> bool:
    """Whether a file looks like this format.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether it is an array or lines of objects with conversations.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith((b"[", b"{")) and b'"conversations"' in text


SPEC = FormatSpec(
    name=NAME,
    description="ShareGPT conversations with text; --tokenizer, --starts",
    detect=detect,
    read=read,
    options=(*OPTIONS, "starts", "trace_seed"),
)
