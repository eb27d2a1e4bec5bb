"""What each kind of result says on a page: verdict, pictures, tables, origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hotset.policies.errors import PolicyError
from hotset.sim.page_hits import read_compare, read_mrc, read_replay
from hotset.sim.page_places import read_map, read_size
from hotset.sim.page_said import Said, Values
from hotset.sim.page_shapes import SHAPES
from hotset.sim.page_times import read_simulate, read_tune

# What a result that fits its shape may still be, such as two lists of other lengths.
ODD = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

_KEYS = {
    "regime-map": ("x_values", "cells"),
    "mrc": ("lru_curve", "runs"),
    "tune": ("verdict", "evidence"),
    "compare": ("traces", "cells"),
    "simulate": ("profile", "runs"),
    "replay": ("trace", "runs"),
    "size": ("tiers", "layers"),
}
_READERS: dict[str, Callable[[Values, Said], None]] = {
    "replay": read_replay,
    "mrc": read_mrc,
    "tune": read_tune,
    "compare": read_compare,
    "simulate": read_simulate,
    "regime-map": read_map,
    "size": read_size,
}


def read(values: Any, name: str) -> Said:
    """Return what a result says.

    Raises
    ------
    PolicyError
        If no command of hotset writes such a file, or a part of it is not there.
    """
    kind = next(
        (
            kind
            for kind, keys in _KEYS.items()
            if isinstance(values, dict) and all(key in values for key in keys)
        ),
        None,
    )
    if kind is None:
        raise PolicyError(f"{name}: no result of {', '.join(_KEYS)}")
    try:
        SHAPES[kind](values, "")
        said = Said(
            kind,
            settings=dict(values.get("settings", {})),
            warnings=list(values.get("warnings", [])),
        )
        made_by = values.get("provenance", {})
        said.made_by = [(key, made_by.get(key)) for key in ("hotset", "command")]
        _READERS[kind](values, said)
        said.shown_settings = settings_rows(said.settings)
    except PolicyError as error:
        raise PolicyError(f"{name}: not a whole result of {kind}: {error}") from None
    except ODD:
        raise PolicyError(f"{name}: not a whole result of {kind}") from None
    return said


def settings_rows(settings: Values) -> list[tuple[str, str]]:
    """Return settings that are there, as rows of a table."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            inner = settings_rows(value)
            rows += [(f"{name}: {key}", shown) for key, shown in inner]
        elif isinstance(value, list):
            rows.append((name, ", ".join(map(str, value))))
        elif value is not None:
            rows.append((name, str(value)))
    return rows
