"""The ``"record"`` key of the ``"hotset"`` configuration.

``{"path": "trace.jsonl", "max_bytes": "1GiB", "sample": 0.1, "files": 8}``; the path is
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotset.adapter.recorder import RecordConfig
from hotset.adapter.units import read_bytes
from hotset.policies.base import known_names

_KEYS = ("path", "max_bytes", "sample", "files")
_LEAST_BYTES = 1 << 12  # of a file
_MOST_FILES = 1000


def record_config(given: Any, faults: list[str]) -> RecordConfig | None:
    """Return what to record; None where nothing is, or something is wrong.

    Parameters
    ----------
    given : object
        The key's value, None where it is not there.
    faults : list of str
        Receives what is wrong, one line each.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        faults.append(f'"hotset": "record" is {given!r}: an object is needed')
        return None
    found = len(faults)
    faults += [
        f'"hotset": "record" has no key {key!r}' + known_names(str(key), _KEYS)
        for key in given
        if key not in _KEYS
    ]
    path = given.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        faults.append(f'"hotset": "record": "path" is {path!r}: a file is needed')
    elif path.endswith((".gz", ".zst")):
        faults.append(
            f'"hotset": "record": "path" is {path!r}: the file that grows is plain '
            "text, so leave out that ending; finished ones get it"
        )
    files = given.get("files", RecordConfig.files)
    if isinstance(files, bool) or not isinstance(files, int):
        files = 0
    if not 1 <= files <= _MOST_FILES:
        faults.append(
            f'"hotset": "record": "files" is {given.get("files")!r}: a whole number '
            f"from 1 to {_MOST_FILES} is needed"
        )
        files = 1
    least = _LEAST_BYTES if files == 1 else _LEAST_BYTES * (files + 1)
    size = read_bytes(given.get("max_bytes", RecordConfig.max_bytes))
    if size is None or size < least:
        faults.append(
            f'"hotset": "record": "max_bytes" is {given.get("max_bytes")!r}: bytes '
            f'from {least} on are needed, such as 1073741824 or "1GiB"'
        )
    sample = given.get("sample", 1.0)
    if isinstance(sample, bool) or not isinstance(sample, (int, float)):
        sample = -1.0
    if not 0 < sample <= 1:
        faults.append(
            f'"hotset": "record": "sample" is {given.get("sample")!r}: a share above 0 '
            "and up to 1 is needed"
        )
    if len(faults) > found or size is None:
        return None
    return RecordConfig(str(path), size, float(sample), files)
