"""The ``"ssd"`` key of the ``"hotset"`` configuration: a closed schema.

``{"path": "/mnt/nvme/kv", "max_bytes": "300GiB"}``; these two are needed.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.adapter.choice import read_admission, read_policy
from hotset.adapter.errors import AdapterError
from hotset.adapter.ssd.budget import at_once
from hotset.adapter.units import read_bytes
from hotset.policies.admission import ThresholdParams
from hotset.policies.base import Params, known_names
from hotset.policies.choice import Choice

MODES = WRITE_THROUGH, DEMOTE = ("write-through", "demote")
_LEAST_BYTES = 1 << 16
_MOST_THREADS = 64
_MOST_S = 3600.0
_MAX_SHARE = 0.5


@dataclass(frozen=True)
class SsdConfig:
    """What the SSD tier does.

    Parameters
    ----------
    path : str
        Folder of the tier; it is made if its parent is there.
    max_bytes : int
        Bytes at the most under ``path``, over all namespaces and files of hotset.
    choice : Choice
        Eviction policy and admission rule of this tier.
    min_free_bytes : int
        Free bytes that the file system keeps; the tier shrinks rather than go below.
    mode : str
        "write-through": what the CPU tier stores is written; "demote": what it evicts.
    writes_per_day_bytes : int
        Bytes written to slots in any 24 hours at the most; 0 for no limit.
    queue_bytes : int
        Bytes of stores under way at the most; what is more is refused.
    threads : int
        Threads that read and write: that many transfers at once.
    load_deadline_s, store_deadline_s, close_deadline_s : float
        When a load, a store and the shutdown are given up.
    slow_s : float
        A transfer of a slot that takes longer counts as a failure of the disk.
    staging_share : float
        Share of the CPU tier's chunks that is kept for what is being demoted.
    ephemeral : bool
        Whether nothing has to survive the process; allows a random hash seed.
    """

    path: str
    max_bytes: int
    choice: Choice
    min_free_bytes: int = 1 << 30
    mode: str = WRITE_THROUGH
    writes_per_day_bytes: int = 0
    queue_bytes: int = 256 << 20
    threads: int = 16
    load_deadline_s: float = 5.0
    store_deadline_s: float = 30.0
    close_deadline_s: float = 10.0
    slow_s: float = 2.0
    staging_share: float = 0.125
    ephemeral: bool = False

    @classmethod
    def read(cls, value: Any, said: str, faults: list[str]) -> SsdConfig | None:
        """Read the key's value; None where something is wrong.

        Parameters
        ----------
        value : object
            The value.
        said : str
            Where it stands, for the messages.
        faults : list of str
            Receives all that is wrong, one line each.
        """
        if not isinstance(value, Mapping):
            faults.append(f"{said} is {value!r}: an object is needed")
            return None
        found = len(faults)
        faults += [
            f"{said} has no key {key!r}" + known_names(str(key), _KEYS)
            for key in value
            if key not in _KEYS
        ]
        policy = read_policy(value.get("policy", "lru"), f'{said}: "policy"', faults)
        rule = read_admission(
            value.get("admission", "always"), f'{said}: "admission"', faults
        )
        fields = {key: value[key] for key in value if key in _CHECKS}
        read = {
            key: check(fields.get(key, _DEFAULTS.get(key)), f'{said}: "{key}"', faults)
            for key, check in _CHECKS.items()
        }
        if len(faults) > found or policy is None or rule is None:
            return None
        return cls(choice=Choice(*policy, rule[0], _by_request(rule[1])), **read)

    def check(self, slot_bytes: int) -> None:
        """Raise AdapterError for limits that would let no slot of a size through."""
        for key, most in (
            ("queue_bytes", self.queue_bytes),
            ("writes_per_day_bytes", int(at_once(self.writes_per_day_bytes))),
        ):
            if getattr(self, key) and most < slot_bytes:
                raise AdapterError(
                    f'SSD tier: "{key}" is {getattr(self, key)}, which lets {most} '
                    f"bytes through at once: a chunk takes {slot_bytes}"
                )

    def describe(self) -> str:
        """Return the effective configuration on one line."""
        budget = self.writes_per_day_bytes
        return (
            f"{self.path}, at most {self.max_bytes} bytes, {self.min_free_bytes} free, "
            f"{self.mode}, {self.choice.describe()}"
            + (f", {budget} bytes written a day" if budget else "")
            + (", ephemeral" if self.ephemeral else "")
        )


def _by_request(params: Params) -> Params:
    """Return an admission rule's parameters for this tier.

    A sight of a block is a request that names it, unless the rule says otherwise:
    offers come when the tier above stores or evicts it, not when it is wanted.
    """
    if isinstance(params, ThresholdParams) and params.count == "auto":
        return dataclasses.replace(params, count="lookup")
    return params


def _path(value: Any, said: str, faults: list[str]) -> str:
    """Return a folder's whole name: a process may go to another folder later.

    Without what ends it beside its name, since a slash there would follow a link.
    """
    if not isinstance(value, str) or not value or "\0" in value or not _encodes(value):
        faults.append(f"{said} is {value!r}: a folder is needed")
        return str(value)
    whole = value if os.path.isabs(value) else os.path.join(os.getcwd(), value)
    return "/" + "/".join(part for part in whole.split("/") if part not in ("", "."))


def _encodes(value: str) -> bool:
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


class _Bytes:
    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, value: Any, said: str, faults: list[str]) -> int:
        size = read_bytes(value)
        if size is None or size < self.least:
            faults.append(
                f"{said} is {value!r}: bytes from {self.least} on are needed, such as "
                '1073741824 or "1GiB"'
            )
        return size or 0


class _Number:
    def __init__(self, low: float, high: float, is_whole: bool = False) -> None:
        self.low, self.high, self.is_whole = low, high, is_whole

    def __call__(self, value: Any, said: str, faults: list[str]) -> float:
        kinds = (int,) if self.is_whole else (int, float)
        if type(value) not in kinds or not self.low <= value <= self.high:
            word = "a whole number" if self.is_whole else "a number"
            faults.append(
                f"{said} is {value!r}: {word} from {self.low:g} to {self.high:g} is "
                "needed"
            )
            return self.low
        return int(value) if self.is_whole else float(value)


def _mode(value: Any, said: str, faults: list[str]) -> str:
    if value not in MODES:
        hint = known_names(str(value), MODES)
        faults.append(f"{said} is {value!r}{hint}")
    return str(value)


def _flag(value: Any, said: str, faults: list[str]) -> bool:
    if not isinstance(value, bool):
        faults.append(f"{said} is {value!r}: true or false is needed")
    return value is True


_CHECKS: dict[str, Any] = {
    "path": _path,
    "max_bytes": _Bytes(_LEAST_BYTES),
    "min_free_bytes": _Bytes(0),
    "mode": _mode,
    "writes_per_day_bytes": _Bytes(0),
    "queue_bytes": _Bytes(1),
    "threads": _Number(2, _MOST_THREADS, is_whole=True),
    "load_deadline_s": _Number(0.001, _MOST_S),
    "store_deadline_s": _Number(0.001, _MOST_S),
    "close_deadline_s": _Number(0.001, _MOST_S),
    "slow_s": _Number(0.001, _MOST_S),
    "staging_share": _Number(0.001, _MAX_SHARE),
    "ephemeral": _flag,
}
_KEYS = ("policy", "admission", *_CHECKS)
_DEFAULTS = {
    field.name: field.default
    for field in dataclasses.fields(SsdConfig)
    if field.default is not dataclasses.MISSING
}
