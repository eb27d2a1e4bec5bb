"""The questions of the fidelity gate: growing conversations that carry a passkey.

Each conversation states a passkey at its beginning, grows by the same scripted text
whatever a server answers, and is asked for the passkey at each turn. So a prompt does
not depend on answers before it: one wrong answer counts once. Conversations take turns,
so that each one's past has been pushed out of a small GPU cache when it comes back.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from hotset.adapter.gate_errors import GateError

_CONSONANTS, _VOWELS = "bdfghjklmnprstvz", "aeiou"
_RANGES = {
    "sessions": (1, 10_000),
    "turns": (2, 1_000),
    "words": (1, 100_000),
    "answer_tokens": (1, 1_000),
    "seed": (0, 2**31 - 1),
}


@dataclasses.dataclass(frozen=True)
class GatePlan:
    """What is asked.

    Parameters
    ----------
    sessions, turns : int
        Conversations, and questions in each.
    words : int
        Words by which a conversation grows in a turn.
    answer_tokens : int
        Length of an answer, tokens.
    seed : int
        Of the words and the passkeys.

    Raises
    ------
    GateError
        If a number is not whole or out of its range.
    """

    sessions: int = 16
    turns: int = 6
    words: int = 200
    answer_tokens: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int:
                raise GateError(f"{name} is no whole number")
            if not low <= value <= high:
                raise GateError(f"{name} is {value}: allowed is {low} to {high}")


@dataclasses.dataclass(frozen=True)
class Question:
    """One request, and the passkey that its answer should hold."""

    session: int
    turn: int
    prompt: str
    passkey: str


def questions(plan: GatePlan) -> Iterator[Question]:
    """Yield the questions of a plan: the first of each session, then the second..."""
    draw = random.Random(plan.seed)
    keys = [f"{draw.randrange(100_000, 1_000_000)}" for _ in range(plan.sessions)]
    told = [
        f"User: Conversation {i}. The passkey is {key}. Keep it in mind.\n"
        for i, key in enumerate(keys)
    ]
    for turn in range(plan.turns):
        for session, key in enumerate(keys):
            words = " ".join(_word(draw) for _ in range(plan.words))
            told[session] += f"User: {words}\nAssistant: Go on.\n"
            prompt = told[session] + "User: What is the passkey?\nAssistant: It is"
            yield Question(session, turn, prompt, key)


def _word(draw: random.Random) -> str:
    syllables = draw.randint(1, 3)
    return "".join(
        draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(syllables)
    )
