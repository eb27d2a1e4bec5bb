"""The tokens that came from a KV connector, out of a server's metrics."""

from __future__ import annotations

import re

from hotset.adapter.gate_errors import GateUnprovenError
from hotset.adapter.gate_values import whole_tokens

# Tokens that came from a connector, of any kind, in every supported vLLM.
RESTORED = "vllm:external_prefix_cache_hits_total"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
# A quoted value holds anything; a backslash takes the next character with it.
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*[ \t]*=[ \t]*"(?:[^"\\]|\\.)*"[ \t]*'
_LABELS = rf"\{{[ \t]*(?:{_LABEL}(?:,[ \t]*{_LABEL})*(?:,[ \t]*)?)?\}}[ \t]*"
# What may follow the value is a time and an exemplar.
_REST = re.compile(rf"(?:[ \t]*{_LABELS}|[ \t]+)([^ \t]+)(?:[ \t].*)?")


def restored_tokens(page: str) -> int | None:
    """Return the sum of the counter over engines; None where it is not on the page.

    Parameters
    ----------
    page : str
        Metrics in the text format of Prometheus.

    Raises
    ------
    GateUnprovenError
        If a sample of it is no whole number of tokens.
    """
    counts = []
    # Not splitlines(): a label's value may hold other characters that end a line.
    for line in page.split("\n"):
        line = line.strip(" \t\r")
        name = _NAME.match(line)
        if name is not None and name[0] == RESTORED:
            counts.append(_count(line, line[name.end() :]))
    return sum(counts) if counts else None


def _count(line: str, rest: str) -> int:
    sample = _REST.fullmatch(rest)
    if sample is None:
        raise GateUnprovenError(f"the metrics have a line that is none: {line[:200]!r}")
    try:
        return whole_tokens(float(sample[1]))
    except ValueError:
        raise GateUnprovenError(
            f"{RESTORED} is {sample[1][:100]!r}: no whole number of tokens"
        ) from None
