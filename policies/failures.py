"""What is said of a policy or rule that failed."""

from __future__ import annotations

import logging

_LOG = logging.getLogger(__name__)


def log_failure(kind: str, name: str, outcome: str, error: Exception | str) -> None:
    """Log a failure: of what kind of thing, which one, and what happens now."""
    cause = error if isinstance(error, Exception) else None
    _LOG.error("%s %s failed, %s: %s", kind, name, outcome, error, exc_info=cause)
