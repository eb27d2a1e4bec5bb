"""The file that `hotset tune` writes, as a server takes it.

With the verdict ``deploy`` the file's policy and admission rule run; with any other,
LRU.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotset.policies.errors import PolicyError

FORMAT, VERSION = "hotset-tuned", 1
DEPLOY, KEEP_LRU, NO_OFFLOAD = "deploy", "keep-lru", "offload-does-not-pay"


@dataclass(frozen=True)
class TunedFile:
    """What a tuned file says.

    Parameters
    ----------
    path : str
        Its name.
    verdict, reason : str
        What to do, and why.
    policy, admission : JSON objects
        The best that was found.
    engine : str
        The engine that it was found for, "none" for a plain cache.
    chunk_tokens : int
        Tokens of the cached unit.
    cpu_bytes : int or None
        Size of the tier, where it is known in bytes.
    ssd : mapping or None
        What the best makes of RAM and SSD, where the search had an SSD tier.
    """

    path: str
    verdict: str
    reason: str
    policy: Any
    admission: Any
    engine: str
    chunk_tokens: int
    cpu_bytes: int | None
    ssd: Mapping[str, Any] | None = None

    @property
    def chosen(self) -> tuple[Any, Any]:
        """The policy and the admission rule to run."""
        if self.verdict == DEPLOY:
            return self.policy, self.admission
        return "lru", "always"


def read_tuned(path: str) -> TunedFile:
    """Read a tuned file.

    Raises
    ------
    PolicyError
        If it cannot be read or is no tuned file.
    """
    values = read_json(path)
    if not isinstance(values, Mapping) or values.get("format") != FORMAT:
        raise PolicyError(f"{path}: not a file of hotset tune")
    if values.get("version") != VERSION:
        raise PolicyError(
            f"{path}: version {values.get('version')!r}: allowed is {VERSION}"
        )
    try:
        found = TunedFile(
            path=path,
            verdict=values["verdict"],
            reason=str(values["reason"]),
            policy=values["policy"],
            admission=values["admission"],
            engine=str(values["engine"]["name"]),
            chunk_tokens=int(values["engine"]["chunk_tokens"]),
            cpu_bytes=values["cpu"]["bytes"],
            ssd=values.get("ssd"),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PolicyError(f"{path}: incomplete: {error!r}") from None
    if not isinstance(found.ssd, Mapping | None):
        raise PolicyError(f'{path}: "ssd" is {found.ssd!r}: an object is needed')
    if found.verdict not in (DEPLOY, KEEP_LRU, NO_OFFLOAD):
        raise PolicyError(
            f"{path}: verdict {found.verdict!r}: allowed are {DEPLOY}, {KEEP_LRU} and "
            f"{NO_OFFLOAD}"
        )
    return found


def _read_regular(path: str) -> str:
    """Return the text of a file; a pipe would be waited for."""
    # Opened without waiting, and looked at then: what stands there can change.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise PolicyError(f"{path}: no regular file")
        return file.read()


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises
    ------
    PolicyError
        If it cannot be read or is no JSON.
    """
    try:
        return json.loads(_read_regular(path))
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: no JSON: {error}") from None
