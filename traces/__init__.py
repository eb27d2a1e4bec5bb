"""Request traces: model, readers, generators, statistics."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hotset.traces.errors import RowErrors, TraceError

if TYPE_CHECKING:
    from hotset.traces.files import atomic_write, check_writable
    from hotset.traces.model import Accesses, Provenance, Trace
    from hotset.traces.registry import read_trace, sample_path
    from hotset.traces.stats import Ceiling, ceiling
    from hotset.traces.write import write_trace

__all__ = [
    "Accesses",
    "Ceiling",
    "Provenance",
    "RowErrors",
    "Trace",
    "TraceError",
    "atomic_write",
    "ceiling",
    "check_writable",
    "read_trace",
    "sample_path",
    "write_trace",
]

# Loaded on use: the command line imports this package for its names and errors.
_HOMES = {
    "Accesses": "model",
    "Ceiling": "stats",
    "Provenance": "model",
    "Trace": "model",
    "atomic_write": "files",
    "ceiling": "stats",
    "check_writable": "files",
    "read_trace": "registry",
    "sample_path": "registry",
    "write_trace": "write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
