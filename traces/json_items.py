"""Items of a JSON array or of JSON lines, one at a time."""

import re
from collections.abc import Iterator

from hotset.traces.errors import TraceError
from hotset.traces.files import Source

_MARK = re.compile(rb'["\[\]{}]')
_STRING_END = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_MAX_ITEM_BYTES = 1 << 28
_BETWEEN = b" \t\r\n,"
_KEPT_BYTES = 1 << 20


def items(source: Source) -> Iterator[tuple[int, bytes]]:
    """Items of a file that is one array, or else its lines.

    Parameters
    ----------
    source : Source
        The open file.

    Yields
    ------
    tuple of (int, bytes)
        1-based line on which the item begins, and its text. Items are told
        apart by their brackets alone; whether each is JSON is for the caller.

    Raises
    ------
    TraceError
        If the array has no end, or something follows it, or an item is longer
        than 256 MiB.
    """
    text = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        yield from _Array(source).items()
    else:
        yield from source.lines()


class _Array:
    """Array that is cut into its items as it is read."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._chunks = source.chunks()
        self._text = b""
        self._begin = 0
        self._line = 1

    def _more(self) -> bool:
        """Read as much again as is not dealt with; tell whether there was any."""
        waiting = len(self._text) - self._begin
        if waiting > _MAX_ITEM_BYTES:
            raise TraceError(
                f"{self._path}:{self._line}: an item is longer than 256 MiB: this is "
                "not an array of conversations"
            )
        parts, size = [self._text], 0
        for chunk in self._chunks:
            parts.append(chunk)
            size += len(chunk)
            if size >= waiting:
                break
        self._text = b"".join(parts)
        return size > 0

    def _pass(self, end: int) -> None:
        """Let go of text that was dealt with."""
        self._line += self._text.count(b"\n", self._begin, end)
        self._begin = end

    def items(self) -> Iterator[tuple[int, bytes]]:
        """Yield line and text of each item."""
        self._more()
        self._pass(self._text.index(b"[") + 1)
        is_last = False
        while not is_last:
            if self._begin > _KEPT_BYTES:
                self._text = self._text[self._begin :]
                self._begin = 0
            end = self._item_end()
            item = self._text[self._begin : end].lstrip(_BETWEEN)
            is_last = self._text[end : end + 1] == b"]"
            self._pass(end - len(item))
            if item := item.rstrip(_BETWEEN):
                yield self._line, item
            self._pass(end)
        self._pass(end + 1)
        while True:
            if self._text[self._begin :].strip():
                raise TraceError(f"{self._path}:{self._line}: text behind the array")
            self._pass(len(self._text))
            if not self._more():
                return

    def _item_end(self) -> int:
        """End of the next item, or the place of the array's end."""
        at, depth = self._begin, 0
        while True:
            mark = _MARK.search(self._text, at)
            if mark is None:
                at = len(self._text)
                self._need_more()
                continue
            sign, at = mark[0], mark.end()
            if sign == b'"':
                at = self._string_end(at)
            elif sign in b"[{":
                depth += 1
            elif depth == 0:
                # A brace that closes nothing is for the caller to refuse.
                return mark.start() if sign == b"]" else at
            else:
                depth -= 1
                if depth == 0:
                    return at

    def _string_end(self, at: int) -> int:
        """Place behind the quote that ends a string."""
        end = _STRING_END.match(self._text, at)
        while end is None:
            self._need_more()
            end = _STRING_END.match(self._text, at)
        return end.end()

    def _need_more(self) -> None:
        if not self._more():
            raise TraceError(
                f"{self._path}:{self._line}: the array is cut short: an item that "
                "begins here has no end"
            )
