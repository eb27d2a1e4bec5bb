"""The search: the same trials whatever happens in between, and no bad one wins."""

import math

import pytest
from support.tuning import Fake, merit, plan, search, told

from hotset.policies.errors import PolicyError
from hotset.sim.ledger import MOST_ATTEMPTS, Ledger
from hotset.sim.samplers import SAMPLERS, check_sampler
from hotset.sim.trial_store import check_storage, open_study
from hotset.sim.trials import BATCH, best_of, front_of
from hotset.sim.workers import Score


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_seed_same_trials(sampler):
    asked = plan(sampler=sampler, trials=24)
    one, again = (told(search(asked, Fake(merit))) for _ in range(2))
    assert one == again
    other = told(search(plan(sampler=sampler, trials=24, seed=1), Fake(merit)))
    assert other[:3] == one[:3]  # what is tried first
    assert other != one
    assert [place for place, _, _ in one] == list(range(24))


@pytest.mark.parametrize("sampler", ["tpe", "nsgaii"])
def test_resumed_equals_uninterrupted(sampler, tmp_path):
    """Interrupted at every evaluation of three batches, then gone on with."""
    asked = plan(sampler=sampler, trials=3 * BATCH - 3)
    whole = Fake(merit)
    expected = told(search(asked, whole))
    assert whole.calls > BATCH
    for at in range(1, whole.calls + 1):
        journal = str(tmp_path / f"{at}.journal")
        with pytest.raises(KeyboardInterrupt):
            search(asked, Fake(merit, interrupt_at=at), journal)
        rest = Fake(merit)
        assert told(search(asked, rest, journal)) == expected
        # What was finished is not run again.
        # Neither is what turned out equal to it.
        assert rest.calls <= whole.calls - (at - 1)


def test_more_trials_than_before_go_on_as_if_asked_for_at_once(tmp_path):
    asked, journal = plan(), str(tmp_path / "j")
    expected = told(search(asked, Fake(merit), trials=30))
    for trials in (3, 11, 20, 30):
        found = told(search(asked, Fake(merit), journal, trials))
        assert found == expected[:trials]


def test_interrupted_many_times(tmp_path):
    asked, journal = plan(trials=20), str(tmp_path / "j")
    expected = told(search(asked, Fake(merit)))
    for _ in range(100):
        try:
            found = told(search(asked, Fake(merit, interrupt_at=2), journal))
            break
        except KeyboardInterrupt:
            continue
    assert found == expected


def test_interrupted_while_a_result_is_written(tmp_path, monkeypatch):
    """The trial was told already: it is not told again, and nothing else is lost."""
    asked, journal = plan(trials=20), str(tmp_path / "j")
    expected = told(search(asked, Fake(merit)))
    settle, calls = Ledger.settle, []

    def settle_and_stop(self, number, score):
        settle(self, number, score)
        calls.append(number)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "settle", settle_and_stop)
    with pytest.raises(KeyboardInterrupt):
        search(asked, Fake(merit), journal)
    monkeypatch.undo()
    rest = Fake(merit)
    assert told(search(asked, rest, journal)) == expected
    assert rest.calls <= 20 - 5


def test_what_optuna_keeps(tmp_path):
    """Interrupted trials are failed; each place is told once; the study opens."""
    asked, journal = plan(trials=16), str(tmp_path / "j")
    with pytest.raises(KeyboardInterrupt):
        search(asked, Fake(merit, interrupt_at=7), journal)
    settled = search(asked, Fake(merit), journal)
    with open_study(journal, "test", asked.objectives) as (study, _):
        kept = study.get_trials()
    states = [trial.state.name for trial in kept]
    assert set(states) == {"COMPLETE", "FAIL"}
    complete = [trial for trial in kept if trial.state.name == "COMPLETE"]
    assert sorted(trial.user_attrs["place"] for trial in complete) == list(range(16))
    values = {trial.user_attrs["place"]: trial.value for trial in complete}
    assert values == {each.place: each.score.values[0] for each in settled}
    best = best_of(settled, asked.objectives)
    assert best.score.values[0] == max(values.values())


def test_a_torn_line_is_cut_off(tmp_path):
    asked, journal = plan(), tmp_path / "j"
    search(asked, Fake(merit), str(journal), 8)
    with journal.open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    (tmp_path / "j.lock").symlink_to(journal)  # of a process that was killed
    found = told(search(asked, Fake(merit), str(journal)))
    assert found == told(search(asked, Fake(merit)))


@pytest.mark.parametrize(
    "text", ["my notes", "my notes\n", "5\n", '{"a": 1}\n', "[" * 10**5 + "\n", "\0\n"]
)
@pytest.mark.parametrize("behind", [False, True])
def test_a_file_that_is_no_journal_is_left_alone(text, behind, tmp_path):
    asked, journal = plan(), tmp_path / "j"
    if behind:
        search(asked, Fake(merit), str(journal), 8)
    with journal.open("a") as file:
        file.write(text)
    before = journal.read_bytes()
    with pytest.raises(PolicyError, match="journal of Optuna's"):
        search(asked, Fake(merit), str(journal))
    assert journal.read_bytes() == before


