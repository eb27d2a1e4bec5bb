"""Qwen-Bailian usage traces: one request a line, ids of 16-token blocks.

Fields: `timestamp` (seconds), `input_length` and `output_length` (tokens),
`hash_ids` (one id for each 16 tokens of the prompt; a last one for what is left,
which is padded), `chat_id` and `parent_chat_id` (-1 for the first request of a
chat), and `type`, which becomes `source_type`. An id stands for the content of
its block alone. Others are ignored.

Requests that `parent_chat_id` links, however far, are one session.
"""

from array import array
from typing import Any

from hotset.traces.columns import Columns, Described, build
from hotset.traces.errors import TraceError
from hotset.traces.files import Source
from hotset.traces.formats import FormatSpec, head_lines
from hotset.traces.intern import Codes
from hotset.traces.json_batch import (
    counts,
    flat_rows,
    has_only,
    have_fitting,
    numbers,
    session_names,
    small_ids,
    texts,
)
from hotset.traces.json_ids import IdCodes, has_float, is_plain, take_ids
from hotset.traces.json_rows import (
    Wrong,
    WrongValue,
    are_keys_once,
    count,
    number,
    parse,
    read_rows,
    short_text,
)
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.rows import BadRows

NAME = "qwen-bailian"
BLOCK_TOKENS = 16

_SECONDS = "a number of seconds, 0 or more, below 2**63"
_FIELDS = (b'"chat_id"', b'"parent_chat_id"')
_ROOT = -1


class _Rows:
    """Checks rows and appends them to columns."""

    def __init__(self) -> None:
        self._ids = IdCodes()
        self._chats = Codes()
        self.columns = Columns(self._ids.others, self._chats)
        self._chat_of = array("q")
        self._parents: list[int | str] = []

    def add(self, raw: bytes) -> None:
        """Append a row; raises `Wrong` and changes no column."""
        row = parse(raw, _is_exact)
        time_s = number(row, "timestamp", _SECONDS)
        input_tokens = count(row, "input_length", 1)
        output_tokens = count(row, "output_length", 0)
        if row.get("block_size", BLOCK_TOKENS) != BLOCK_TOKENS:
            raise WrongValue("block_size", row["block_size"], f"{BLOCK_TOKENS}")
        chat = _chat(row, "chat_id", None)
        parent = _chat(row, "parent_chat_id", _ROOT)
        source_type = short_text(row, "type", self.columns.type_codes)
        ids = self._ids.codes(row, "hash_ids")
        check_number(len(ids), input_tokens, BLOCK_TOKENS, "hash_ids")
        self.columns.add(time_s, input_tokens, output_tokens, -1, ids, source_type)
        self._chat_of.append(self._chats.code(chat))
        self._parents.append(parent)

    def add_usual(self, raws: list[bytes]) -> bool:
        """Append rows at once where all are of the usual form; tells whether they are.

        Most rows are, and to check each value on its own takes several times as long.
        """
        if (rows := flat_rows(raws)) is None:
            return False
        times_s = numbers(rows, "timestamp")
        tokens = counts(rows, "input_length", 1)
        outputs = counts(rows, "output_length", 0)
        ids, chats = small_ids(rows, "hash_ids"), session_names(rows, "chat_id")
        parents = session_names(rows, "parent_chat_id")
        types = texts(rows, "type", self.columns.type_codes)
        if tokens is None or outputs is None or ids is None or times_s is None:
            return False
        if chats is None or parents is None or types is None or None in chats:
            return False
        if not has_only(rows, "block_size", BLOCK_TOKENS):
            return False
        if not have_fitting(ids.sizes, tokens, BLOCK_TOKENS, partial=None):
            return False
        sessions = [-1] * len(rows)
        given = types if set(types) != {None} else None
        self.columns.extend(times_s, tokens, outputs, sessions, ids, given)
        self._chat_of.extend(map(self._chats.code, chats))
        self._parents.extend(_ROOT if each is None else each for each in parents)
        return True

    def link(self) -> int:
        """Give linked requests one session; return how many parents are missing."""
        root = list(range(len(self._chats)))

        def find(chat: int) -> int:
            while root[chat] != chat:
                root[chat] = root[root[chat]]
                chat = root[chat]
            return chat

        num_orphans = 0
        for chat, parent in zip(self._chat_of, self._parents, strict=True):
            if parent == _ROOT:
                continue
            if parent in self._chats:
                root[find(chat)] = find(self._chats.code(parent))
            else:
                num_orphans += 1
        for index, chat in enumerate(self._chat_of):
            self.columns.session[index] = find(chat)
        return num_orphans


