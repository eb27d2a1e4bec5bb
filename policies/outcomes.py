"""What a driver of a tier answers: to look-ups and to offers."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Status(enum.Enum):
    """What a look-up finds."""

    MISS = "miss"
    PENDING = "pending"  # being written
    HIT = "hit"


@dataclass(frozen=True)
class Stored(Generic[K]):
    """What an offer led to: keys to write and their slots; keys evicted for them.

    ``freed`` are the slots of what was evicted. The counts are of missing keys that the
    admission rule, and then the policy, did not find worth a place.
    """

    keys: list[K]
    evicted: list[K]
    slots: list[int]
    freed: list[int] = field(default_factory=list)
    refused_by_admission: int = 0
    refused_by_policy: int = 0
