"""What the fidelity gate asks of an OpenAI-compatible server, over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from typing import Any

from hotset.adapter.gate_errors import GateError

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})?\s+(\S+)", re.MULTILINE)
# Tokens that came from a connector, of any kind, in every supported vLLM.
RESTORED = "vllm:external_prefix_cache_hits_total"


class GateServer:
    """A server under test.

    Parameters
    ----------
    address : str
        Where it listens, as ``http://HOST:PORT``.
    metrics : str, optional
        Where its metrics are; default ``/metrics`` there.
    timeout_s : float
        How long one answer may take, seconds.
    """

    def __init__(
        self, address: str, metrics: str | None = None, timeout_s: float = 600.0
    ) -> None:
        self.address = address.rstrip("/")
        self.metrics = metrics or f"{self.address}/metrics"
        self.timeout_s = timeout_s

    def model(self) -> str:
        """Return the name of the model that it serves."""
        served = _object(self._get(f"{self.address}/v1/models"), "the list of models")
        try:
            return str(served["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise GateError(f"{self.address}/v1/models names no model") from None

    def restored_tokens(self) -> float | None:
        """Return the tokens that came from a KV connector; None where not counted."""
        text = self._get(self.metrics)
        found = [value for name, value in _SAMPLE.findall(text) if name == RESTORED]
        return sum(float(value) for value in found) if found else None

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
            return str(answer["choices"][0]["text"])
        except (KeyError, IndexError, TypeError):
            raise GateError(f"{address}: an answer without text") from None

    def _get(self, request: str | urllib.request.Request) -> str:
        place = request if isinstance(request, str) else request.full_url
        if not place.startswith(("http://", "https://")):
            raise GateError(f"{place}: an address begins with http:// or https://")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                return str(answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(2000).decode(errors="replace").strip()
            raise GateError(f"{place}: HTTP {error.code}: {said[:300]}") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise GateError(f"{place}: {reason or type(error).__name__}") from None


def _object(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise GateError(f"{place}: no JSON: {text[:100]!r}") from None
