"""A recording of the fidelity gate: what a server answered, and what it restored."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hotset.adapter.gate_client import GateServer
from hotset.adapter.gate_errors import GateError
from hotset.adapter.gate_prompts import GatePlan, Question, questions

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
    restored_tokens : float or None
        Tokens that came from a KV connector meanwhile; None where the server does not
        count them.
    """

    plan: GatePlan
    model: str
    answers: list[str]
    restored_tokens: float | None

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
        try:
            content = json.loads(path.read_text())
        except OSError as error:
            raise GateError(f"{path}: {error.strerror}") from None
        except ValueError:
            raise GateError(f"{path}: no JSON") from None
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise GateError(f"{path}: not a recording of 'hotset gate record'")
        try:
            return cls._of(content)
        except (KeyError, TypeError, ValueError) as error:
            raise GateError(f"{path}: a damaged recording: {error}") from None

    @classmethod
    def _of(cls, content: dict[str, Any]) -> GateRecording:
        plan = GatePlan(**content["plan"])
        answers = [str(answer) for answer in content["answers"]]
        if len(answers) != plan.sessions * plan.turns:
            raise ValueError(f"{len(answers)} answers")
        restored = content["restored_tokens"]
        return cls(
            plan,
            str(content["model"]),
            answers,
            None if restored is None else float(restored),
        )


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    GateError
        If it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            temporary.write_text(text)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise GateError(f"{path}: {error.strerror}") from None


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
        If the server cannot be reached or refuses.
    """
    if not 1 <= users <= 1000:
        raise GateError(f"users is {users}: allowed is 1 to 1000")
    name = model or server.model()
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
    after = server.restored_tokens()
    restored = None if after is None else after - (before or 0.0)
    return GateRecording(plan, name, answers, restored)