def test_one_search_a_journal(tmp_path):
    asked, journal = plan(), str(tmp_path / "j")
    with (
        open_study(journal, "test", asked.objectives),
        pytest.raises(PolicyError, match="another search uses it"),
        open_study(journal, "test", asked.objectives),
    ):
        pass


BAD = [
    Score((math.nan,)),
    Score((math.inf,)),
    Score((-math.inf,)),
    Score(()),
    Score(fault="MemoryError: "),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_trials_are_never_best(bad):
    asked = plan(trials=24)
    settled = search(
        asked, Fake(lambda c: bad if c.policy.name == "guard" else merit(c))
    )
    failed = [each for each in settled if each.fault]
    assert {each.candidate.policy.name for each in failed} == {"guard"}
    assert len(settled) == 24
    assert best_of(settled, asked.objectives).candidate.policy.name != "guard"
    front = front_of(settled, asked.objectives)
    assert not any(each.fault for each in front)


def test_nothing_is_best_where_all_failed():
    asked = plan()
    settled = search(asked, Fake(lambda _: Score((math.nan,))))
    with pytest.raises(ValueError, match="all trials failed"):
        best_of(settled, asked.objectives)


def test_a_dead_process_is_tried_again_and_then_left(tmp_path):
    deaths = {}

    def score(candidate):
        label = candidate.label
        deaths[label] = deaths.get(label, 0) + 1
        if label == "guard" or (label == "marconi" and deaths[label] < 2):
            return Score(fault="its process died", crashed=True)
        return Score((merit(candidate),))

    asked, journal = plan(trials=8), str(tmp_path / "j")
    settled = search(asked, Fake(score), journal)
    by_label = {each.candidate.label: each for each in settled}
    assert by_label["guard"].fault == "its process died"
    assert deaths["guard"] == MOST_ATTEMPTS
    assert not by_label["marconi"].fault
    assert deaths["marconi"] == 2
    # Known when the search goes on: no fourth attempt.
    assert told(search(asked, Fake(score), journal)) == told(settled)
    assert deaths["guard"] == MOST_ATTEMPTS


def test_fronts():
    asked = plan(
        objectives=("token_hit_ratio", "stored_bytes"), kv_bytes_per_token=1, trials=24
    )

    def score(candidate):
        distance = candidate.as_json()["policy"].get("distance", 0)
        return Score((min(distance, 100) / 100, float(distance)))

    settled = search(asked, Fake(score))
    front = front_of(settled, asked.objectives)
    points = [each.score.values for each in front]
    assert points == sorted(points, reverse=True)
    assert len(set(points)) == len(points)
    for each in settled:
        hit, stored = each.score.values
        assert any(h >= hit and s <= stored for h, s in points)
    for hit, stored in points:
        better = [(h, s) for h, s in points if h >= hit and s <= stored]
        assert better == [(hit, stored)]


def test_a_timeout_begins_no_batch():
    asked = plan()
    settled = search(asked, Fake(merit), trials=8)
    assert len(settled) == 8
    from hotset.sim.ledger import Ledger
    from hotset.sim.trials import Search
    from hotset.sim.tune_plan import first_candidates

    with open_study(None, "test", asked.objectives) as kept:
        made = Search(
            Ledger(*kept), asked.space, asked.objectives, first_candidates(asked),
            "tpe", 0,
        )  # fmt: skip
        assert not made.run(Fake(merit), 16, timeout_s=1e-9)
        assert made.settled == []


@pytest.mark.parametrize(
    ("storage", "jobs", "said"),
    [
        ("sqlite:///x.db", 2, "not for parallel searches"),
        ("sqlite+pysqlite:///x.db", 2, "not for parallel searches"),
        ("redis://x", 1, "allowed are a file's name"),
    ],
)
def test_storages_that_are_refused(storage, jobs, said):
    with pytest.raises(PolicyError, match=said):
        check_storage(storage, jobs)


def test_storages_that_are_taken(tmp_path):
    check_storage("sqlite:///x.db", 1)
    check_storage("postgresql://somewhere/x", 8)
    check_storage(str(tmp_path / "a.journal"), 8)
    url = f"sqlite:///{tmp_path}/a.db"
    asked = plan()
    expected = told(search(asked, Fake(merit)))
    assert told(search(asked, Fake(merit), url, 9)) == expected[:9]
    assert told(search(asked, Fake(merit), url)) == expected


def test_a_storage_that_cannot_be_opened_shows_no_password(tmp_path):
    asked = plan()
    with (
        pytest.raises(PolicyError, match="--storage") as raised,
        open_study("postgresql://me:secret@localhost:1/x", "t", asked.objectives),
    ):
        pass
    assert "secret" not in str(raised.value)
    with (
        pytest.raises(PolicyError, match="--storage"),
        open_study(str(tmp_path / "no" / "j"), "t", asked.objectives),
    ):
        pass


def test_samplers_by_name():
    with pytest.raises(PolicyError, match="did you mean 'tpe'"):
        check_sampler("tpr")
