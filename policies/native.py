"""Calls of compiled kernels from Python at the price of their work.

Called as usual, a kernel first has the types of all its arguments worked out, which for
a state of many arrays costs several microseconds, more than a small batch of keys. A
driver passes the same types each time, so it may ask for the machine code once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def native(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """Return a kernel's machine code for arguments of the types of the examples.

    It does not look at types again: to pass others is to read wrong memory. A function
    that is not compiled is returned as it is.
    """
    if not hasattr(function, "compile"):
        return function
    # What compile returns, not what it files under the signature: a form that comes
    # from the cache may be filed under an equal type of another identity.
    entry: Callable[..., Any] = function.compile(tuple(map(numba.typeof, examples)))
    return entry


class NativeCalls:
    """Functions, each called with arguments of the same types every time."""

    def __init__(self) -> None:
        self._entries: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function by its machine code, compiled when it is not yet."""
        entry = self._entries.get(function)
        if entry is None:
            entry = self._entries[function] = native(function, *arguments)
        return entry(*arguments)