def check_number(
    num_ids: int, input_tokens: int, block_tokens: int, field: str
) -> None:
    """Check that there is an id for each full block, and at most one more.

    Parameters
    ----------
    num_ids : int
        Ids of a request; none at all is right as well.
    input_tokens : int
        Its length.
    block_tokens : int
        Tokens per block.
    field : str
        Of the ids, for the message.

    Raises
    ------
    Wrong
        If the number does not fit; the message says which length or block size
        would.
    """
    full, whole = input_tokens // block_tokens, -(-input_tokens // block_tokens)
    if num_ids in (0, full, whole):
        return
    least, most = (num_ids - 1) * block_tokens + 1, (num_ids + 1) * block_tokens - 1
    hint = f"{num_ids} ids need {least}..{most} tokens"
    smallest = -(-input_tokens // (num_ids + 1))
    largest = input_tokens if num_ids == 1 else (input_tokens - 1) // (num_ids - 1)
    if smallest <= largest:
        hint += f", or a block size of about {smallest}..{largest}"
    fitting = f"{full}" if full == whole else f"{full} or {whole}"
    raise Wrong(
        field,
        f"{num_ids} ids for {input_tokens} tokens",
        f"{fitting} ({block_tokens}-token blocks) or none; {hint}",
    )


def _chat(row: dict[str, Any], field: str, default: int | None) -> int | str:
    """Name of a chat."""
    value = row.get(field)
    if value is None:
        value = default
    if type(value) is int or (type(value) is str and len(value) <= 256):
        return value
    if value is None:
        raise Wrong(field, "nothing", "an integer, or a short string")
    raise WrongValue(field, value, "an integer, or a string of at most 256 characters")


def _is_exact(raw: bytes, row: dict[str, Any]) -> bool:
    """Whether the fast parser missed nothing in a row."""
    # The parent of a root is -1, which is no id of a block.
    rest = raw.replace(b'_id": -1', b"", 1) if b'_id": -1' in raw else raw
    if not take_ids(row, "hash_ids", is_plain(rest)):
        return False
    for field in ("chat_id", "parent_chat_id"):
        if has_float(row.get(field)):
            return False
    return are_keys_once(raw, len(row))


def read(source: Source, bad_rows: BadRows, options: ReadOptions) -> Trace:
    """Read a Qwen-Bailian trace.

    Parameters
    ----------
    source : Source
        The open file.
    bad_rows : BadRows
        What to do with wrong rows.
    options : ReadOptions
        `no_sort`.

    Returns
    -------
    Trace
        Sorted by (timestamp, line).

    Raises
    ------
    RowErrors
        If rows are wrong and wrong rows are not skipped.
    TraceError
        If the file as a whole is of no use.
    """
    rows = _Rows()
    read_rows(source.lines(), bad_rows, rows.add, rows.add_usual)
    if not rows.columns.ids:
        raise TraceError(
            f"{source.path}: no reuse information: no row has hash_ids "
            "(lengths alone say nothing about cache hits)"
        )
    warnings: tuple[str, ...] = ()
    if num_orphans := rows.link():
        warnings = (
            f"rows whose parent_chat_id is not in the file: {num_orphans}; "
            "each begins a session",
        )
    about = Described(
        NAME,
        BLOCK_TOKENS,
        chained=False,
        no_sort=bool(options.no_sort),
        options=(("no_sort", True),) if options.no_sort else (),
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
        Whether one of the first lines is an object that names chats.
    """
    return any(
        line.startswith(b"{")
        and all(field in line for field in _FIELDS)
        and b'"input_length"' in line
        for line in head_lines(head)
    )


SPEC = FormatSpec(
    name=NAME,
    description="Qwen-Bailian JSON lines: seconds, 16-token blocks, chats as sessions",
    detect=detect,
    read=read,
    options=("no_sort",),
)
