"""kv-cache-tester's conversations of coding agents, one JSON object each.

A conversation has `block_size` (tokens), `hash_id_scope` ("local": its ids mean
nothing outside it; "global") and `requests`, each with `t` (seconds since the
conversation's start), `type` ("n" or "s"), `in` and `out` (tokens) and
`hash_ids` (floor(in / block_size) ids, each standing for its whole prefix).
A request of type "subagent" holds `requests` of its own: their `t` counts from
its `t`, their ids are of the conversation's scope. Other fields are ignored.

A trace is a file with one such object, a file with one a line, or a folder or
tar archive of such files. A session is a conversation, its sub-agents
included: what happens in one depends on nothing outside it. `source_type`
tells "agent" from "subagent". The format does not tell when conversations
begin: see `starts`.
"""

import itertools
import json
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from hotset.traces.bundles import Folder, files_of
from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError, show
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.intern import densify
from hotset.traces.json_ids import IdCodes, is_plain, take_ids
from hotset.traces.json_rows import Wrong, WrongValue, count, number, parse
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows
from hotset.traces.starts import start_rule

NAME = "kv-cache-tester"

_SECONDS = "a number of seconds, 0 or more, below 2**63"
_SCOPES = ("local", "global")
_MAX_BLOCK_TOKENS = 2**31 - 1
_AGENT, _SUBAGENT = "agent", "subagent"


class _Header(NamedTuple):
    """What all conversations of a trace share."""

    block_tokens: int
    id_scope: Literal["local", "global"]
    where: str


class _Request(NamedTuple):
    """A request of a conversation, not yet checked."""

    place: str
    row: Any
    start_s: float
    source_type: str


class _Reader:
    """Conversations of one trace."""

    def __init__(self, bad_rows: BadRows) -> None:
        self.columns = Columns()
        self.order: list[tuple[bytes, int]] = []
        self.header: _Header | None = None
        self.rows_read = 0
        self.num_backward = 0
        self.num_left_out = 0
        self._bad_rows = bad_rows
        self._global_ids = IdCodes()
        self._num_ids = 0

    def read_file(self, name: str, source: Source) -> None:
        """Read all conversations of a file."""
        self._file = source.path
        for line, raw in _documents(source):
            try:
                document = parse(raw, _is_exact)
                requests = self._requests_of(document, f"{source.path}:{line}")
            except Wrong as wrong:
                self.rows_read += 1
                self.num_left_out += 1
                self._reject(line, raw, wrong, wrong.field)
                continue
            self.order.append((name.encode("utf-8", "surrogateescape"), line))
            self._read_requests(line, requests)

    def _requests_of(self, document: Mapping[str, Any], where: str) -> list[Any]:
        """Check a conversation's header."""
        block_tokens = document.get("block_size")
        if type(block_tokens) is not int or not 1 <= block_tokens <= _MAX_BLOCK_TOKENS:
            allowed = f"a whole number of tokens, 1..{_MAX_BLOCK_TOKENS}"
            raise WrongValue("block_size", block_tokens, allowed)
        scope = document.get("hash_id_scope")
        if scope not in _SCOPES:
            raise WrongValue("hash_id_scope", scope, '"local" or "global"')
        requests = document.get("requests")
        if type(requests) is not list:
            raise WrongValue("requests", requests, "a list of requests")
        first = self.header
        if first is None:
            self.header = _Header(block_tokens, scope, where)
        elif block_tokens != first.block_tokens:
            allowed = f"{first.block_tokens}, as in {first.where}"
            raise WrongValue("block_size", block_tokens, allowed)
        elif scope != first.id_scope:
            raise WrongValue(
                "hash_id_scope", scope, f"{first.id_scope}, as in {first.where}"
            )
        return requests

    def _read_requests(self, line: int, requests: list[Any]) -> None:
        session = len(self.order) - 1
        ids = self._global_ids if self._is_global else IdCodes()
        read: list[tuple[float, int, int, array[int], str]] = []
        for request in self._flat(line, requests):
            self.rows_read += 1
            try:
                read.append(self._checked(request, ids))
            except Wrong as wrong:
                place = f"{request.place}.{wrong.field}"
                self._reject(line, _text(request.row), wrong, place)
        for (time_s, input_tokens, output_tokens, _, source_type), codes in zip(
            read, self._scoped([row[3] for row in read]), strict=True
        ):
            self.columns.add(
                time_s, input_tokens, output_tokens, session, codes, source_type
            )

    @property
    def _is_global(self) -> bool:
        return self.header is not None and self.header.id_scope == "global"

    def _flat(self, line: int, requests: list[Any]) -> Iterator[_Request]:
        """Yield requests in the order of the file, a sub-agent's where it stands."""
        stack = [(enumerate(requests), "requests", 0.0, _AGENT)]
        while stack:
            entries, path, start_s, source_type = stack[-1]
            at, entry = next(entries, (-1, None))
            if at < 0:
                stack.pop()
                continue
            place = f"{path}[{at}]"
            if type(entry) is not dict or entry.get("type") != _SUBAGENT:
                yield _Request(place, entry, start_s, source_type)
                continue
            try:
                own_start_s = start_s + number(entry, "t", _SECONDS)
                nested = entry.get("requests")
                if type(nested) is not list:
                    raise WrongValue("requests", nested, "a list of requests")
            except Wrong as wrong:
                self.rows_read += 1
                self._reject(line, _text(entry), wrong, f"{place}.{wrong.field}")
                continue
            stack.append(
                (enumerate(nested), f"{place}.requests", own_start_s, _SUBAGENT)
            )

    def _checked(
        self, request: _Request, ids: IdCodes
    ) -> tuple[float, int, int, "array[int]", str]:
        """Values of a request, ids as codes of the conversation."""
        row = request.row
        if type(row) is not dict:
            raise Wrong("row", show(row), "a JSON object")
        if row.get("type") not in ("n", "s"):
            raise WrongValue("type", row.get("type"), '"n", "s" or "subagent"')
        time_s = request.start_s + number(row, "t", _SECONDS)
        input_tokens = count(row, "in", 1)
        output_tokens = count(row, "out", 0)
        codes = ids.codes(row, "hash_ids")
        assert self.header is not None
        fitting = input_tokens // self.header.block_tokens
        if len(codes) not in (0, fitting):
            raise Wrong(
                "hash_ids",
                f"{len(codes)} ids for {input_tokens} tokens",
                f"{fitting} ({self.header.block_tokens}-token blocks that are full) "
                "or none",
            )
        return time_s, input_tokens, output_tokens, codes, request.source_type

    def _scoped(self, lists: list["array[int]"]) -> Iterator["array[int]"]:
        """Ids of a conversation as codes that no other conversation has."""
        if self._is_global:
            yield from lists
            return
        joined = array("q")
        for codes in lists:
            joined.extend(codes)
        numbers, distinct = densify(np.array(joined, np.int64))
        numbers += self._num_ids
        self._num_ids += distinct
        scoped = array("q", numbers.tobytes())
        at = 0
        for codes in lists:
            yield scoped[at : at + len(codes)]
            at += len(codes)

    def _reject(self, line: int, raw: bytes, wrong: Wrong, place: str) -> None:
        file = None if self._file == self._bad_rows.path else self._file
        found, allowed = wrong.found(raw), wrong.allowed
        self._bad_rows.add(line, raw, place, found, allowed, file)

    def warnings(self, source: Source) -> tuple[str, ...]:
        """Say what the reader noticed."""
        noticed = []
        if self.num_left_out:
            noticed.append(f"conversations left out: {self.num_left_out}")
        left_out = source.left_out if isinstance(source, Folder) else []
        if left_out:
            noticed.append(
                f"files left out, of another ending: {len(left_out)}, "
                f"the first: {left_out[0]}"
            )
        return tuple(noticed)


