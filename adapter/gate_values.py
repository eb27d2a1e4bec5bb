"""What a number and a text of the fidelity gate must be, whoever brings it."""

from __future__ import annotations

# A float counts no further without gaps.
_MOST_TOKENS = 2**53


def whole_tokens(value: object) -> int:
    """Return a count of tokens.

    Raises
    ------
    ValueError
        If it is no whole number, or below zero, or beyond what can be counted.
    """
    # Not isinstance(): true and false are no counts.
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value <= _MOST_TOKENS:
        raise ValueError(f"{_short(value)} is no whole number of tokens")
    return value


def plain_text(value: object) -> str:
    """Return a text that a file can hold.

    Raises
    ------
    ValueError
        If it is no text, or holds half a surrogate pair.
    """
    if not isinstance(value, str):
        raise ValueError(f"{_short(value)} is no text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{ascii(value)[:100]} holds half a surrogate pair") from None
    return value


def _short(value: object) -> str:
    # Of a list the type: it may be nested deeper than repr() goes.
    shown = repr(value) if isinstance(value, (int, float, str)) else type(value)
    return str(shown)[:100]
