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
    restored_tokens : int
        Tokens that came from a KV connector.
    divergences, allowed : int or None
        Answers unlike the baseline's, and how many may be; None where the recordings
        are not of the same questions to the same model.
    passkeys, passkeys_lost : int or None
        Answers of the baseline that hold their passkey, and those of them that the
        offloading server gave without it; None as above.
    """

    outcome: str
    reason: str
    restored_tokens: int
    divergences: int | None = None
    allowed: int | None = None
    passkeys: int | None = None
    passkeys_lost: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all of it."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class _Counts:
    differing: int
    allowed: int
    known: int
    lost: int


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
        Whether no answer may differ; passkeys do not matter then.

    Raises
    ------
    GateError
        If the control is missing.
    """
    if control is None and not exact:
        raise GateError(
            "a control recording is needed: record the server without offloading once "
            "more, or ask for --exact"
        )
    restored = offload.restored_tokens or 0
    for name, other in (("offload", offload), ("control", control)):
        unlike = None if other is None else _unlike(baseline, other)
        if unlike is not None:
            reason = f"the {name} recording is of {unlike}"
            return GateVerdict(UNPROVEN, reason, restored)
    counts = _count(baseline, offload, control, exact)
    outcome, reason = (
        _doubt_reference(baseline, control)
        or _doubt_answers(baseline, counts, exact)
        or _judge(offload, counts, exact)
    )
    return GateVerdict(
        outcome,
        reason,
        restored,
        counts.differing,
        counts.allowed,
        counts.known,
        counts.lost,
    )


def _unlike(baseline: GateRecording, other: GateRecording) -> str | None:
    if other.plan != baseline.plan:
        return f"other questions than the baseline: {other.plan}"
    if other.model != baseline.model:
        return f"model {other.model!r}, the baseline of {baseline.model!r}"
    return None


def _count(
    baseline: GateRecording,
    offload: GateRecording,
    control: GateRecording | None,
    exact: bool,
) -> _Counts:
    noise = 0 if control is None else _divergences(baseline, control)
    keys = [question.passkey for question in questions(baseline.plan)]
    known = [i for i, key in enumerate(keys) if key in baseline.answers[i]]
    return _Counts(
        differing=_divergences(baseline, offload),
        allowed=0 if exact else math.floor(noise + 2 * math.sqrt(noise + 1)),
        known=len(known),
        lost=sum(keys[i] not in offload.answers[i] for i in known),
    )


def _doubt_reference(
    baseline: GateRecording, control: GateRecording | None
) -> tuple[str, str] | None:
    for name, one in (("baseline", baseline), ("control", control)):
        if one is None or one.restored_tokens == 0:
            continue
        if one.restored_tokens is None:
            return UNPROVEN, (
                f"the {name} is of a server that does not count what it restores, so "
                "it may have been offloading itself"
            )
        return UNPROVEN, (
            f"the {name} was served from an offloading tier itself: "
            f"{one.restored_tokens} tokens were restored"
        )
    return None


def _doubt_answers(
    baseline: GateRecording, counts: _Counts, exact: bool
) -> tuple[str, str] | None:
    asked = len(baseline.answers)
    if not any(answer.strip() for answer in baseline.answers):
        return UNPROVEN, "every answer of the baseline is empty"
    if counts.known < asked and not exact:
        return UNPROVEN, (
            f"the baseline itself misses {asked - counts.known} of {asked} passkeys: "
            "record a shorter plan or a better model, or ask for --exact"
        )
    return None


def _judge(offload: GateRecording, counts: _Counts, exact: bool) -> tuple[str, str]:
    if counts.lost and not exact:
        return FAIL, (
            f"{counts.lost} of {counts.known} passkeys were lost with offloading"
        )
    if counts.differing > counts.allowed:
        asked = len(offload.answers)
        return FAIL, (
            f"{counts.differing} of {asked} answers differ, {counts.allowed} may"
        )
    if offload.restored_tokens is None:
        return UNPROVEN, "the server does not count what it restores"
    if offload.restored_tokens == 0:
        return UNPROVEN, (
            "nothing was restored: ask more sessions than the GPU cache holds"
        )
    return PASS, (
        f"{offload.restored_tokens} tokens were restored and {counts.differing} "
        f"answers differ, {counts.allowed} may"
    )


def _divergences(one: GateRecording, other: GateRecording) -> int:
    return sum(a != b for a, b in zip(one.answers, other.answers, strict=True))
