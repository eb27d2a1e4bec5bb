"""What an SSD tier has under way, and what it knows of a request."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotset.adapter.live import Live
from hotset.policies.request import Request

# A promotion; a store from a pinned slot; a store from a row that is in no slot.
LOAD, PINNED, SPARE = "load", "pinned", "spare"


@dataclass
class Promotion:
    """What one request wants from SSD, in the order of its look-ups."""

    live: Live
    keys: list[bytes] = field(default_factory=list)


@dataclass
class TierJob:
    """An operation of the SSD cache.

    Attributes
    ----------
    kind : {"load", "pinned", "spare"}
        A promotion; a store from a pinned slot; a store from a row without a slot.
    row_of : dict
        Rows that the cache may touch, by key.
    due_s : float
        When it is overdue.
    is_orphan : bool
        Whether a reset has taken its slots: placeholders keep their rows.
    """

    kind: str
    row_of: dict[bytes, int]
    due_s: float
    is_orphan: bool = False
    is_overdue: bool = False


@dataclass
class InSsd:
    """What is known of a request here."""

    request: Request
    told: int = 0  # keys that the cache has heard of
    promoted_in: int | None = None  # step of its promotions
