"""Formats by name, and reading a trace of any of them."""

import dataclasses
import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from hotset.traces import (
    generic_csv,
    generic_jsonl,
    kv_cache_tester,
    lengths,
    mooncake,
    openai_chat,
    parquet,
    qwen_bailian,
    recorded,
    sharegpt,
)
from hotset.traces.bundles import Joined, head_of_first, is_bundle, open_input
from hotset.traces.cached_read import read_cached
from hotset.traces.errors import ArgumentError, TraceError, shorten
from hotset.traces.files import Source, atomic_write
from hotset.traces.formats import FormatSpec, OnBadRow
from hotset.traces.hints import hint, is_packed
from hotset.traces.merge import merge as merge_traces
from hotset.traces.model import Trace
from hotset.traces.options import ReadOptions
from hotset.traces.outputs import check_outputs
from hotset.traces.rows import BadRows, TooManyRejects
from hotset.traces.sample import locate
from hotset.traces.sample import sample_path as sample_path


class FormatRegistry:
    """Formats by name, in the order in which detection tries them.

    Parameters
    ----------
    specs : Iterable of FormatSpec
        The formats.

    Raises
    ------
    ValueError
        If two formats share a name.
    """

    def __init__(self, specs: Iterable[FormatSpec]) -> None:
        self._specs: dict[str, FormatSpec] = {}
        for spec in specs:
            if spec.name in self._specs:
                raise ValueError(
                    f"format {spec.name!r} is registered twice; known: {self.known()}"
                )
            self._specs[spec.name] = spec

    def __iter__(self) -> Iterator[FormatSpec]:
        return iter(self._specs.values())

    def known(self) -> str:
        """Names of all formats, for messages.

        Returns
        -------
        str
            Separated by commas.
        """
        return ", ".join(self._specs)

    def get(self, name: str) -> FormatSpec:
        """Format of a name.

        Parameters
        ----------
        name : str
            Registry name.

        Returns
        -------
        FormatSpec
            The format.

        Raises
        ------
        TraceError
            If the name is unknown; lists the known ones and the nearest.
        """
        if name not in self._specs:
            raise TraceError(unknown("format", name, self._specs))
        return self._specs[name]

    def detect(self, path: str, head: bytes) -> FormatSpec:
        """Format of a file, from its content.

        Parameters
        ----------
        path : str
            The file, for the message.
        head : bytes
            Its first decompressed bytes.

        Returns
        -------
        FormatSpec
            The first format that recognises it.

        Raises
        ------
        TraceError
            If none does.
        """
        for spec in self:
            if spec.detect(head) and not is_packed(head):
                return spec
        looks = hint(head)
        raise TraceError(
            f"{path}: the format is not recognised (it begins "
            f"{shorten(ascii(head[:40])[1:])}); "
            + (f"it looks like {looks}; " if looks else "")
            + f"known formats: {self.known()}; --format states one"
        )


FORMATS = FormatRegistry(
    (
        parquet.SPEC,
        recorded.SPEC,
        qwen_bailian.SPEC,
        mooncake.SPEC,
        kv_cache_tester.SPEC,
        sharegpt.SPEC,
        openai_chat.SPEC,
        lengths.BURSTGPT,
        lengths.AZURE,
        generic_jsonl.SPEC,
        generic_csv.SPEC,
    )
)


