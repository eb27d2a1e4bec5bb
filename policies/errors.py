"""Errors that a caller's input causes."""

from __future__ import annotations


class PolicyError(ValueError):
    """A wrong policy name, parameter or capacity: one clear line."""
