"""What the SSD tier counts, from its start on; nothing in here ever falls.

Each look-up has one outcome: ``lookups`` "hit" or "miss". Of keys that are loaded,
``loads`` says how they ended, of keys offered, ``stores``; ``evictions`` and ``bytes``
say the rest.
"""

from __future__ import annotations

import logging
from collections import Counter

_LOG = logging.getLogger(__name__)

Counts = Counter[tuple[str, str]]
WARN_STORES = 10_000


class StoreWarning:
    """Says once that much is stored and nothing is ever loaded."""

    def __init__(self) -> None:
        self._may_warn = True

    def look(self, counts: Counts) -> None:
        """Warn where that is so."""
        if not self._may_warn:
            return
        if counts["loads", "done"]:
            self._may_warn = False
        elif counts["stores", "done"] >= WARN_STORES:
            self._may_warn = False
            _LOG.warning(
                "hotset: %d blocks were stored in the SSD tier and none was loaded: no "
                "prompt comes back once the CPU tier has lost it (then this tier only "
                "wears the disk), the CPU tier is large enough, or keys differ between "
                "servers (PYTHONHASHSEED, model, layout)",
                counts["stores", "done"],
            )