NO_OPTIONS = ReadOptions()


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Message about a name that is not known.

    Parameters
    ----------
    kind : str
        What the name names.
    name : str
        The name got.
    known : Iterable of str
        The names there are.

    Returns
    -------
    str
        One line, with the nearest known name if one is near.
    """
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    got = shorten(ascii(name))
    return f"unknown {kind}: got {got}, allowed: {', '.join(names)}{hint}"


def read_trace(
    path: str | os.PathLike[str],
    format: str | None = None,
    on_bad_row: OnBadRow = "strict",
    rejects: str | os.PathLike[str] | None = None,
    max_reject_share: float = 0.1,
    options: ReadOptions = NO_OPTIONS,
    merge: Sequence[str] = (),
) -> Trace:
    """Read a trace.

    Parameters
    ----------
    path : str or path-like
        A file, plain or compressed with gzip or zstd, "-" for standard input,
        or "sample" for the bundled trace where no such file exists; for some
        formats a folder, or a tar archive, of such files.
    format : str or None
        Name of the format; None tells it from the content.
    on_bad_row : {"strict", "skip"}
        "strict" raises the first 20 wrong rows, "skip" leaves them out.
    rejects : str, path-like or None
        Where "skip" writes the wrong rows, one JSON object a line; written
        even if there are none. None does not write them.
    max_reject_share : float
        Largest share of rows that "skip" may leave out, in [0, 1].
    options : ReadOptions
        Options of the format.
    merge : sequence of str
        More files of the same format and scope, read as if they followed.

    Returns
    -------
    Trace
        Sorted by (arrival, line).

    Raises
    ------
    RowErrors
        If rows are wrong and `on_bad_row` is "strict".
    TraceError
        If the file or an argument is of no use.
    """
    if on_bad_row not in ("strict", "skip"):
        raise ArgumentError("on_bad_row", on_bad_row, "strict, skip")
    if not 0 <= max_reject_share <= 1:
        raise ArgumentError("max_reject_share", max_reject_share, "0..1")
    spec = None if format is None else FORMATS.get(format)
    name = os.fspath(path)
    skip = on_bad_row == "skip"
    if skip and rejects is not None:
        check_outputs({"rejects": rejects}, {"the trace": name})
    with ExitStack() as stack:
        source = stack.enter_context(open_input(locate(name)))
        source.path = name
        if spec is None:
            spec = FORMATS.detect(name, head_of_first(source))
        _check_use(spec, source, options)
        if merge:
            source = _joined(stack, spec, source, merge)
            if spec is parquet.SPEC:
                return _merged(source, options)
        if not skip:
            return read_cached(spec, source, options, partial(_strictly, spec))
        if rejects is None:
            bad_rows = BadRows(name, skip, None, max_reject_share)
            return _read(spec, source, bad_rows, options)
        with atomic_write(rejects) as sink:
            try:
                bad_rows = BadRows(name, skip, sink, max_reject_share)
                return _read(spec, source, bad_rows, options)
            except TooManyRejects as error:
                failure = error  # raised below, so that the reject file is kept
        raise failure


def _strictly(spec: FormatSpec, source: Source, options: ReadOptions) -> Trace:
    """Read a source in which no row may be wrong."""
    return _read(spec, source, BadRows(source.path), options)


def _joined(
    stack: ExitStack, spec: FormatSpec, first: Source, merge: Sequence[str]
) -> Joined:
    """Open the other files of a merged trace."""
    sources = [first]
    for name in merge:
        source = stack.enter_context(open_input(locate(name)))
        source.path = name
        sources.append(source)
    for source in sources:
        if is_bundle(source):
            raise TraceError(
                f"{source.path}: a folder or an archive cannot be merged: its ids "
                "mean something within each of its files only"
            )
        # Compared with each other: a stated format is not second-guessed.
        if _told(source) is not _told(first):
            raise TraceError(
                f"{source.path}: not of the format of {first.path}, {spec.name}"
            )
    return Joined(sources)


def _merged(source: Joined, options: ReadOptions) -> Trace:
    """Read files of the exchange form, and join what they hold."""
    traces = [
        parquet.read(each, BadRows(each.path), options) for each in source.sources
    ]
    return _with_merge_step(merge_traces(traces, source.sha256()), source)


def _with_merge_step(trace: Trace, source: Joined) -> Trace:
    """Trace whose provenance says what it was joined of."""
    step = f"merged, ids mean the same: {', '.join(map(str, source.paths))}"
    provenance = dataclasses.replace(
        trace.provenance, steps=(*trace.provenance.steps, step)
    )
    return dataclasses.replace(trace, provenance=provenance)


def _told(source: Source) -> FormatSpec | None:
    """Return the format that content tells."""
    return next((spec for spec in FORMATS if spec.detect(source.head)), None)


def _read(
    spec: FormatSpec, source: Source, bad_rows: BadRows, options: ReadOptions
) -> Trace:
    """Read a source, which may be several files."""
    if not isinstance(source, Joined):
        return spec.read(source, bad_rows, options)

    def follow(name: str) -> None:
        bad_rows.path = name

    source.on_file = follow
    trace = spec.read(source, bad_rows, options)
    if trace.id_scope == "local":
        raise TraceError(
            f"{source.path}: ids of local scope cannot be merged: equal ids of "
            "different files are different blocks; name the folder of the files"
        )
    return _with_merge_step(trace, source)


def _check_use(spec: FormatSpec, source: Source, options: ReadOptions) -> None:
    """Check that a format can be read so."""
    if is_bundle(source) and not spec.bundles:
        raise TraceError(
            f"{source.path}: a folder or an archive, allowed for the format "
            f"{spec.name}: one file"
        )
    for name, value in options.given():
        if name not in spec.options:
            takers = ", ".join(each.name for each in FORMATS if name in each.options)
            allowed = f"only where the format is {takers}, it is {spec.name}"
            raise ArgumentError(name, value, allowed)
