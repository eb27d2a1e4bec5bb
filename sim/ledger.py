"""The trials of a search as Optuna's storage keeps them.

A trial is entered when it begins and told when it ends. Those that a process left under
way are failed; the search begins them again.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotset.sim.candidate import Candidate, from_json
from hotset.sim.workers import Score

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Entry:
    """A trial as it is entered.

    Parameters
    ----------
    place : int
        Its place in the search.
    attempt : int
        1, and one more after each time that its process died.
    candidate : Candidate
        What is tried.
    params, distributions, system : dict
        What Optuna's trial has.
    """

    place: int
    attempt: int
    candidate: Candidate
    params: dict[str, Any]
    distributions: dict[str, Any]
    system: dict[str, Any]


@dataclass(frozen=True)
class Settled:
    """A trial that is over: how it was entered, and what became of it."""

    entry: Entry
    score: Score

    @property
    def place(self) -> int:
        """Its place in the search."""
        return self.entry.place

    @property
    def candidate(self) -> Candidate:
        """What was tried."""
        return self.entry.candidate

    @property
    def fault(self) -> str:
        """Why it failed, "" where it did not."""
        return fault_of(self.score)


def fault_of(score: Score) -> str:
    """Return why there are no values to go by, "" where there are."""
    if score.fault:
        return score.fault
    if not score.values or not all(math.isfinite(value) for value in score.values):
        return f"no finite value: {', '.join(map(str, score.values))}"
    return ""


class Ledger:
    """Enters and settles trials.

    Parameters
    ----------
    study : Study
        The study.
    storage : BaseStorage
        What keeps it.
    """

    def __init__(self, study: Study, storage: BaseStorage) -> None:
        self._study = study
        self._storage = storage
        self._id = storage.get_study_id_from_name(study.study_name)
        self._length = len(study.get_trials(deepcopy=False))

    def begin(self, entry: Entry) -> int:
        """Enter a trial that begins; return its number."""
        from optuna.trial import TrialState, create_trial

        about = {
            "place": entry.place,
            "attempt": entry.attempt,
            "candidate": json.dumps(entry.candidate.as_json()),
        }
        self._study.add_trial(
            create_trial(
                state=TrialState.RUNNING,
                params=entry.params,
                distributions=entry.distributions,
                user_attrs=about,
                system_attrs=entry.system,
            )
        )
        self._length += 1
        return self._length - 1

    def is_settled(self, number: int) -> bool:
        """Return whether it is known what became of a trial."""
        return self._storage.get_trial(self._key(number)).state.is_finished()

    def settle(self, number: int, score: Score) -> None:
        """Enter what became of a trial."""
        from optuna.trial import TrialState

        if fault := fault_of(score):
            told = {"fault": fault, "crashed": score.crashed}
            for name, value in told.items():
                self._note(number, name, value)
            self._study.tell(number, state=TrialState.FAIL)
        else:
            self._study.tell(number, list(score.values))

    def recover(self) -> tuple[dict[int, Settled], dict[int, Entry]]:
        """Fail what was under way; return what is settled and what to begin again.

        Both are by place. A trial whose process died is begun again as often as
        `MOST_ATTEMPTS` allows.
        """
        from optuna.trial import TrialState

        settled: dict[int, Settled] = {}
        again: dict[int, Entry] = {}
        for trial in self._study.get_trials(deepcopy=False):
            entry = _entry_of(trial)
            if not trial.state.is_finished():
                self._study.tell(trial.number, state=TrialState.FAIL)
                again[entry.place] = entry
                continue
            score = _score_of(trial)
            if score is None or (score.crashed and entry.attempt < MOST_ATTEMPTS):
                again.setdefault(entry.place, entry)
            else:
                settled[entry.place] = Settled(entry, score)
        return settled, {
            place: entry for place, entry in again.items() if place not in settled
        }

    def _note(self, number: int, name: str, value: Any) -> None:
        self._storage.set_trial_user_attr(self._key(number), name, value)

    def _key(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._id, number)


def _entry_of(trial: FrozenTrial) -> Entry:
    told = trial.user_attrs
    return Entry(
        place=told["place"],
        attempt=told["attempt"],
        candidate=from_json(json.loads(told["candidate"])),
        params=dict(trial.params),
        distributions=dict(trial.distributions),
        system=dict(trial.system_attrs),
    )


def _score_of(trial: FrozenTrial) -> Score | None:
    """Return what became of a trial that is over; None if it was interrupted."""
    if trial.values is not None:
        return Score(tuple(trial.values))
    if "fault" in trial.user_attrs:
        return Score(
            fault=trial.user_attrs["fault"],
            crashed=trial.user_attrs.get("crashed", False),
        )
    return None
