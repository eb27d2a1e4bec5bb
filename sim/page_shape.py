"""What a result's JSON must look like to be shown, and where one does not.

A check takes a value and the way to it, and raises `PolicyError` where it does not fit.
Only what a page shows is checked; whatever else a file holds is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hotset.policies.errors import PolicyError

Check = Callable[[Any, str], None]

_MOST = 1e18


def _wrong(way: str, value: Any, allowed: str) -> PolicyError:
    shown = repr(value)
    short = shown if len(shown) <= 40 else f"{shown[:37]}..."
    return PolicyError(f"{way or 'it'} is {short}, {allowed} is needed")


def text(value: Any, way: str) -> None:
    """Check that it is a text."""
    if not isinstance(value, str):
        raise _wrong(way, value, "a text")


def truth(value: Any, way: str) -> None:
    """Check that it is true or false."""
    if not isinstance(value, bool):
        raise _wrong(way, value, "true or false")


def number(value: Any, way: str, least: float = -_MOST, most: float = _MOST) -> None:
    """Check that it is a finite number within bounds."""
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= most or not math.isfinite(value):
        raise _wrong(way, value, f"a number from {least:g} to {most:g}")


def whole(value: Any, way: str, least: int = 0) -> None:
    """Check that it is a whole number, 0 or more."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(way, value, "a whole number")
    number(value, way, least)


def positive(value: Any, way: str) -> None:
    """Check that it is a whole number, 1 or more."""
    whole(value, way, 1)


def amount(value: Any, way: str) -> None:
    """Check that it is a number, 0 or more."""
    number(value, way, 0)


def ratio(value: Any, way: str) -> None:
    """Check that it is a number from 0 to 1."""
    number(value, way, 0, 1)


def anything(value: Any, way: str) -> None:
    """Take whatever is there."""


def one_of(names: Sequence[str | None]) -> Check:
    """Return a check that it is one of these."""

    def check(value: Any, way: str) -> None:
        if not isinstance(value, str | None) or value not in names:
            known = ", ".join("null" if name is None else name for name in names)
            raise _wrong(way, value, f"one of {known}")

    return check


def optional(check: Check) -> Check:
    """Return a check that also takes null."""

    def checked(value: Any, way: str) -> None:
        if value is not None:
            check(value, way)

    return checked


def each(check: Check, least: int = 0) -> Check:
    """Return a check of a list's elements."""

    def checked(value: Any, way: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise _wrong(way, value, f"a list of at least {least}")
        for i, element in enumerate(value):
            check(element, f"{way}[{i}]")

    return checked


def every(check: Check) -> Check:
    """Return a check of the values of an object, whatever they are called."""

    def checked(value: Any, way: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(way, value, "an object")
        for name, element in value.items():
            check(element, f"{way}.{name[:40]}")

    return checked


def fields(maybe: dict[str, Check] | None = None, /, **checks: Check) -> Check:
    """Return a check of an object's fields; those of ``maybe`` may be absent."""

    def checked(value: Any, way: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(way, value, "an object")
        for name, check in checks.items():
            place = f"{way}.{name}" if way else name
            if name not in value:
                raise PolicyError(f"{place} is not there")
            check(value[name], place)
        for name, check in (maybe or {}).items():
            if name in value:
                check(value[name], f"{way}.{name}" if way else name)

    return checked
