"""A recording of the fidelity gate: what a server answered, and what it restored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hotset.adapter.gate_client import GateServer
from hotset.adapter.gate_errors import GateError, GateUnprovenError
from hotset.adapter.gate_files import read_json, write_whole
from hotset.adapter.gate_prompts import GatePlan, Question, questions
from hotset.adapter.gate_values import plain_text, whole_tokens

_FORMAT = "hotset-gate-1"


@dataclasses.dataclass(frozen=True)
class GateRecording:
    """What came of a plan.

    Parameters
    ----------
    plan : GatePlan
        What was asked.
    model : str
        Of whom.
    answers : list of str
        In the order of the questions.
    restored_tokens : int or None
        Tokens that came from a KV connector meanwhile; None where the server does not
        count them.

    Raises
    ------
    GateError
        If there are not as many answers as questions, a text is none, or the tokens
        are no whole number.
    """

    plan: GatePlan
    model: str
    answers: list[str]
    restored_tokens: int | None

    def __post_init__(self) -> None:
        wanted = self.plan.sessions * self.plan.turns
        if len(self.answers) != wanted:
            raise GateError(f"{len(self.answers)} answers to {wanted} questions")
        try:
            for text in (self.model, *self.answers):
                plain_text(text)
            if self.restored_tokens is not None:
                whole_tokens(self.restored_tokens)
        except ValueError as error:
            raise GateError(str(error)) from None

    def write(self, path: Path) -> None:
        """Write a file, whole or not at all.

        Raises
        ------
        GateError
            If it cannot be written.
        """
        content = {"format": _FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        write_whole(path, text)

    @classmethod
    def read(cls, path: Path) -> GateRecording:
        """Read a file.

        Raises
        ------
        GateError
            If it is no recording.
        """
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise GateError(f"{path}: not a recording of 'hotset gate record'")
        try:
            return cls._of(content)
        except (KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise GateError(f"{path}: a damaged recording: {why}") from None

    @classmethod
    def _of(cls, content: dict[str, Any]) -> GateRecording:
        plan = GatePlan(**content["plan"])
        answers, restored = content["answers"], content["restored_tokens"]
        if not isinstance(answers, list):
            raise ValueError("answers are no list")
        return cls(
            plan,
            content["model"],
            answers,
            None if restored is None else whole_tokens(restored),
        )


def record(
    server: GateServer,
    plan: GatePlan,
    model: str | None = None,
    users: int = 1,
    on_answer: Callable[[], object] = lambda: None,
) -> GateRecording:
    """Ask a server all questions of a plan.

    Parameters
    ----------
    server : GateServer
        Whom to ask.
    plan : GatePlan
        What.
    model : str, optional
        The model's name; default the first that the server lists.
    users : int
        Questions that are under way at once, of different sessions where there are as
        many.
    on_answer : callable
        Called after each answer.

    Raises
    ------
    GateError
        If the server cannot be reached or refuses, or an answer is no text.
    GateUnprovenError
        If its metrics do not say what it restored.
    """
    if not 1 <= users <= 1000:
        raise GateError(f"users is {users}: allowed is 1 to 1000")
    name = _name(model) if model else server.model()
    before = server.restored_tokens()

    def ask(question: Question) -> str:
        answer = server.complete(name, question.prompt, plan.answer_tokens)
        on_answer()
        return answer

    with ThreadPoolExecutor(users) as pool:
        waiting = [pool.submit(ask, question) for question in questions(plan)]
        try:
            answers = [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    restored = _gained(before, server.restored_tokens())
    return GateRecording(plan, name, answers, restored)


def _name(model: str) -> str:
    try:
        return plain_text(model)
    except ValueError as error:
        raise GateError(f"model: {error}") from None


def _gained(before: int | None, after: int | None) -> int | None:
    if after is None:
        return None
    if after < (before or 0):
        raise GateUnprovenError(
            f"the count of restored tokens fell from {before} to {after}: "
            "the server was started anew meanwhile"
        )
    return after - (before or 0)
