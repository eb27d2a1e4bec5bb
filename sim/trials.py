"""The search itself: trials in batches, told to the sampler in order.

Every trial has a place in the search. The trials of a batch are chosen by what the
batches before it got and by nothing of their own batch, whatever the number of workers
and whatever happened in between: the same seed gives the same trials on one worker or
many, in one run or in several.

The sampler sees a study of its own, in memory. Optuna's storage is a ledger: it learns
of every trial's beginning and, as soon as it is known, of its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import replace

from hotset.sim.candidate import Candidate
from hotset.sim.ledger import MOST_ATTEMPTS, Entry, Ledger, Settled
from hotset.sim.objectives import Objective
from hotset.sim.samplers import make_sampler
from hotset.sim.space import Space
from hotset.sim.workers import Score, Workers

BATCH = 8


class Search:
    """A search from where its ledger stands.

    Parameters
    ----------
    ledger : Ledger
        Keeps the trials.
    space : Space
        What may be tried.
    objectives : sequence of Objective
        What is optimised.
    first : sequence of Candidate
        What is tried first.
    sampler : str
        Name of the sampler.
    seed : int
        Seed.
    """

    def __init__(
        self,
        ledger: Ledger,
        space: Space,
        objectives: Sequence[Objective],
        first: Sequence[Candidate],
        sampler: str,
        seed: int,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._ledger, self._space, self._first = ledger, space, first
        self._sampler, self._seed = sampler, seed
        directions = [each.direction for each in objectives]
        self._seen = optuna.create_study(directions=directions)
        self._done, self._again = ledger.recover()
        self._known = {
            each.candidate.label: each.score
            for each in self._done.values()
            if not each.score.crashed
        }
        self.settled: list[Settled] = []

    @property
    def num_known(self) -> int:
        """Trials that earlier runs settled."""
        return len(self._done)

    def run(
        self,
        workers: Workers,
        trials: int,
        timeout_s: float | None = None,
        progress: Callable[[Sequence[Settled]], None] | None = None,
    ) -> bool:
        """Search until there are that many trials; return whether there are.

        Parameters
        ----------
        workers : Workers
            Runs candidates.
        trials : int
            Trials in all, those of earlier runs included.
        timeout_s : float, optional
            Seconds after which no batch is begun.
        progress : callable, optional
            Told the trials so far, after each batch.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        for begin in range(0, trials, BATCH):
            places = range(begin, min(begin + BATCH, trials))
            is_new = any(place not in self._done for place in places)
            if is_new and end is not None and time.monotonic() >= end:
                return False
            batch = self._run_batch(places, workers)
            self.settled += batch
            for each in batch:
                self._show(each)
            if is_new and progress is not None:
                progress(self.settled)
        return True

    def _run_batch(self, places: Sequence[int], workers: Workers) -> list[Settled]:
        """Run what is not known of a batch; return all of it."""
        under_way: dict[Future[Score], tuple[int, Entry]] = {}
        settled_now: set[Future[Score]] = set()
        try:
            for place in places:
                if place not in self._done:
                    entry = self._again.pop(place, None) or self._choose(place)
                    number = self._ledger.begin(entry)
                    under_way[self._submit(entry, workers)] = number, entry
            for future in as_completed(under_way):
                self._settle(*under_way[future], future.result())
                settled_now.add(future)
        except BaseException:
            # Interrupted: what is finished counts all the same.
            for future, (number, entry) in under_way.items():
                is_over = future.done() and not future.cancelled()
                is_told = future in settled_now or self._ledger.is_settled(number)
                if is_over and not is_told:
                    self._settle(number, entry, future.result())
            raise
        for place in places:
            while place not in self._done:
                # Alone, so that it is clear whose fault a dead process is.
                entry = self._again.pop(place)
                number = self._ledger.begin(entry)
                self._settle(number, entry, self._submit(entry, workers).result())
        return [self._done[place] for place in places]

    def _choose(self, place: int) -> Entry:
        """Choose what is tried at a place."""
        seen = self._seen
        seen.sampler = make_sampler(self._sampler, self._seed, place)
        given = self._first[place] if place < len(self._first) else None
        if given is not None:
            seen.enqueue_trial(self._space.values_of(given) or {})
        trial = seen.ask()
        if given is None or self._space.values_of(given) is not None:
            given = self._space.choose(trial)
        frozen = seen.get_trials(deepcopy=False)[trial.number]
        return Entry(
            place=place,
            attempt=1,
            candidate=given,
            params=dict(frozen.params),
            distributions=dict(frozen.distributions),
            system=dict(frozen.system_attrs),
        )

    def _submit(self, entry: Entry, workers: Workers) -> Future[Score]:
        known = self._known.get(entry.candidate.label)
        if known is None:
            return workers.submit(entry.candidate)
        future: Future[Score] = Future()
        future.set_result(known)
        return future

    def _settle(self, number: int, entry: Entry, score: Score) -> None:
        self._ledger.settle(number, score)
        if score.crashed and entry.attempt < MOST_ATTEMPTS:
            self._again[entry.place] = replace(entry, attempt=entry.attempt + 1)
            return
        self._done[entry.place] = Settled(entry, score)
        if not score.crashed:
            self._known[entry.candidate.label] = score

    def _show(self, settled: Settled) -> None:
        """Let the sampler see a trial."""
        from optuna.trial import TrialState, create_trial

        entry = settled.entry
        self._seen.add_trial(
            create_trial(
                state=TrialState.FAIL if settled.fault else TrialState.COMPLETE,
                values=None if settled.fault else list(settled.score.values),
                params=entry.params,
                distributions=entry.distributions,
                system_attrs=entry.system,
            )
        )


def best_of(settled: Sequence[Settled], objectives: Sequence[Objective]) -> Settled:
    """Return the trial that is best in the first objective; of equal ones the first.

    Raises
    ------
    ValueError
        If all trials failed.
    """
    return front_of(settled, objectives)[0]


def front_of(
    settled: Sequence[Settled], objectives: Sequence[Objective]
) -> list[Settled]:
    """Return the trials that no other one equals or beats in all objectives.

    Of equal ones the first is taken. They are in order of the first objective; those
    that failed are never among them.

    Raises
    ------
    ValueError
        If all trials failed.
    """
    able = [each for each in settled if not each.fault]
    if not able:
        raise ValueError("all trials failed")
    losses = {each.place: _losses(each, objectives) for each in able}
    front: list[Settled] = []
    for each in sorted(able, key=lambda one: (losses[one.place], one.place)):
        if not any(
            all(
                a <= b
                for a, b in zip(losses[one.place], losses[each.place], strict=True)
            )
            for one in front
        ):
            front.append(each)
    return front


def _losses(settled: Settled, objectives: Sequence[Objective]) -> tuple[float, ...]:
    return tuple(
        -value if objective.is_gain else value
        for value, objective in zip(settled.score.values, objectives, strict=True)
    )
