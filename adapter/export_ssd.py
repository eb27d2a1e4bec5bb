"""The SSD tier of an exported configuration: the value of its ``"ssd"`` key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotset.adapter.ssd.config import DEMOTE, WRITE_THROUGH
from hotset.adapter.tuned_file import TunedFile
from hotset.policies.errors import PolicyError

# The folder where none is named: its parent is not there, so that a tier which nobody
# gave a folder refuses to start and fills no disk.
UNNAMED = "/SSD_PATH/hotset"
_SEEDED = 30  # before it, each process draws a block hash seed of its own


def tuned_ssd(
    tuned: TunedFile, deployed: bool, path: str | None, notes: list[str]
) -> dict[str, Any] | None:
    """Return the tier that a tuned file asks for, None where it asks for none.

    Parameters
    ----------
    tuned : TunedFile
        The file.
    deployed : bool
        Whether the best runs, or LRU on what the user gave.
    path : str, optional
        The tier's folder.
    notes : list of str
        Receives what to know.

    Raises
    ------
    PolicyError
        If the file is incomplete.
    """
    ssd = tuned.ssd
    if ssd is None:
        return None
    try:
        size = ssd["bytes"] if deployed else ssd["given_bytes"]
        least = int(ssd["min_count"]) if deployed else 1
        limit = ssd["writes_per_day_bytes"]
        mode = ssd["mode"] if deployed else WRITE_THROUGH
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyError(f'{tuned.path}: "ssd" is incomplete: {error!r}') from None
    found = {
        "path": _folder(path, notes),
        "max_bytes": size,
        "mode": mode,
        "policy": tuned.policy if deployed else "lru",
        "admission": "always",
    }
    if least > 1:
        found["admission"] = {"name": "threshold", "min_count": least}
    if limit:
        found["writes_per_day_bytes"] = limit
    return found


def demoted_ssd(path: str, size: int, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tier that takes what the CPU tier evicts, under the same policy.

    A policy's own admission is for the first tier: what leaves it passed it already.
    """
    ranking = dict(policy)
    if "admission_threshold" in ranking:
        ranking["admission_threshold"] = 1
    return {
        "path": path,
        "max_bytes": size,
        "mode": DEMOTE,
        "policy": ranking,
    }


def needs_seed(minor: int) -> bool:
    """Return whether block keys are the same in the next process only under a seed."""
    return minor < _SEEDED


def _folder(path: str | None, notes: list[str]) -> str:
    if path is None:
        notes.append(
            f"--ssd-path: not given: put a folder of your SSD in place of {UNNAMED}"
        )
    return path or UNNAMED
