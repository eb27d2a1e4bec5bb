"""The fidelity gate's verdict on whether offloading changes what a model says."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from hotset.adapter.gate_errors import GateError
from hotset.adapter.gate_prompts import questions
from hotset.adapter.gate_recording import GateRecording

PASS, FAIL, UNPROVEN = "pass", "fail", "unproven"


@dataclasses.dataclass(frozen=True)
class GateVerdict:
    """What a comparison says.

    Parameters
    ----------
    outcome : str
        ``pass``, ``fail`` or ``unproven``.
    reason : str
        Why, in one sentence.
    divergences, allowed : int
        Answers unlike the baseline's, and how many may be.
    passkeys, passkeys_lost : int
        Answers of the baseline that hold their passkey, and those of them that the
        offloading server gave without it.
    restored_tokens : float
        Tokens that came from a KV connector.
    """

    outcome: str
    reason: str
    divergences: int
    allowed: int
    passkeys: int
    passkeys_lost: int
    restored_tokens: float

    def as_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return dataclasses.asdict(self)


def compare(
    baseline: GateRecording,
    offload: GateRecording,
    control: GateRecording | None = None,
    exact: bool = False,
) -> GateVerdict:
    """Judge a recording with offloading by one without.

    Parameters
    ----------
    baseline, offload : GateRecording
        Of a server without offloading, and of one with it.
    control : GateRecording, optional
        Of the server without offloading once more: how far its answers vary when they
        are computed again. Needed unless ``exact``.
    exact : bool
        Whether no answer may differ.

    Raises
    ------
    GateError
        If the recordings are of different questions or models, or one is missing.
    """
    if control is None and not exact:
        raise GateError(
            "a control recording is needed: record the server without offloading once "
            "more, or ask for --exact"
        )
    for name, other in (("offload", offload), ("control", control)):
        _check_alike(baseline, other, name)
    noise = 0 if control is None else _divergences(baseline, control)
    allowed = 0 if exact else math.floor(noise + 2 * math.sqrt(noise + 1))
    differing = _divergences(baseline, offload)
    keys = [question.passkey for question in questions(baseline.plan)]
    known = [i for i, key in enumerate(keys) if key in baseline.answers[i]]
    lost = sum(keys[i] not in offload.answers[i] for i in known)
    outcome, reason = _judge(baseline, offload, differing, allowed, len(known), lost)
    if outcome == PASS and not exact and not known:
        outcome = UNPROVEN
        reason = "the model knows no passkey without offloading either; try --exact"
    return GateVerdict(
        outcome,
        reason,
        differing,
        allowed,
        len(known),
        lost,
        offload.restored_tokens or 0.0,
    )


def _judge(
    baseline: GateRecording,
    offload: GateRecording,
    differing: int,
    allowed: int,
    known: int,
    lost: int,
) -> tuple[str, str]:
    if lost:
        return FAIL, f"{lost} of {known} passkeys were lost with offloading"
    if differing > allowed:
        count = len(baseline.answers)
        return FAIL, f"{differing} of {count} answers differ, {allowed} may"
    if baseline.restored_tokens:
        return UNPROVEN, "the baseline was served from an offloading tier itself"
    if offload.restored_tokens is None:
        return UNPROVEN, "the server does not count what it restores"
    if offload.restored_tokens <= 0:
        return UNPROVEN, (
            "nothing was restored: ask more sessions than the GPU cache holds"
        )
    return PASS, (
        f"{offload.restored_tokens:.0f} tokens were restored and {differing} answers "
        f"differ, {allowed} may"
    )


def _check_alike(
    baseline: GateRecording, other: GateRecording | None, name: str
) -> None:
    if other is None:
        return
    if other.plan != baseline.plan:
        raise GateError(f"the {name} recording is of other questions: {other.plan}")
    if other.model != baseline.model:
        raise GateError(
            f"the {name} recording is of model {other.model!r}, the baseline of "
            f"{baseline.model!r}"
        )


def _divergences(one: GateRecording, other: GateRecording) -> int:
    return sum(a != b for a, b in zip(one.answers, other.answers, strict=True))
