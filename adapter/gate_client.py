"""What the fidelity gate asks of an OpenAI-compatible server, over HTTP."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from hotset.adapter import gate_metrics
from hotset.adapter.gate_errors import GateError, GateUnprovenError
from hotset.adapter.gate_values import plain_text

_LONGEST_S = 86_400.0


class GateServer:
    """A server under test.

    Parameters
    ----------
    address : str
        Where it listens, as ``http://HOST:PORT``.
    metrics : str, optional
        Where its metrics are; default ``/metrics`` there.
    timeout_s : float
        How long one answer may take, seconds; a day at the most.

    Raises
    ------
    GateError
        If an address is none, or the time is out of its range.
    """

    def __init__(
        self, address: str, metrics: str | None = None, timeout_s: float = 600.0
    ) -> None:
        self.address = address.rstrip("/")
        self.metrics = metrics or f"{self.address}/metrics"
        self.timeout_s = timeout_s
        for place in (self.address, self.metrics):
            if not place.startswith(("http://", "https://")):
                raise GateError(f"{place}: an address begins with http:// or https://")
        if not 0.0 < timeout_s <= _LONGEST_S:
            raise GateError(
                f"timeout is {timeout_s}: allowed is above 0, up to {_LONGEST_S:.0f} s"
            )

    def model(self) -> str:
        """Return the name of the model that it serves."""
        served = _object(self._get(f"{self.address}/v1/models"), "the list of models")
        try:
            return plain_text(served["data"][0]["id"])
        except (KeyError, IndexError, TypeError, ValueError):
            raise GateError(f"{self.address}/v1/models names no model") from None

    def restored_tokens(self) -> int | None:
        """Return the tokens that came from a KV connector; None where not counted.

        Raises
        ------
        GateUnprovenError
            If the metrics cannot be had, or their count is none.
        """
        try:
            page = self._get(self.metrics)
        except GateError as error:
            raise GateUnprovenError(
                f"no metrics at {error}; --metrics says where they are"
            ) from None
        return gate_metrics.restored_tokens(page)

    def complete(self, model: str, prompt: str, max_tokens: int) -> str:
        """Return the greedy completion of a prompt."""
        asked = {
            "model": model,
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "seed": 0,
        }
        address = f"{self.address}/v1/completions"
        request = urllib.request.Request(
            address,
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        answer = _object(self._get(request), address)
        try:
            text = answer["choices"][0]["text"]
        except (KeyError, IndexError, TypeError):
            raise GateError(f"{address}: an answer without text") from None
        try:
            return plain_text(text)
        except ValueError as error:
            raise GateError(f"{address}: an answer that is wrong: {error}") from None

    def _get(self, request: str | urllib.request.Request) -> str:
        place = request if isinstance(request, str) else request.full_url
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                return str(answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            raise GateError(f"{place}: HTTP {error.code}: {_said(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GateError(f"{place}: {reason or type(error).__name__}") from None
        except ValueError as error:
            raise GateError(f"{place}: no address: {error}") from None


def _said(error: urllib.error.HTTPError) -> str:
    try:
        with error:
            said = error.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return "and no more"
    return " ".join(said.split())[:300]


def _object(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise GateError(f"{place}: no JSON: {text[:100]!r}") from None