def _text(row: Any) -> bytes:
    """Write a request as JSON, for messages and the reject file."""
    return json.dumps(row, default=list).encode()


def _documents(source: Source) -> Iterator[tuple[int, bytes]]:
    """Conversations of a file: one a line, or one in all its lines."""
    lines = source.lines()
    head = list(itertools.islice(lines, 2))
    if any(_is_object(raw) for _, raw in head):
        yield from itertools.chain(head, lines)
    elif head:
        # One object, for example printed with indents.
        yield head[0][0], b"\n".join(raw for _, raw in itertools.chain(head, lines))


def _is_object(raw: bytes) -> bool:
    try:
        parse(raw, lambda *_: True)
    except Wrong:
        return False
    return True


def _is_exact(raw: bytes, document: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing in a conversation."""
    num_keys, plain = 0, is_plain(raw)
    stack: list[Any] = [document]
    while stack:
        value = stack.pop()
        if type(value) is list:
            stack.extend(item for item in value if type(item) in (dict, list))
            continue
        num_keys += len(value)
        if not take_ids(value, "hash_ids", plain):
            return False
        ids = value.get("hash_ids")
        stack.extend(
            item
            for item in value.values()
            if type(item) in (dict, list) and item is not ids
        )
    # Otherwise colons in strings, or a key twice.
    return raw.count(b":") == num_keys


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a trace of conversations.

    Parameters
    ----------
    source : Source
        A file, a folder or a tar archive.
    bad_rows : BadRows
        What to do with wrong requests and conversations.
    options : ReadOptions
        `starts` and `trace_seed`.

    Returns
    -------
    Trace
        Sorted by (arrival, name of the file, place in the file).

    Raises
    ------
    RowErrors
        If requests are wrong and wrong ones are not skipped.
    TraceError
        If the trace as a whole is of no use, or an option is wrong.
    """
    rule = start_rule(options)
    reader = _Reader(bad_rows)
    for name, file in files_of(source):
        reader.read_file(name, file)
    bad_rows.finish(reader.rows_read)
    columns = reader.columns
    if reader.header is None or not columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no request has hash_ids "
            "(lengths alone say nothing about cache hits)"
        )
    conversations = reader.order
    rank = np.empty(len(conversations), np.int64)
    by_name = sorted(range(len(conversations)), key=conversations.__getitem__)
    rank[by_name] = np.arange(rank.size)
    place = rank[np.frombuffer(columns.session, np.int64)]
    about = Described(
        format=NAME,
        block_tokens=reader.header.block_tokens,
        id_scope=reader.header.id_scope,
        options=rule.used(),
    )
    arrival_s = rule.starts_s(rank.size)[place] + np.array(columns.arrival)
    return build(
        columns, about, source, bad_rows, reader.warnings(source), (arrival_s, place)
    )


def detect(head: bytes) -> bool:
    """Whether a file looks like this format.

    Parameters
    ----------
    head : bytes
        The first bytes of the file.

    Returns
    -------
    bool
        Whether it begins like a conversation.
    """
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text.startswith(b"{") or not head_lines(head):
        return False
    return b'"hash_id_scope"' in text or (b'"requests"' in text and b'"in"' in text)


SPEC = FormatSpec(
    name=NAME,
    description="kv-cache-tester conversations: seconds, local ids; file, folder, tar",
    detect=detect,
    read=read,
    options=("starts", "trace_seed"),
    bundles=True,
)
