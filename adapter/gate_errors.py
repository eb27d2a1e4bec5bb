"""Errors of the fidelity gate."""

from hotset.policies.errors import PolicyError


class GateError(PolicyError):
    """A wrong plan, recording or server of the gate's: one clear line."""


class GateUnprovenError(GateError):
    """What a server counts says nothing of what it restored."""
